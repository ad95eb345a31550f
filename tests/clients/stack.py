"""Everything the client suites talk to, on free loopback ports: NATS, Postgres, two gateways, a worker, proxies.

    with Stack(folder) as stack:
        stack.start("foreign")     # or "real"
        ... stack.direct, stack.nginx, stack.round_robin ...

All processes are children of this one and end with it, by pid.
"""
import base64
import ctypes
import os
import secrets
import signal
import socket
import string
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TOOLS = ROOT / ".tools"
PREFIX = "/api/agent/gradio"
LEEWAY_S = 1


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def tool(variable, *parts):
    return os.environ.get(variable) or str(TOOLS.joinpath(*parts))


def binaries():
    target = os.environ.get("CARGO_TARGET_DIR") or str(ROOT / "target")
    return Path(os.environ.get("AGENT_BIN_DIR") or Path(target) / "debug")


class Failed(Exception):
    pass


class Stack:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self.children = []
        self.secret = secrets.token_hex(24)
        self.seal_key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.service = {"SERVICE_CLIENT_ID": "agent", "SERVICE_CLIENT_SECRET": secrets.token_hex(16)}
        self.nginx = None
        self.spares = []
        self.backend_url = ""
        self.web_root = None  # the built page, where a suite wants it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # ---- processes

    def spawn(self, name, arguments, **env):
        log = open(self.folder / f"{name}.log", "ab")
        child = subprocess.Popen(
            [str(a) for a in arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
            env={**os.environ, **{k: str(v) for k, v in env.items()}}, preexec_fn=die_with_parent,
        )
        child.name = name
        self.children.append(child)
        return child

    def run(self, name, arguments, **env):
        child = self.spawn(name, arguments, **env)
        code = child.wait(timeout=60)
        self.children.remove(child)
        if code:
            raise Failed(f"{name} ended with {code}\n{self.tail(name)}")

    def tail(self, name, lines=25):
        text = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def wait(self, child, what, ready, seconds=30):
        end = time.monotonic() + seconds
        while not ready():
            if child.poll() is not None:
                raise Failed(f"{child.name} ended with {child.returncode} before {what}\n{self.tail(child.name)}")
            if time.monotonic() > end:
                raise Failed(f"{child.name}: no {what} within {seconds} s\n{self.tail(child.name)}")
            time.sleep(0.05)

    def stop(self, children=None):
        """The newest first; politely, then not."""
        children = list(reversed(self.children if children is None else children))
        for child in children:
            if child.poll() is None:
                child.terminate()
        end = time.monotonic() + 8
        for child in children:
            try:
                child.wait(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            self.children.remove(child)

    # ---- servers

    def start_nats(self):
        port, monitor = free_port(), free_port()
        self.nats_url, self.monitor_url = f"nats://127.0.0.1:{port}", f"http://127.0.0.1:{monitor}"
        program = tool("NATS_SERVER_BIN", "bin", "nats-server")
        # Left to itself the server offers three quarters of what the disk has left.
        config = self.folder / "nats.conf"
        config.write_text(f'jetstream {{ store_dir: "{self.folder / "nats"}", max_file_store: 16GB }}\n')
        child = self.spawn("nats", [program, "-a", "127.0.0.1", "-p", port, "-m", monitor, "-c", config])
        self.wait(child, "health", lambda: answers(f"http://127.0.0.1:{monitor}/healthz"))

    def start_postgres(self):
        bin_dir, data, port = Path(tool("POSTGRES_BIN", "postgres", "bin")), self.folder / "postgres", free_port()
        # initdb refuses root: run as another id inside a user namespace; the files stay ours.
        prefix = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"] if os.geteuid() == 0 else []
        self.run("initdb", [*prefix, bin_dir / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"])
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200"]
        child = self.spawn("postgres", [*prefix, bin_dir / "postgres", "-D", data, "-p", port, *settings])
        self.database_url = f"postgres://postgres@127.0.0.1:{port}/postgres"
        log = self.folder / "postgres.log"
        self.wait(child, "readiness", lambda: "ready to accept connections" in log.read_text(errors="replace"))

    def start_gateways(self, count=2):
        env = {
            "NATS_URL": self.nats_url, "DATABASE_URL": self.database_url, "JWT_SECRET": self.secret, "JWT_LEEWAY_S": LEEWAY_S,
            "SEAL_KEY": self.seal_key, **self.service,
        }
        self.run("migrate", [binaries() / "gateway", "migrate"], **env)
        self.gateway_env = env
        self.gateways = [self.start_gateway(f"gateway-{number}") for number in range(1, count + 1)]
        self.direct = [f"http://{address}" for address, _ in self.gateways]

    def start_gateway(self, name, **more):
        address = f"127.0.0.1:{free_port()}"
        child = self.spawn(name, [binaries() / "gateway"], GATEWAY_LISTEN=address, **self.gateway_env, **more)
        self.wait(child, "readiness", lambda: answers(f"http://{address}/healthz/ready"))
        return address, child

    def start_proxies(self):
        """nginx with the prefix, as in production; and a plain proxy that sends each request to another gateway."""
        port = free_port()
        program = tool("NGINX_BIN", "bin", "nginx")
        if Path(program).exists():
            run = self.folder / "nginx"
            run.mkdir(exist_ok=True)
            template = string.Template((ROOT / "web/nginx.conf").read_text(encoding="utf-8"))
            text = template.safe_substitute(
                NGINX_LISTEN=f"127.0.0.1:{port}", NGINX_RUN=run, WEB_ROOT=self.web_root or run,
                GATEWAY_SERVERS=" ".join(f"server {address} max_fails=0;" for address, _ in self.gateways),
            )
            (run / "nginx.conf").write_text(text, encoding="utf-8")
            child = self.spawn("nginx", [program, "-e", "stderr", "-p", run, "-c", run / "nginx.conf"])
            self.wait(child, "readiness", lambda: answers(f"http://127.0.0.1:{port}/healthz/ready"))
            self.nginx = f"http://127.0.0.1:{port}"
        port = free_port()
        child = self.spawn("round-robin", ["node", HERE / "js/round_robin.mjs", str(port), *self.direct])
        self.wait(child, "readiness", lambda: answers(f"http://127.0.0.1:{port}/healthz/ready"))
        self.round_robin = f"http://127.0.0.1:{port}"

    def start_foreign_workers(self):
        workers = []
        for number in (1, 2):
            name = f"foreign-{number}"
            child = self.spawn(name, [TOOLS / "py/bin/python", "-u", HERE / "foreign_worker.py", "--slots", "48"], NATS_URL=self.nats_url)
            self.wait(child, "readiness", lambda: "ready" in (self.folder / f"{name}.log").read_text())
            workers.append(child)
        return workers

    def start_real_workers(self, count=2):
        model, backend = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.backend_url = f"http://{backend}"
        env = {
            "NATS_URL": self.nats_url, "DATABASE_URL": self.database_url, "JWT_SECRET": self.secret, "SEAL_KEY": self.seal_key,
            "OPENAI_BASE_URL": f"http://{model}/v1", "OPENAI_API_KEY": "scripted-model-key", "OPENAI_MODEL": "scripted",
            "BACKEND_URL": self.backend_url, "SERVICE_TOKEN_URL": f"{self.direct[0]}/api/auth/service-token",
            "TURNS_PER_USER": 64, **self.service,
        }
        children = [
            self.spawn("model", [binaries() / "llm"], LLM_PORT=model.split(":")[1], **env),
            self.spawn("backend", [binaries() / "backend"], BACKEND_PORT=backend.split(":")[1], **env),
        ]
        for child, address in zip(children, (model, backend)):
            self.wait(child, "port", lambda: listening(address))
        self.worker_env = env
        for number in range(1, count + 1):
            child, health = self.spawn_worker(f"worker-{number}")
            self.wait(child, "readiness", lambda: answers(f"http://{health}/healthz/ready"))
            children.append(child)
        return children

    def spawn_worker(self, name, **more):
        """The process, and the address of its health pages; it takes a moment to be ready."""
        health = f"127.0.0.1:{free_port()}"
        return self.spawn(name, [binaries() / "worker"], WORKER_NAME=name, WORKER_HEALTH_LISTEN=health, **{**self.worker_env, **more}), health

    def start(self):
        self.start_nats()
        self.start_postgres()
        self.start_gateways()
        self.start_proxies()
        return self

    def token(self, name, seconds=3600):
        import jwt

        return jwt.encode({"sub": name, "exp": int(time.time()) + seconds}, self.secret, algorithm="HS256")

    def env(self):
        return {"JWT_SECRET": self.secret, "JWT_LEEWAY_S": str(LEEWAY_S), "NATS_URL": self.nats_url, "SEAL_KEY": self.seal_key, "BACKEND_URL": self.backend_url}


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def listening(address):
    host, port = address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except OSError:
        return False


def stop_on_signals():
    def leave(number, _):
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
