"""values_table.py: writes helm/agentchat/README.md from the comments in values.yaml; `--check` only compares."""
import json
import re
import sys

import yaml

import chart

INTRO = """# agentchat

Gateways, workers and the chat page. NATS with JetStream (2.12 or newer) and Postgres (15 or newer) are given, and a Secret, or a store that
the External Secrets operator reads. How to run it: [docs/operations.md](../../docs/operations.md#on-kubernetes). Unknown values are refused.

The Secret has the keys `DATABASE_URL`, `JWT_SECRET` (at least 32 bytes), `SEAL_KEY` (base64 of 32 bytes), `SERVICE_CLIENT_SECRET`, and where
they are needed `OPENAI_API_KEY`, `JWT_SECRETS_PREVIOUS` and `SEAL_KEYS_PREVIOUS`; `secrets.keys` renames them.

| value | default | meaning |
|---|---|---|
"""
KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z][A-Za-z0-9]*):(?P<value>.*)$")


class Undescribed(Exception):
    pass


def rows(text):
    """Path, default and comment of every value; a folder of values needs no comment."""
    defaults = yaml.safe_load(text)
    path, comment, inside, found = [], [], None, []
    for line in text.splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if inside is not None and stripped and indent > inside:
            continue
        inside = None
        if stripped.startswith("# "):
            comment.append(stripped[2:])
            continue
        match = KEY.match(line)
        if not match:
            comment = []
            continue
        path[len(match["indent"]) // 2 :] = [match["key"]]
        value = defaults
        for key in path:
            value = value[key]
        if comment:
            found.append((".".join(path), value, " ".join(comment)))
            inside = indent
        elif not isinstance(value, dict) or not value:
            raise Undescribed(".".join(path))
        comment = []
    return found


def readme():
    lines = []
    for path, default, comment in rows((chart.CHART / "values.yaml").read_text(encoding="utf-8")):
        shown = json.dumps(default).replace("|", r"\|")
        comment = comment.replace("|", r"\|")
        lines.append(f"| `{path}` | `{shown}` | {comment} |")
    return INTRO + "\n".join(lines) + "\n"


if __name__ == "__main__":
    target = chart.CHART / "README.md"
    if sys.argv[1:] == ["--check"]:
        sys.exit(target.read_text(encoding="utf-8") != readme())
    target.write_text(readme(), encoding="utf-8")
