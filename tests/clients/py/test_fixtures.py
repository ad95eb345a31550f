"""The golden files of shared/contract/fixtures against docs/protocol.md: what the page's tables name is what the files hold.

    python -m unittest discover -s tests/clients/py -p 'test_fixtures.py'
"""
import json
import re
import sys
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import drive_turn  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "shared/contract/fixtures"
PAGE = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")


def read(name):
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def folder(name):
    return [(path.name, read(f"{name}/{path.name}")) for path in sorted((FIXTURES / name).glob("*.json"))]


def kind(file):
    return file.split(".")[0]


def table(heading):
    """The first table below a heading of the page: a list of rows, each a list of cells."""
    part = PAGE.split(f"\n### {heading}\n", 1)[1]
    rows = []
    for line in part.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


class Documented(unittest.TestCase):
    """Every field of every fixture stands in the page's table, and every field of the tables is in a fixture."""

    def compare(self, seen, heading):
        rows = table(heading)
        documented = {names(row[0])[0] for row in rows}
        self.assertEqual(documented, seen, heading)

    def test_jobs(self):
        self.compare({key for _, job in folder("job") for key in job}, "Job fields")

    def test_job_kinds(self):
        self.compare({job["kind"] for _, job in folder("job")}, "Job kinds")

    def test_envelope(self):
        self.compare({key for _, event in folder("event") for key in event}, "Envelope fields")

    def test_events(self):
        rows = {names(row[0])[0]: set(names(row[1])) for row in table("Event types")}
        seen = {}
        for file, event in folder("event"):
            seen.setdefault(kind(file), set()).update(event["data"])
            self.assertEqual(event["type"], kind(file))
        self.assertEqual(rows, seen)

    def test_turn_end_statuses(self):
        seen = {event["data"]["status"] for file, event in folder("event") if kind(file) == "turn_end"}
        self.assertEqual({names(row[0])[0] for row in table("How a turn ends")}, seen)

    def test_error_codes(self):
        rows = {names(row[0])[0]: row[1:] for row in table("Error codes")}
        codes = read("error_codes.json")
        self.assertEqual(set(rows), {code["code"] for code in codes})
        for code in codes:
            retry = "yes" if code["retryable"] else "no"
            self.assertEqual(rows[code["code"]], [str(code["http_status"]), retry, code["en"], code["ru"]])

    def test_file_warnings(self):
        codes = [code for row in table("Warnings about files") for code in names(row[0])]
        self.assertEqual(sorted(codes), sorted(warning["code"] for warning in read("file_warnings.json")))

    def test_limits(self):
        values = {names(row[0])[0]: row[1] for row in table("Limits")}
        limits = read("limits.json")
        self.assertEqual(set(values), set(limits))
        for name, value in limits.items():
            shown = f"{value:,}" if isinstance(value, int) else f"`{value}`"
            self.assertEqual(values[name], shown, name)

    def test_subjects(self):
        found = read("names.json")
        ids = {found["conversation_id"]: "<conv>", found["session"]: "<sess>", found["turn_id"]: "<turn>", str(uuid.UUID(int=0)): "<nil>"}
        for name, subject in found["subjects"].items():
            for value, mark in ids.items():
                subject = subject.replace(value, mark)
            self.assertIn(f"`{subject}`", PAGE, name)
        for name in [*found["streams"].values(), found["consumer"], found["bucket"], *found["headers"].values()]:
            self.assertIn(f"`{name}`", PAGE)


class Example(unittest.TestCase):
    """The example client builds exactly the documented shapes."""

    def test_conversation_ids(self):
        for row in read("conversation_ids.json"):
            self.assertEqual(drive_turn.conversation_id(row["user_id"], row["reference"]), row["conversation_id"])

    def test_jobs(self):
        allowed = {key for _, job in folder("job") for key in job}
        required = set(read("job/message.bare.json"))
        for action, call in (("message", None), ("confirm", "call_1"), ("deny", None), ("resume", None)):
            job = drive_turn.make_job("alice", "conv-1", "текст", action=action, tool_call_id=call)
            self.assertTrue(required <= set(job) <= allowed, job)
            self.assertEqual(job["kind"], action)
            self.assertEqual(uuid.UUID(job["turn_id"]).version, 7)

    def test_cancel(self):
        self.assertEqual(set(drive_turn.make_cancel("x", "alice")), set(read("control/cancel.json")))

    def test_subjects(self):
        found = read("names.json")
        job = {"conversation_id": found["conversation_id"], "session": found["session"], "turn_id": found["turn_id"]}
        wanted = {name: found["subjects"][name] for name in ("job", "event", "live_of_conversation", "cancel")}
        self.assertEqual(drive_turn.subjects(job), wanted)


if __name__ == "__main__":
    unittest.main()
