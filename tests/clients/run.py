"""Starts a whole fleet and runs client suites against it. Called by run.sh and conformance.sh.

    python run.py suites [--joins 2000] [--clients 2.7.0,py-2.7.2] [--workers foreign,real] [--keep]
    python run.py conformance [...]
    python run.py up --workers real       # only starts it all, prints where it is, and waits for Ctrl-C

Prints a table of all suites at the end; exits with 1 if one of them failed.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stack import HERE, PREFIX, ROOT, TOOLS, Failed, Stack, stop_on_signals

NODES = ["2.7.0", "1.19.1", "1.15.6"]
PYTHONS = ["2.7.2", "1.14.0"]
REFERENCE = ROOT / "../shared/gradio"
LANES = 3


class Suite:
    """One run of one client against one address."""

    def __init__(self, name, command, **env):
        self.name, self.command, self.env = name, [str(c) for c in command], env
        self.state, self.summary, self.seconds = "FAIL", "did not run", 0

    def run(self, folder, env):
        started = time.monotonic()
        log = folder / (re.sub(r"[^A-Za-z0-9.]+", "-", self.name) + ".log")
        with open(log, "w", encoding="utf-8") as out:
            try:
                done = subprocess.run(self.command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=420, env={**os.environ, **env, **self.env})
                self.state = "pass" if done.returncode == 0 else "FAIL"
            except subprocess.TimeoutExpired:
                out.write("FAIL the whole suite took over 420 s\n")
        self.seconds = time.monotonic() - started
        text = log.read_text(encoding="utf-8")
        found = [line for line in text.splitlines() if re.search(r"\d+ passed|^OK|^Ran|^FAILED|^# pass|^# fail", line)]
        self.summary = " ".join(found[-2:]) if found else (text.splitlines() or ["no output"])[-1]
        marks = ("FAIL", "not ok", "ERROR") if self.state == "FAIL" else ()
        print(f"== {self.state} {self.name} ({self.seconds:.0f} s): {self.summary}", flush=True)
        for line in text.splitlines():
            if line.startswith(marks or "\0"):
                print(f"     {line[:500]}", flush=True)
        return self


def js(version, name, base, *more, **env):
    folder = TOOLS / f"js/gradio-{version}"
    return Suite(name, ["node", HERE / "js/suite.mjs", "--base", base, "--client", folder, *more], **env)


def py(version, name, base, *more, **env):
    return Suite(name, [TOOLS / f"py-gradio-{version}/bin/python", HERE / "py/suite.py", "--base", base, *more], **env)


def spare(stack, place, worker, client):
    """A gateway that this suite stops."""
    if worker != "real" or place != "direct":
        return {}
    address, child = stack.start_gateway(f"spare-{client}", GATEWAY_NOTICE_MS=300)
    stack.spares.append(child)
    return {"SPARE_GATEWAY": f"http://{address}", "SPARE_PID": str(child.pid)}


def places(stack):
    """Where the clients connect: (name, base, peer, rest)."""
    one, two = stack.direct
    found = [("direct", one, two, one)]
    if stack.nginx:
        found.append(("nginx", stack.nginx + PREFIX, stack.nginx + PREFIX, stack.nginx))
    else:
        found.append(("round robin", stack.round_robin, stack.round_robin, stack.round_robin))
    return found


def contract_suites(worker):
    python = TOOLS / "py/bin/python"
    tests = [Suite(f"contract, {worker} worker", [python, HERE / "py/test_contract.py", "-v"], CONTRACT_WORKER=worker)]
    if worker == "foreign":
        tests.append(Suite("fixtures, JavaScript", ["node", "--test", HERE / "js/fixtures.test.mjs"]))
        tests.append(Suite("fixtures, Python", [python, HERE / "py/test_fixtures.py", "-v"]))
    return tests


LOOP = "sessions.joins_in_a_loop_around_the_closing_moment"
CLOSE = "sessions.submit_right_at_the_close"


def own_suites(stack, worker, options):
    """Two groups: what may run side by side, and what has to run alone."""
    beside, alone = contract_suites(worker), []
    for place, base, peer, rest in places(stack):
        more = ["--peer", peer, "--rest", rest, "--worker", worker]
        for version in options.nodes:
            name = f"JS {version}, {place}, {worker} worker"
            beside.append(js(version, name, base, *more, "--parallel", "10", "--except", f"{LOOP},{CLOSE}", **spare(stack, place, worker, version)))
        for version in options.pythons:
            beside.append(py(version, f"Python {version}, {place}, {worker} worker", base, *more, "--parallel", "5", **spare(stack, place, worker, f"py-{version}")))
    if worker == "foreign":
        where = stack.round_robin
        for version in options.nodes:
            joins = options.joins if version == options.nodes[0] else options.joins // 10
            name = f"JS {version}, {joins} joins at the close"
            alone.append(js(version, name, where, "--only", f"{LOOP},{CLOSE}", "--joins", joins))
    return beside, alone


def conformance_suites(stack, worker, options):
    """The reference suites, which know no `turn_end` and want the foreign worker's echo."""
    if worker != "foreign":
        return [], []
    beside = []
    for place, base, _, _ in places(stack):
        for client in [*options.nodes, *options.pythons]:
            # Users of this suite only: all of them use the same names for their conversations.
            user, other = (stack.token(f"{name}-{place}-{client}") for name in ("alice", "bob"))
            header = ["--header", f"Authorization: Bearer {user}", "--bad-header", "Authorization: Bearer x"]
            prompts = [base, "--profile", "gateway", "--prompts", HERE / "prompts.json"]
            if client in options.nodes:
                more = ["--client", TOOLS / f"js/gradio-{client}", "--other-header", f"Authorization: Bearer {other}"]
                beside.append(Suite(f"conformance.mjs {client}, {place}", ["node", REFERENCE / "conformance.mjs", *prompts, *header, *more]))
            else:
                python = TOOLS / f"py-gradio-{client}/bin/python"
                beside.append(Suite(f"conformance.py {client}, {place}", [python, REFERENCE / "conformance.py", *prompts, *header]))
    return beside, []


