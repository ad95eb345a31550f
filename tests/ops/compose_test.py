"""compose.yaml, Dockerfile and the scripts that containers start with."""
import base64
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import compose_spec
import yaml

import chart
from values_test import read_by

TEXT = (chart.ROOT / "compose.yaml").read_text(encoding="utf-8")
DOCKERFILE = (chart.ROOT / "Dockerfile").read_text(encoding="utf-8")


def interpolated(text):
    return re.sub(r"\$\{([A-Z_]+):?-([^}]*)\}", r"\2", text)


def services():
    return yaml.safe_load(interpolated(TEXT))["services"]


def parsed(text):
    document = {key: value for key, value in yaml.safe_load(interpolated(text)).items() if not key.startswith("x-")}
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(document)).validate()


class Compose(unittest.TestCase):
    def test_the_file_is_valid(self):
        parsed(TEXT)
        for wrong, instead in (("cap_drop:", "cap_dropped:"), ("networks: [fleet]", "networks: [fleets]"), ("read_only: true", "read_only: 7")):
            with self.subTest(instead), self.assertRaises(Exception):
                parsed(TEXT.replace(wrong, instead))

    def test_who_is_there(self):
        always = {name for name, service in services().items() if "profiles" not in service}
        demo = {name for name, service in services().items() if service.get("profiles") == ["demo"]}
        self.assertEqual(always, {"nats", "postgres", "migrate", "gateway-1", "gateway-2", "worker-1", "worker-2", "web"})
        self.assertEqual(demo, {"backend", "model"})

    def test_ours_are_locked_down(self):
        for name, service in services().items():
            if name in ("nats", "postgres"):
                continue
            with self.subTest(name):
                self.assertIs(service["read_only"], True)
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertNotIn("user", service)
                self.assertNotIn("privileged", service)

    def test_no_secret_is_in_the_environment(self):
        for name, service in services().items():
            for variable in service.get("environment", {}):
                self.assertFalse(re.search(r"(SECRET|KEY|PASSWORD|DATABASE_URL)$", variable), f"{name}: {variable}")
            for variable, path in service.get("environment", {}).items():
                if variable.endswith("_FILE"):
                    self.assertIn(path.removeprefix("/run/secrets/"), service["secrets"])

    def test_every_variable_is_one_that_the_program_reads(self):
        for name in ("gateway-1", "worker-1", "migrate"):
            given = {variable.removesuffix("_FILE") for variable in services()[name]["environment"]}
            self.assertEqual(given - read_by(name.partition("-")[0]), set(), name)

    def test_what_is_waited_for_has_a_health_check(self):
        for name, service in services().items():
            for other, condition in service.get("depends_on", {}).items():
                if condition["condition"] == "service_healthy":
                    self.assertIn("healthcheck", services()[other], f"{name} waits for {other}")

    def test_versions_are_pinned(self):
        for name, service in services().items():
            if "build" not in service:
                self.assertRegex(service["image"], r":\d+(\.\d+)?", name)
        for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
            if ":" in image or "/" in image:
                self.assertRegex(image, r":\d+(\.\d+)*-", image)

    def test_every_target_exists(self):
        targets = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
        for name, service in services().items():
            if "build" in service:
                target = service["build"]["target"]
                self.assertIn(target, targets, name)
                self.assertTrue(service["image"].startswith(f"agentchat/{target}:"), name)


