"""The values: closed, described, and still taking what was released."""
import base64
import json
import os
import re
import subprocess
import unittest
from pathlib import Path

import jsonschema
import yaml

import chart
import values_table
from chart import MATRIX, Refused, documents, pods, variables

SCHEMA = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS = yaml.safe_load((chart.CHART / "values.yaml").read_text(encoding="utf-8"))
#: Handed through as they are: Kubernetes' own types, checked where they end, and free texts.
OPEN = {
    "ingress.annotations", "ingress.extraAnnotations", "worker.backend.paths", "web.chatConfig",
    "monitoring.serviceMonitor.labels", "monitoring.prometheusRule.labels", "monitoring.dashboard.labels",
} | {f"{component}.{key}" for component in ("gateway", "worker", "web") for key in ("affinity", "nodeSelector", "podAnnotations", "podLabels", "service.annotations")} \
  | {f"{component}.resources.{key}" for component in ("gateway", "worker", "web", "migrate") for key in ("requests", "limits")}


def folders(values, path=()):
    """Path of every object in the values, the whole included."""
    if isinstance(values, dict):
        yield path
        for key, value in values.items():
            yield from folders(value, (*path, key))


def complaints(values):
    return [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(values)]


def read_by(component):
    """Variables that a program knows, from its config.rs."""
    if component == "migrate":
        component = "gateway"
    text = (chart.ROOT / component / "src/config.rs").read_text(encoding="utf-8")
    return set(re.findall(r'"([A-Z][A-Z0-9_]+)"', text)) | {"LOG"}


class Schema(unittest.TestCase):
    def test_the_defaults_and_every_value_set_fit(self):
        self.assertEqual(complaints(DEFAULTS), [])
        for name in MATRIX:
            documents(name)

    def test_an_unknown_key_fails_at_every_level(self):
        paths = list(folders(DEFAULTS))
        self.assertGreater(len(paths), 40)
        for path in paths:
            values = json.loads(json.dumps(DEFAULTS))
            folder = values
            for key in path:
                folder = folder[key]
            folder["unheardOf"] = "x"
            with self.subTest(".".join(path)):
                if ".".join(path) in OPEN:
                    self.assertEqual(complaints(values), [])
                else:
                    self.assertTrue([it for it in complaints(values) if "'unheardOf' was unexpected" in it])

    def test_helm_itself_refuses_it(self):
        with self.assertRaisesRegex(Refused, "additional properties 'sloots' not allowed"):
            documents("minimal", worker__sloots=9)

    def test_a_wrong_type_fails_everywhere(self):
        for path, default, _ in values_table.rows((chart.CHART / "values.yaml").read_text(encoding="utf-8")):
            values = json.loads(json.dumps(DEFAULTS))
            folder, key = values, path.split(".")[-1]
            for step in path.split(".")[:-1]:
                folder = folder[step]
            folder[key] = 7 if isinstance(default, (str, dict, list)) else "seven"
            if "Unavailable" in key:
                folder[key] = 0
            with self.subTest(path):
                self.assertTrue(complaints(values))

    def test_the_readme_has_every_value(self):
        self.assertEqual((chart.CHART / "README.md").read_text(encoding="utf-8"), values_table.readme(), "run tests/ops/values_table.py")
        described = {path for path, _, _ in values_table.rows((chart.CHART / "values.yaml").read_text(encoding="utf-8"))}
        for path in folders(DEFAULTS):
            folder = DEFAULTS
            for key in path:
                folder = folder[key]
            for key, value in folder.items():
                name = ".".join((*path, key))
                covered = any(name == it or name.startswith(it + ".") or it.startswith(name + ".") for it in described)
                self.assertTrue(covered, f"{name} has no comment")


