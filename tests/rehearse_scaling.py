"""KEDA's part, played on this machine: real workers are started and stopped as a bursty load comes and goes.

    make rehearse-scaling [ARGS="--seconds 120 --max 6"]

Polls the consumer as KEDA's nats-jetstream scaler does (`num_pending` + `num_ack_pending` on the monitoring page), works out the number of pods as
the HorizontalPodAutoscaler behind it does (AverageValue, with a window before it goes down, so many pods in a step), starts workers and
stops them with SIGTERM. Every turn is followed to its end with its client's stream, over `attach` if that breaks. Prints workers over
time, how long turns waited, and which were lost; exits with 1 if any was, or if
no busy worker was stopped.
"""
import argparse
import asyncio
import json
import math
import signal
import sys
import tempfile
import time
import urllib.request
import uuid
from collections import Counter
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent / "clients"))
from stack import Stack, answers, stop_on_signals  # noqa: E402

#: The HorizontalPodAutoscaler leaves small differences alone.
TOLERANCE = 0.1


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="of load; the fleet then shrinks")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--min", type=int, default=1)
    parser.add_argument("--max", type=int, default=5)
    parser.add_argument("--poll", type=float, default=1, help="KEDA's pollingInterval in seconds (15 in the chart: everything here is quicker)")
    parser.add_argument("--window", type=float, default=6, help="seconds before the fleet shrinks (300 in the chart)")
    parser.add_argument("--burst", type=int, default=18, help="turns of a burst")
    parser.add_argument("--drain", type=int, default=2, help="DRAIN_S: shorter than a turn, so that turns are handed over")
    return parser.parse_args()


class Fleet:
    """Workers, as a Deployment would have them."""

    def __init__(self, stack, args):
        self.stack, self.args, self.started = stack, args, 0
        self.running, self.stopping, self.exits = [], [], Counter()

    def scale(self, wanted):
        while len(self.running) < wanted:
            self.started += 1
            more = {"WORKER_SLOTS": self.args.slots, "DRAIN_S": self.args.drain}
            self.running.append(self.stack.spawn_worker(f"worker-{self.started}", **more))
        while len(self.running) > wanted:
            # The newest first, as a ReplicaSet does; it may well be busy.
            child, _ = self.running.pop()
            child.send_signal(signal.SIGTERM)
            self.stopping.append(child)

    def reap(self):
        for child in [child for child in self.stopping if child.poll() is not None]:
            self.stopping.remove(child)
            self.stack.children.remove(child)
            self.exits[child.returncode] += 1

    def ready(self):
        return sum(answers(f"http://{health}/healthz/ready") for _, health in self.running)


def lag(monitor_url):
    with urllib.request.urlopen(f"{monitor_url}/jsz?acc=$G&consumers=true&config=true", timeout=5) as answer:
        page = json.load(answer)
    for account in page["account_details"]:
        for stream in account.get("stream_detail", []):
            for consumer in stream.get("consumer_detail", []):
                if (stream["name"], consumer["name"]) == ("AGENT_JOBS", "workers"):
                    return consumer["num_pending"], consumer["num_ack_pending"]
    raise LookupError("no consumer `workers` on the monitoring page")


class Scaler:
    def __init__(self, args):
        self.args, self.threshold = args, max(1, math.floor(args.slots * 0.75))
        self.wishes = []

    def wanted(self, total, current, now):
        ratio = total / (self.threshold * current)
        wish = current if abs(ratio - 1) <= TOLERANCE else math.ceil(total / self.threshold)
        wish = min(max(wish, self.args.min), self.args.max)
        self.wishes = [(at, it) for at, it in self.wishes if now - at < self.args.window] + [(now, wish)]
        # Down only to the most that was wanted within the window, and one pod at a time.
        return wish if wish >= current else max(max(it for _, it in self.wishes), current - 1)


