"""The story of tests/compose.sh, told to a running compose project: containers.py docker|podman."""
import collections
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
from gradio_client import Client

ROOT = Path(__file__).resolve().parents[2]
ENGINE = sys.argv[1]
COMPOSE = ["docker", "compose"] if ENGINE == "docker" else ["podman-compose"]
SITE = f"http://{os.environ['LISTEN']}"
USERS = {user["name"]: user["token"] for user in json.loads((ROOT / ".compose/chat-config.json").read_text(encoding="utf-8"))["demo_users"]}
OURS = ("worker-1", "worker-2", "gateway-1", "gateway-2")
WORDS = 150


class Failed(Exception):
    pass


def need(truth, what):
    if not truth:
        raise Failed(what)


def run(*arguments, check=True, timeout=180):
    done = subprocess.run([str(it) for it in arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout)
    if check and done.returncode:
        raise Failed(f"{' '.join(map(str, arguments))} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def compose(*arguments, **options):
    return run(*COMPOSE, "--profile", "demo", *arguments, **options)


def container(service):
    names = run(ENGINE, "ps", "--all", "--filter", f"label=com.docker.compose.service={service}", "--format", "{{.Names}}").stdout.split()
    names = [name for name in names if os.environ["COMPOSE_PROJECT_NAME"] in name and "_tmp" not in name]
    need(len(names) == 1, f"containers of {service}: {names}")
    return names[0]


def state(service, field):
    return run(ENGINE, "inspect", "--format", f"{{{{.State.{field}}}}}", container(service)).stdout.strip()


def until(what, truth, seconds=90):
    end = time.monotonic() + seconds
    while not truth():
        need(time.monotonic() < end, f"{what}: not within {seconds} s")
        time.sleep(0.2)


def healthy(service):
    if ENGINE == "docker":
        return state(service, "Health.Status") == "healthy"
    # Podman leaves health checks to systemd's timers; here is none.
    return run(ENGINE, "healthcheck", "run", container(service), check=False).returncode == 0


def wait_healthy(*services):
    for service in services:
        until(f"{service} is healthy", lambda service=service: healthy(service))


def start_everything():
    if ENGINE == "docker":
        compose("up", "--detach", "--wait", "--no-build", timeout=300)
        return
    # The order that depends_on asks for; podman of this age can't wait for health.
    compose("up", "--detach", "--no-deps", "--no-build", "nats", "postgres", "backend", "model")
    wait_healthy("nats", "postgres")
    compose("up", "--detach", "--no-deps", "--no-build", "migrate")
    until("the migration is done", lambda: state("migrate", "Status") == "exited")
    need(state("migrate", "ExitCode") == "0", "the migration failed")
    compose("up", "--detach", "--no-deps", "--no-build", *OURS)
    wait_healthy("gateway-1", "gateway-2")
    compose("up", "--detach", "--no-deps", "--no-build", "web")
    wait_healthy("web", "worker-1", "worker-2")


# ---- clients


def connect(user="alice"):
    headers = {"Authorization": f"Bearer {USERS[user]}"}
    return Client(f"{SITE}/api/agent/gradio", verbose=False, analytics_enabled=False, headers=headers)


def metadata(value):
    return value.get("metadata") or {}


class Turn:
    """One question of a stock client, followed over whatever becomes of its stream."""

    def __init__(self, text, conversation):
        self.text, self.conversation, self.values, self.attempts = text, conversation, [], 0

    def ask(self, action=None):
        self.attempts += 1
        text = {"text": "" if action else self.text, "files": []}
        return connect().submit(text, self.conversation, action, api_name="/chat")

    def take(self, job):
        """True when the stream came to the turn's own end."""
        for value in job:
            if "cursor" in metadata(value):
                self.values.append(value)
        return any(metadata(value).get("type") == "turn_end" for value in self.values)

    def finish(self, seconds=90):
        end, action = time.monotonic() + seconds, None
        while time.monotonic() < end:
            try:
                if self.take(self.ask(action)):
                    return self
            except Exception as error:  # noqa: BLE001: a cut stream has many names in this client
                self.trouble = repr(error)
            # A person's page does the same: it attaches, and sends again what nobody knows of.
            action = f"attach:{metadata(self.values[-1])['cursor']}" if self.values else None
            time.sleep(0.3)
        raise Failed(f"{self.conversation}: no end within {seconds} s; {len(self.values)} values; {getattr(self, 'trouble', '')}")

    def status(self):
        return [metadata(value)["status"] for value in self.values if metadata(value).get("type") == "turn_end"]


def history(conversation):
    page = httpx.get(f"{SITE}/api/assistant/history", params={"conversation_id": conversation}, headers={"Authorization": f"Bearer {USERS['alice']}"})
    return [(item["role"], item["content"]) for item in page.raise_for_status().json()["items"]]


# ---- the story


def everybody_is_up():
    start_everything()
    for service in OURS + ("web",):
        user = run(ENGINE, "inspect", "--format", "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}", container(service)).stdout.split()
        need(user == ["65532:65532", "true"], f"{service} runs as {user}")


def the_page_is_served():
    page = httpx.get(f"{SITE}/").raise_for_status().text
    parts = re.findall(r'(?:src|href)="(?:\./)?(assets/[^"]+|boot\.js)"', page)
    need(parts, page)
    for part in parts:
        httpx.get(f"{SITE}/{part}").raise_for_status()
    need(httpx.get(f"{SITE}/chat-config.json").json()["demo_users"][0]["name"] == "alice", "not the mounted configuration")


def a_client_chats():
    turn = Turn("покажи дашборды с проблемами валидации", "compose-chat").finish()
    need(turn.status() == ["completed"], turn.values[-1:])
    types = [metadata(value).get("type") for value in turn.values]
    need("tool_end" in types, types)
    need([role for role, _ in history("compose-chat")] == ["user", "assistant"], history("compose-chat"))


def busy_worker(client_values):
    """The service whose worker runs the turn: the one that says so in `agentctl workers`."""
    report = json.loads(compose("--profile", "tools", "run", "--rm", "--no-deps", "-T", "agentctl", "workers", "--json").stdout)
    workers = report["workers"]
    busy = [worker for worker in workers if worker["running"]]
    need(busy, report)
    for service in ("worker-1", "worker-2"):
        host = run(ENGINE, "inspect", "--format", "{{.Config.Hostname}}", container(service)).stdout.strip()
        if any(host in json.dumps(worker) for worker in busy):
            return service
    raise Failed(f"{busy}: of no container, after {client_values} values")


def a_worker_is_killed():
    turn = Turn(f"bench {WORDS} 60", "compose-kill")
    job = turn.ask()
    until("the answer has begun", lambda: len(job.outputs()) > 5)
    service = busy_worker(len(job.outputs()))
    run(ENGINE, "kill", "--signal", "KILL", container(service))
    began = time.monotonic()
    need(turn.take(job) or turn.finish(), "no end")
    need(turn.status() == ["completed"], turn.values[-1:])
    types = collections.Counter(metadata(value).get("type") for value in turn.values)
    need(types["rewind"] >= 1, types)
    need(history("compose-kill")[1][1].split() == ["token"] * WORDS, history("compose-kill"))
    print(f"  {service} was killed; its turn ended {time.monotonic() - began:.1f} s later, whole")
    run(ENGINE, "start", container(service))
    wait_healthy(service)


def everything_is_restarted():
    stop, turns, failures = threading.Event(), [], []

    def chat(number):
        count = 0
        while not stop.is_set():
            count += 1
            turn = Turn("bench 40 50", f"compose-rolling-{number}-{count}")
            try:
                turns.append(turn.finish())
            except Failed as failed:
                failures.append(str(failed))

    clients = [threading.Thread(target=chat, args=[number]) for number in range(4)]
    for client in clients:
        client.start()
    try:
        for service in OURS:
            before, name = len(turns), container(service)
            run(ENGINE, "stop", "--time", "60", name)
            code = state(service, "ExitCode")
            need(code == "0", f"{service} ended with {code} on SIGTERM")
            run(ENGINE, "start", name)
            wait_healthy(service)
            until("turns go on", lambda before=before: len(turns) > before + 2)
    finally:
        stop.set()
        for client in clients:
            client.join(120)
    need(not failures, failures)
    for turn in turns:
        need(turn.status() == ["completed"], turn.values[-1:])
        need(history(turn.conversation)[1][1].split() == ["token"] * 40, history(turn.conversation))
        need(len(history(turn.conversation)) == 2, history(turn.conversation))
    again = sum(turn.attempts > 1 for turn in turns)
    print(f"  {len(turns)} turns over four restarts, {again} of them over more than one stream, none lost or cut")


def main():
    stories = [everybody_is_up, the_page_is_served, a_client_chats, a_worker_is_killed, everything_is_restarted]
    compose("down", "--volumes", check=False)
    try:
        for story in stories:
            began = time.monotonic()
            story()
            print(f"ok {story.__name__} ({time.monotonic() - began:.0f} s)")
    except Failed as failed:
        print(f"FAILED: {failed}")
        for service in (*OURS, "web", "migrate"):
            names = run(ENGINE, "ps", "--all", "--filter", f"label=com.docker.compose.service={service}", "--format", "{{.Names}}").stdout.split()
            for name in names:
                done = run(ENGINE, "logs", "--tail", "15", name, check=False)
                print(f"--- {name}\n{(done.stdout + done.stderr)[-2500:]}")
        return 1
    finally:
        compose("down", "--volumes", "--timeout", "5", check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