class Effects(unittest.TestCase):
    def test_every_variable_is_one_that_the_program_reads(self):
        for name in MATRIX:
            for component in ("gateway", "worker", "migrate"):
                if f"chat-agentchat-{component}" not in pods(name):
                    continue
                with self.subTest(name, component=component):
                    # Their libraries read these; tests/it/telemetry.rs looks at the spans.
                    given = set(variables(name, component)) - {"RUST_BACKTRACE", "OTEL_EXPORTER_OTLP_ENDPOINT"}
                    if component == "migrate":
                        given -= {"LOG"}
                    self.assertEqual(given - read_by(component), set())

    def test_the_defaults_are_the_programs_own(self):
        """Where the manual gives a default, an untouched value is the same."""
        manual = {}
        text = (chart.ROOT / "docs/operations.md").read_text(encoding="utf-8")
        for names, defaults in re.findall(r"^\| ((?:`[A-Z0-9_]+`(?:, )?)+) \| ([^|]*) \|", text, re.MULTILINE):
            names, defaults = re.findall(r"`([A-Z0-9_]+)`", names), [it.strip(" `") for it in defaults.split(",")]
            if len(names) == len(defaults):
                manual.update(zip(names, defaults))
        differs = {
            "GATEWAY_LISTEN": "all addresses of the pod", "GATEWAY_PREFIX": "what the ingress leaves", "NATS_REPLICAS": "a cluster",
            "NATS_URL": "required", "WORKER_HEALTH_LISTEN": "on", "WORKER_NAME": "the pod's", "OPENAI_BASE_URL": "spelled out",
        }
        seen = 0
        for component in ("gateway", "worker"):
            for name, value in variables("minimal", component).items():
                default = manual.get(name, "")
                if value.startswith("[") or name in differs or not default or not re.fullmatch(r"[a-z0-9.]+", default) or default == "required":
                    continue
                seen += 1
                self.assertEqual(value, default, name)
        self.assertGreater(seen, 20)


PROGRAMS = Path(os.environ.get("AGENT_BIN_DIR") or Path(os.environ.get("CARGO_TARGET_DIR") or chart.ROOT / "target") / "debug")
SECRETS = {
    "[DATABASE_URL]": "postgres://user:password@127.0.0.1:1/none", "[JWT_SECRET]": "j" * 32, "[SEAL_KEY]": base64.b64encode(b"1" * 32).decode(),
    "[JWT_SECRETS_PREVIOUS]": "p" * 32, "[SEAL_KEYS_PREVIOUS]": base64.b64encode(b"2" * 32).decode(), "[SERVICE_CLIENT_SECRET]": "s" * 16, "[OPENAI_API_KEY]": "key", "[field]": "pod-1",
}
#: Nobody is there: a program that takes its settings looks for them, one that doesn't ends with 64 at once.
NOBODY = {"NATS_URL": "nats://127.0.0.1:1", "NATS_CREDS": "", "NATS_CA": "", "GATEWAY_LISTEN": "127.0.0.1:0", "WORKER_HEALTH_LISTEN": "127.0.0.1:0"}


@unittest.skipUnless((PROGRAMS / "gateway").exists() and (PROGRAMS / "worker").exists(), "no programs: cargo build --workspace --bins")
class Programs(unittest.TestCase):
    def exits(self, changes):
        """Exit codes, by value set and program; None for one that took its settings."""
        running = {}
        for name in MATRIX:
            for component in ("gateway", "worker"):
                env = {key: SECRETS.get(value, value) for key, value in variables(name, component).items()}
                running[name, component] = subprocess.Popen([PROGRAMS / component], env={**env, **NOBODY, **changes}, stderr=subprocess.DEVNULL)
        codes = {}
        for key, program in running.items():
            try:
                codes[key] = program.wait(timeout=1)
            except subprocess.TimeoutExpired:
                codes[key] = None
            program.kill()
            program.wait()
        return codes

    def test_they_take_what_the_chart_gives_them(self):
        codes = self.exits({})
        self.assertEqual(codes, dict.fromkeys(codes))

    def test_they_would_say_so(self):
        codes = self.exits({"DATABASE_URL": ""})
        self.assertEqual(codes, dict.fromkeys(codes, 64))


class Upgrade(unittest.TestCase):
    """What was released goes on: its values are taken, and nothing immutable changes."""

    RELEASED = chart.ROOT / "tests/ops/released"

    @staticmethod
    def identity(found):
        """What an upgrade can't change, or loses: names, selectors, addresses."""
        identity = {}
        for it in found:
            spec = it.get("spec", {})
            entry = {"apiVersion": it["apiVersion"]}
            if it["kind"] in ("Deployment", "PodDisruptionBudget", "Service", "NetworkPolicy", "ServiceMonitor"):
                entry["selector"] = spec.get("selector") or spec.get("podSelector")
            if it["kind"] == "Service":
                entry["clusterIP"] = spec.get("clusterIP", "")
            identity[f'{it["kind"]}/{it["metadata"]["name"]}'] = entry
        return identity

    def test_from_every_released_version(self):
        releases = sorted(self.RELEASED.glob("*.json"))
        self.assertTrue(releases)
        for file in releases:
            released = json.loads(file.read_text(encoding="utf-8"))
            for name, before in released.items():
                values = self.RELEASED / f"{file.stem}-{name}.yaml"
                now = self.identity(chart.rendered((values,), ()))
                with self.subTest(file.stem, values=name):
                    self.assertEqual({key: now.get(key) for key in before}, before)


if __name__ == "__main__":
    unittest.main()
