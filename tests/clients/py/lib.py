"""What the Python scenarios share: options, tokens, the stock client, raw HTTP, and the runner.

Each scenario runs in a process of its own, so that a client that hangs cannot stop the suite.
"""
import argparse
import base64
import hashlib
import hmac
import json
import multiprocessing
import os
import sys
import threading
import time
import uuid

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio_client  # noqa: E402
import httpx  # noqa: E402
from gradio_client import Client  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--base", required=True, help="where the clients connect")
parser.add_argument("--peer", help="another gateway of the same fleet")
parser.add_argument("--rest", help="where /api/... is served")
parser.add_argument("--worker", default="foreign", choices=["foreign", "real"])
parser.add_argument("--only")
parser.add_argument("--parallel", type=int, default=4)
parser.add_argument("--list", action="store_true")
A = parser.parse_args()
A.base = A.base.rstrip("/")
A.peer = (A.peer or A.base).rstrip("/")
A.rest = (A.rest or A.base).rstrip("/")
API = "/gradio_api"
VERSION = tuple(int(x) for x in gradio_client.__version__.split(".")[:2])
RUN = uuid.uuid4().hex[:8]


class Skip(Exception):
    pass


def token(name, seconds=3600, **claims):
    encode = lambda x: base64.urlsafe_b64encode(x).decode().rstrip("=")  # noqa: E731
    payload = {"sub": f"{name}-{RUN}", "exp": int(time.time()) + seconds, **claims}
    head = encode(b'{"alg":"HS256","typ":"JWT"}') + "." + encode(json.dumps(payload).encode())
    secret = os.environ["JWT_SECRET"].encode()
    return head + "." + encode(hmac.new(secret, head.encode(), hashlib.sha256).digest())


def bearer(jwt):
    return {"Authorization": f"Bearer {jwt}"}


ALICE, BOB = bearer(token("alice")), bearer(token("bob"))


def connect(headers=None, base=None):
    return Client(base or A.base, verbose=False, analytics_enabled=False, headers=ALICE if headers is None else headers)


def conversation(word="py"):
    return f"{word}-{uuid.uuid4().hex[:12]}"


def msg(text, files=()):
    return {"text": text, "files": list(files)}


def submit(client, text, conv=None, action=None, files=()):
    return client.submit(msg(text, files), conv or conversation(), action, api_name="/chat")


def predict(client, text, conv=None, action=None, files=()):
    return client.predict(msg(text, files), conv or conversation(), action, api_name="/chat")


def outputs(job, limit=40):
    """All values of a submission (the stock iterator has no time limit)."""
    end = time.monotonic() + limit
    while not job.done():
        need(time.monotonic() < end, f"the job did not finish within {limit} s; {len(job.outputs())} values")
        time.sleep(0.01)
    job.result(timeout=1)
    return list(job.outputs())


def at_least(job, count, limit=15):
    end = time.monotonic() + limit
    while len(job.outputs()) < count:
        need(time.monotonic() < end, f"only {len(job.outputs())} values within {limit} s")
        time.sleep(0.01)


def kind(message):
    need(isinstance(message, dict) and message.get("role") == "assistant" and "content" in message, repr(message))
    return (message.get("metadata") or {}).get("type", "plain")


def types(messages):
    return [kind(m) for m in messages]


def tokens(messages):
    return "".join(m["metadata"]["token"] for m in messages if kind(m) == "stream_token")


def error_of(messages):
    return next((m["metadata"] for m in messages if kind(m) == "error"), None)


def echo_of(message):
    return json.loads(message["content"])


def post(path, body, headers=None, base=None):
    return httpx.post((base or A.base) + API + path, json=body, headers=ALICE if headers is None else headers, timeout=20)


def need(condition, text):
    if not condition:
        raise AssertionError(text)


def same(seen, wanted, what="value"):
    need(seen == wanted, f"{what} is {str(seen)[:300]}, not {str(wanted)[:300]}")


# ---- runner


def child(scenario, pipe):
    sys.stderr = open(os.devnull, "w")
    try:
        scenario()
        pipe.send(("PASS", ""))
    except Skip as why:
        pipe.send(("SKIP", str(why)))
    except BaseException as problem:  # noqa: BLE001: whatever it is, it is the scenario's result
        pipe.send(("FAIL", f"{type(problem).__name__}: {str(problem)[:400]}"))
    os._exit(0)


def run(name, scenario, limit=100):
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    started = time.monotonic()
    process = context.Process(target=child, args=(scenario, theirs))
    process.start()
    theirs.close()
    try:
        state, why = mine.recv() if mine.poll(limit) else ("FAIL", f"hangs ({limit} s)")
    except EOFError:
        state, why = "FAIL", "the process died"
    process.join(2)
    if process.is_alive():
        process.kill()
    print(f"{state} {name} ({int((time.monotonic() - started) * 1000)} ms){': ' + why if why else ''}", flush=True)
    return state


def run_all(scenarios):
    only = A.only.split(",") if A.only else None
    chosen = [(s.__name__, s) for s in scenarios if not only or s.__name__ in only]
    if A.list:
        print("\n".join(name for name, _ in chosen))
        return 0
    print(f"# gradio_client {gradio_client.__version__} against {A.base} (worker {A.worker})", flush=True)
    results, lock = [], threading.Lock()

    def lane():
        while True:
            with lock:
                if not chosen:
                    return
                name, scenario = chosen.pop(0)
            results.append(run(name, scenario))

    lanes = [threading.Thread(target=lane) for _ in range(A.parallel)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    passed, failed, skipped = (results.count(s) for s in ("PASS", "FAIL", "SKIP"))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0
