"""A worker that knows nothing but the contract of docs/protocol.md: nats-py and JSON, no Postgres, no model.

    NATS_URL=nats://127.0.0.1:4222 python foreign_worker.py [--slots 32]

It pulls jobs and tells their turns; what it tells is picked by the first word of the message
(foreign_behaviours.py). The client suites drive the gateway with it. Read it as the example of a worker.
"""
import argparse
import asyncio
import json
import os
from datetime import datetime, timezone

import nats
from nats.js import errors

from foreign_behaviours import BEHAVIOURS, Gone, echo

HEARTBEAT_S = 1.0  # far below the consumer's ack_wait, so that a job in work is not given to somebody else
WRONG_LAST_SEQUENCE = 10071


class Cancelled(Exception):
    """The turn's cancel has arrived."""


class Fenced(Exception):
    """Somebody else writes this turn: stop, and neither tell nor ack anything."""


class Turn:
    """One job in work. Its events go out in order, one at a time, each acknowledged by the stream."""

    def __init__(self, js, job):
        self.js, self.job = js, job
        self.subject = f"agent.v1.ev.{job['conversation_id']}.{job['session']}.{job['turn_id']}"
        self.cancelled = asyncio.Event()
        self.attempt, self.n, self.seq, self.text, self.ended, self.withdrawn = 1, 0, 0, "", False, None

    async def open(self):
        """Reads the turn's last event: who goes on must know its sequence, and a turn that ended is over."""
        try:
            tail = await self.js.get_last_msg("AGENT_EVENTS", self.subject, direct=True)
        except errors.NotFoundError:
            return
        last = json.loads(tail.data)
        self.seq, self.attempt, self.ended = tail.seq, last["attempt"] + 1, last["type"] == "turn_end"
        if last["attempt"] > 0:  # a worker died after it had begun: what it told is withdrawn
            first = await self.js.get_msg("AGENT_EVENTS", seq=1, next=True, subject=self.subject, direct=True)
            self.withdrawn = str(first.seq)

    async def tell(self, kind, **data):
        """Publishes one event. The message id makes a retry harmless; the expected sequence is the fence."""
        self.n += 1
        event = {"v": 1, "turn_id": self.job["turn_id"], "attempt": self.attempt, "n": self.n, "type": kind,
                 "data": data, "ts": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")}
        headers = {"Nats-Msg-Id": f"{self.job['turn_id']}:{self.attempt}:{self.n}", "Agent-Schema": "1",
                   "Nats-Expected-Last-Subject-Sequence": str(self.seq)}
        for left in reversed(range(5)):
            try:
                self.seq = (await self.js.publish(self.subject, json.dumps(event).encode(), 2, headers=headers)).seq
                return
            except errors.APIError as error:
                tail = await self.js.get_last_msg("AGENT_EVENTS", self.subject, direct=True)
                if error.err_code == WRONG_LAST_SEQUENCE and tail.headers["Nats-Msg-Id"] == headers["Nats-Msg-Id"]:
                    self.seq = tail.seq  # an earlier try was stored, only its answer got lost
                    return
                raise Fenced from error
            except (nats.errors.Error, asyncio.TimeoutError):
                if not left:
                    raise

    async def token(self, token):
        self.text += token
        await self.tell("stream_token", token=token)

    async def wait(self, seconds):
        """Sleeps, but not beyond a cancel."""
        try:
            await asyncio.wait_for(self.cancelled.wait(), seconds)
        except asyncio.TimeoutError:
            return
        raise Cancelled

    async def end(self, status="completed", **data):
        """The one terminal event; `text` is the whole answer."""
        self.ended = True
        await self.tell("turn_end", status=status, **{"text": self.text, **data})

    async def was_cancelled_before(self):
        """A cancel stays as the last message on its subject, for a worker that starts later."""
        try:
            await self.js.get_last_msg("AGENT_CTL", f"agent.v1.ctl.cancel.{self.job['turn_id']}", direct=True)
            return True
        except errors.NotFoundError:
            return False

    async def run(self):
        await self.tell("attempt", attempt=self.attempt, worker=f"foreign-{os.getpid()}")
        if self.withdrawn:
            await self.tell("rewind", to_cursor=self.withdrawn)
        if datetime.fromisoformat(self.job["expires_at"].replace("Z", "+00:00")) < datetime.now(timezone.utc):
            await self.tell("error", code="UNAVAILABLE", detail="The job waited too long.")
            return await self.end("rejected")
        word, *rest = (self.job["text"].split(maxsplit=2) or [""])[:2]
        number = int(rest[0]) if rest and rest[0].isdigit() else None
        try:
            if await self.was_cancelled_before():
                raise Cancelled
            await BEHAVIOURS.get(word, echo)(self, number)
            if not self.ended:
                await self.end()
        except Cancelled:
            await self.end("cancelled")


async def work(nc, js, message):
    turn = Turn(js, json.loads(message.data))

    async def heartbeat():
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await message.in_progress()

    async def on_cancel(_):
        turn.cancelled.set()

    cancels = await nc.subscribe(f"agent.v1.ctl.cancel.{turn.job['turn_id']}", cb=on_cancel)
    alive = asyncio.create_task(heartbeat())
    try:
        await nc.flush()  # subscribed for certain, before the tombstone is looked for
        await turn.open()
        if not turn.ended:
            await turn.run()
        await message.ack_sync()  # last: until then the conversation takes no other job
    except Gone:
        await message.nak()
    except Fenced:
        pass
    finally:
        alive.cancel()
        await cancels.unsubscribe()


async def slot(nc, js):
    """Asks for exactly one job whenever it is free, so that no job waits behind a busy slot."""
    jobs = await js.pull_subscribe_bind("workers", stream="AGENT_JOBS")
    while True:
        try:
            for message in await jobs.fetch(1, timeout=30):
                await work(nc, js, message)
        except (nats.errors.Error, asyncio.TimeoutError):
            await asyncio.sleep(0)  # nothing to do, or no server: a job in work comes back after ack_wait


async def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--slots", type=int, default=32)
    nc = await nats.connect(os.environ["NATS_URL"], max_reconnect_attempts=-1, reconnect_time_wait=0.25)
    js = nc.jetstream(timeout=5)
    await js.consumer_info("AGENT_JOBS", "workers")
    print("ready", flush=True)
    await asyncio.gather(*(slot(nc, js) for _ in range(arguments.parse_args().slots)))


if __name__ == "__main__":
    asyncio.run(main())