class Dockerfile(unittest.TestCase):
    def stages(self):
        parts = re.split(r"^FROM (?:\S+) AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2]))

    def test_images_run_without_rights_and_without_a_shell(self):
        for target in ("gateway", "worker", "web", "agentctl", "demo"):
            with self.subTest(target):
                stage = self.stages()[target]
                self.assertIn("USER 65532:65532", stage)
                entry = re.search(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", stage, re.MULTILINE)
                self.assertTrue(json.loads(entry.group(1))[0].startswith("/"))
        for target in ("gateway", "worker", "web"):
            self.assertIn("HEALTHCHECK", self.stages()[target])

    def test_the_compiler_is_the_projects(self):
        version = re.search(r'channel = "([0-9.]+)"', (chart.ROOT / "rust-toolchain.toml").read_text(encoding="utf-8")).group(1)
        self.assertIn(f"FROM rust:{version}-", DOCKERFILE)
        self.assertIn(f"RUSTUP_TOOLCHAIN={version} ", DOCKERFILE)
        self.assertIn("--locked", DOCKERFILE)


class Scripts(unittest.TestCase):
    def test_secrets_are_made_once_and_fit(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "secrets"
            program = [chart.ROOT / "docker/make_secrets.py", folder]
            subprocess.run(program, check=True)
            first = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
            subprocess.run(program, check=True)
            self.assertEqual(first, {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()})
            self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
            self.assertGreaterEqual(len(first["jwt_secret"]), 32)
            self.assertEqual(len(base64.b64decode(first["seal_key"])), 32)
            self.assertGreaterEqual(len(first["service_client_secret"]), 16)
            self.assertIn(first["postgres_password"], first["database_url"])
            mounted = {Path(it["file"]).name for it in yaml.safe_load(TEXT)["secrets"].values()} | {"chat-config.json"}
            self.assertEqual(set(first), mounted)
            users = json.loads(first["chat-config.json"])["demo_users"]
            self.assertEqual([user["name"] for user in users], ["alice", "bob"])
            for user in users:
                self.assertEqual(user["token"].count("."), 2)

    def test_the_page_proxy_follows_its_gateways(self):
        with tempfile.TemporaryDirectory() as scratch:
            hosts = Path(scratch) / "hosts"
            stubs = {
                # Says what it was told to read, at a start and at a reload; a start ends when its input does.
                "nginx": 'case "$*" in *reload*) echo reloaded;; esac\nwhile [ "$1" != -c ]; do shift; done\ngrep -o "server [^ ]*:80.*" "$2"\necho .\n'
                'case "$*" in *reload*) ;; *) read -r _ ;; esac\n',
                "getent": f'grep " $2$" {hosts}\n',
                "sleep": f"while [ ! -e {scratch}/wake ]; do /bin/sleep 0.02; done; rm {scratch}/wake\n",
            }
            for name, text in stubs.items():
                (Path(scratch) / name).write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
                (Path(scratch) / name).chmod(0o755)
            env = {"PATH": f"{scratch}:{os.environ['PATH']}", "NGINX_TEMPLATE": str(chart.ROOT / "web/nginx.conf"), "NGINX_RUN": f"{scratch}/run", "GATEWAYS": "one:8080 two:8081"}
            start = [chart.ROOT / "docker/web.sh"]
            hosts.write_text("10.0.0.1 one\nfd00::2 two\n", encoding="utf-8")
            with subprocess.Popen(start, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as running:
                self.assertEqual(said(running), ["server 10.0.0.1:8080 max_fails=0; server [fd00::2]:8081 max_fails=0; "])
                # One is being made anew: it has no address, then another one.
                for now, then in (("fd00::2 two", "server [fd00::2]:8081 max_fails=0; "), ("10.0.0.9 one\nfd00::2 two", "server 10.0.0.9:8080 max_fails=0; server [fd00::2]:8081 max_fails=0; ")):
                    hosts.write_text(now + "\n", encoding="utf-8")
                    (Path(scratch) / "wake").touch()
                    self.assertEqual(said(running), ["reloaded", then])
                os.killpg(running.pid, signal.SIGKILL)
            settings = (Path(scratch) / "run/nginx.conf").read_text(encoding="utf-8")
            self.assertNotIn("${", re.sub(r"(?m)^ *#.*", "", settings))
            for wrong in ("", "one", "one:8080;", "a:1:2", "$(id):1", ":80", "nobody:80"):
                done = subprocess.run(start, env={**env, "GATEWAYS": wrong}, capture_output=True, stdin=subprocess.DEVNULL, check=False)
                self.assertNotEqual(done.returncode, 0, wrong)


def said(running):
    return [line.rstrip("\n") for line in iter(running.stdout.readline, ".\n")]


if __name__ == "__main__":
    unittest.main()
