"""The fleet that the page's tests run against: NATS, Postgres, two gateways, three workers, nginx with the built page.

Prints one JSON line when everything is ready, then takes orders on standard input, one a line, and answers each with
"done": `kill worker-1` (SIGKILL). It ends with its input.
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/clients"))
from stack import Failed, Stack, stop_on_signals  # noqa: E402


def main():
    stop_on_signals()
    folder = Path(tempfile.mkdtemp(prefix="agentchat-web-"))
    folder.chmod(0o755)
    try:
        with Stack(folder) as stack:
            stack.web_root = folder / "www"
            shutil.copytree(ROOT / "web/dist", stack.web_root)
            stack.start()
            if not stack.nginx:
                raise Failed("no nginx: the page's tests run through it (tests/setup.sh)")
            stack.start_real_workers(3)
            facts = {"url": stack.nginx, "secret": stack.secret, "database": stack.database_url, "folder": str(folder)}
            print(json.dumps(facts), flush=True)
            for line in sys.stdin:
                verb, _, name = line.strip().partition(" ")
                if verb == "kill":
                    for child in stack.children:
                        if child.name == name:
                            child.kill()
                            child.wait()
                print("done", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