class Load:
    def __init__(self, stack, args):
        self.stack, self.args = stack, args
        self.http = httpx.AsyncClient(timeout=httpx.Timeout(90, connect=5), limits=httpx.Limits(max_connections=None))
        self.waits_ms, self.lost, self.done, self.again, self.rewinds = [], [], 0, 0, 0

    async def call(self, base, headers, text, conversation, action):
        """Values of one call over the simple API, until its stream ends."""
        body = {"data": [{"text": text, "files": []}, conversation, action]}
        joined = await self.http.post(f"{base}/gradio_api/call/chat", json=body, headers=headers)
        event = joined.raise_for_status().json()["event_id"]
        async with self.http.stream("GET", f"{base}/gradio_api/call/chat/{event}", headers=headers) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and line != "data: null":
                    for value in json.loads(line[6:]):
                        if isinstance(value, dict):
                            yield value.get("metadata") or {}

    async def turn(self, number, words, pace_ms):
        headers = {"Authorization": f"Bearer {self.stack.token(f'user-{number}')}"}
        conversation, cursor, ended, attempts = f"rehearsal-{uuid.uuid4().hex[:8]}", None, None, 0
        asked, waited, end = time.monotonic(), None, time.monotonic() + 90
        while ended is None and time.monotonic() < end:
            base = self.stack.direct[(number + attempts) % len(self.stack.direct)]
            attempts += 1
            text, action = ("", f"attach:{cursor}") if cursor else (f"bench {words} {pace_ms}", None)
            try:
                async for metadata in self.call(base, headers, text, conversation, action):
                    cursor = metadata.get("cursor", cursor)
                    # The gateway's own word comes first; then it is a worker who speaks.
                    if waited is None and metadata.get("type") not in (None, "queued"):
                        waited = time.monotonic() - asked
                    self.rewinds += metadata.get("type") == "rewind"
                    if metadata.get("type") == "turn_end":
                        ended = metadata
            except (httpx.HTTPError, KeyError) as error:
                await asyncio.sleep(0.2)
                self.trouble = repr(error)
        page = await self.http.get(f"{self.stack.direct[0]}/api/assistant/history", params={"conversation_id": conversation}, headers=headers)
        answer = [item["content"].split() for item in page.json().get("items", []) if item["role"] == "assistant"]
        if not ended or ended["status"] != "completed" or answer != [["token"] * words]:
            self.lost.append((conversation, ended, [len(it) for it in answer]))
            return
        self.done += 1
        self.again += attempts > 1
        self.waits_ms.append(round(waited * 1000))

    async def bursts(self):
        turns, number, began = [], 0, time.monotonic()
        while time.monotonic() - began < self.args.seconds:
            for _ in range(self.args.burst):
                number += 1
                # Some outlast the burst: what still runs is too little for the fleet, so busy workers are stopped.
                words, pace_ms = (240, 60) if number % 4 == 0 else (40, 60 + 20 * (number % 5))
                turns.append(asyncio.create_task(self.turn(number, words, pace_ms)))
                await asyncio.sleep(0.05)
            await asyncio.sleep(self.args.seconds / 4)
        await asyncio.gather(*turns)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


async def play(stack, args):
    fleet, scaler, load = Fleet(stack, args), Scaler(args), Load(stack, args)
    fleet.scale(args.min)
    while not await asyncio.to_thread(fleet.ready):
        await asyncio.sleep(0.05)
    loading, began, sizes = asyncio.create_task(load.bursts()), time.monotonic(), []
    print("  s  waiting  running  workers  ready")
    while not loading.done() or len(fleet.running) > args.min or fleet.stopping:
        now = time.monotonic() - began
        pending, unacked = await asyncio.to_thread(lag, stack.monitor_url)
        wanted = scaler.wanted(pending + unacked, len(fleet.running), now)
        sizes.append(len(fleet.running))
        if not int(now / args.poll) % 2 or wanted != len(fleet.running):
            ready = await asyncio.to_thread(fleet.ready)
            print(f"{now:3.0f}  {pending:7}  {unacked:7}  {len(fleet.running):7}  {ready:5}" + (f"  -> {wanted}" if wanted != len(fleet.running) else ""))
        fleet.scale(wanted)
        fleet.reap()
        if now > args.seconds + 180:
            raise TimeoutError("the fleet did not come to rest")
        await asyncio.sleep(args.poll)
    await loading
    return fleet, load, sizes


def main():
    args = options()
    stop_on_signals()
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder, Stack(folder) as stack:
        stack.start_nats()
        stack.start_postgres()
        stack.start_gateways()
        stack.start_real_workers(0)
        fleet, load, sizes = asyncio.run(play(stack, args))
        waits = load.waits_ms
        print(
            f"turns            {load.done + len(load.lost)}, of which lost {len(load.lost)}, followed over more than one stream {load.again}, rewound {load.rewinds}\n"
            f"queue wait       from the question to the worker's first word: p50 {percentile(waits, 0.5)} ms, p99 {percentile(waits, 0.99)} ms, longest {max(waits)} ms\n"
            f"workers          {min(sizes)} to {max(sizes)}; started {fleet.started}, stopped by SIGTERM {sum(fleet.exits.values())}, exit codes {dict(fleet.exits)}"
        )
        for lost in load.lost:
            print(f"lost: {lost}")
        # A rehearsal in which nobody busy was stopped shows nothing.
        moved = max(sizes) > args.min and len(fleet.running) == args.min and load.rewinds > 0
        return 0 if not load.lost and moved and set(fleet.exits) == {0} else 1


if __name__ == "__main__":
    sys.exit(main())