def run_all(suites, lanes, folder, env):
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        return list(pool.map(lambda suite: suite.run(folder, env), suites))


def stay_up(stack, worker):
    if worker == "foreign":
        stack.start_foreign_workers()
    else:
        stack.start_real_workers()
    shown = {**stack.env(), "DIRECT": " ".join(stack.direct), "ROUND_ROBIN": stack.round_robin, "NGINX": stack.nginx and stack.nginx + PREFIX, "USER_TOKEN": stack.token("alice")}
    for name, value in shown.items():
        print(f"export {name}='{value}'", flush=True)
    signal.pause()


def run_with(stack, folder, worker, options):
    if options.what == "up":
        stay_up(stack, worker)
    beside, alone = (own_suites if options.what == "suites" else conformance_suites)(stack, worker, options)
    if not beside and not alone:
        return []
    print(f"-- {worker} worker: {len(beside)} suites side by side, {len(alone)} alone", flush=True)
    workers = stack.start_foreign_workers() if worker == "foreign" else stack.start_real_workers()
    done = run_all(beside, LANES, folder, stack.env()) + run_all(alone, 1, folder, stack.env())
    for child in workers:
        if child.poll() is not None:
            raise Failed(f"{child.name} ended with {child.returncode} while the suites ran\n{stack.tail(child.name)}")
    for child in stack.spares:
        if child.wait(timeout=20) != 0:
            raise Failed(f"{child.name} was told to stop and ended with {child.returncode}\n{stack.tail(child.name)}")
    stack.spares.clear()
    stack.stop(workers)
    return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["suites", "conformance", "up"])
    parser.add_argument("--joins", type=int, default=int(os.environ.get("JOINS", "2000")))
    parser.add_argument("--clients", help="e.g. 2.7.0,py-1.14.0")
    parser.add_argument("--workers", default="foreign,real")
    parser.add_argument("--keep", action="store_true", help="keep logs of a run that passed")
    options = parser.parse_args()
    chosen = options.clients.split(",") if options.clients else [*NODES, *(f"py-{v}" for v in PYTHONS)]
    options.nodes = [v for v in NODES if v in chosen]
    options.pythons = [v for v in PYTHONS if f"py-{v}" in chosen]
    stop_on_signals()
    folder = Path(tempfile.mkdtemp(prefix="agent-clients-"))
    started, done, problem = time.monotonic(), [], None
    try:
        with Stack(folder) as stack:
            stack.start()
            if not stack.nginx:
                print("SKIP everything behind nginx: no nginx here; a round-robin proxy takes its place", flush=True)
            for worker in options.workers.split(","):
                done += run_with(stack, folder, worker, options)
            for _, child in stack.gateways:
                if child.poll() is not None:
                    raise Failed(f"{child.name} ended with {child.returncode} while the suites ran\n{stack.tail(child.name)}")
    except Failed as why:
        problem = why
    except KeyboardInterrupt:
        return 130
    width = max([len(suite.name) for suite in done] or [0])
    print()
    for suite in done:
        print(f"{suite.name:<{width}}  {suite.state}  {suite.seconds:4.0f} s  {suite.summary}")
    failed = [suite for suite in done if suite.state == "FAIL"]
    if problem:
        print(f"FAIL {problem}")
    bad = bool(failed or problem or not done)
    print(f"{len(done) - len(failed)} suites passed, {len(failed)} failed, in {time.monotonic() - started:.0f} s")
    if bad or options.keep:
        print(f"logs: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
