"""Drives a turn with nothing but a NATS client: publishes a job, prints its events as they come, can cancel it.

    NATS_URL=nats://127.0.0.1:4222 python drive_turn.py "покажи дашборды с проблемами валидации"
    python drive_turn.py --conversation conv-1 --action confirm          # yes to the open card of conv-1
    python drive_turn.py --cancel-after 1 "slow"                         # stop after a second
    SEAL_KEY=... python drive_turn.py --token "$USER_TOKEN" "..."        # tools act for the owner of this token

Needs `nats-py`; `cryptography` only for --token. The page that explains every step is docs/protocol.md.
"""
import argparse
import asyncio
import base64
import hashlib
import json
import os
import secrets
import sys
import time
import uuid
from datetime import datetime, timedelta, timezone

import nats
from nats.js import errors

NAMES = uuid.UUID("6ba7b815-9dad-11d1-80b4-006167656e74")
SUBJECT_IS_TAKEN = 10077


class Busy(Exception):
    """The conversation has a live turn; its id is the argument."""


class Full(Exception):
    """The queue takes no more jobs."""


def uuid7():
    """Time first, then randomness: ids that sort by age."""
    value = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def conversation_id(user, reference):
    """A UUID is taken as it is; any other string is a name in that user's own space."""
    try:
        if len(reference) == 36:
            return str(uuid.UUID(reference))
    except ValueError:
        pass
    return str(uuid.uuid5(NAMES, f"{user}\0{reference}"))


def session_token(user, session_hash):
    """The <sess> token of the subjects. A gateway derives it so; a plain NATS client may take any [A-Za-z0-9_-]{1,64}."""
    return hashlib.sha256(f"{user}\0{session_hash}".encode()).hexdigest()[:32]


def seal(key_base64, turn_id, token):
    """AES-256-GCM bound to the turn: v1.<key id>.<base64url(nonce + ciphertext + tag)>."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key, nonce = base64.b64decode(key_base64), os.urandom(12)
    sealed = nonce + AESGCM(key).encrypt(nonce, token.encode(), uuid.UUID(turn_id).bytes)
    key_id = hashlib.sha256(key).hexdigest()[:8]
    return f"v1.{key_id}.{base64.urlsafe_b64encode(sealed).decode().rstrip('=')}"


def rfc3339(moment):
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def make_job(user, reference, text, action="message", tool_call_id=None, token=None, seal_key=None, session=None, files=()):
    turn_id, now = uuid7(), datetime.now(timezone.utc)
    job = {
        "v": 1,
        "kind": action,
        "turn_id": turn_id,
        "conversation_id": conversation_id(user, reference) if reference else str(uuid.uuid4()),
        "session": session or session_token(user, turn_id),
        "user_id": user,
        "text": text,
        "locale": "en",
        "created_at": rfc3339(now),
        "expires_at": rfc3339(now + timedelta(hours=1)),
    }
    if reference:
        job["conversation_ref"] = reference
    if tool_call_id:
        job["tool_call_id"] = tool_call_id
    if files:
        job["files"] = list(files)
    if token:
        job["user_token"] = seal(seal_key, turn_id, token)
    return job


def make_cancel(turn_id, by):
    return {"v": 1, "turn_id": turn_id, "by": by}


def subjects(job):
    conv, sess, turn = job["conversation_id"], job["session"], job["turn_id"]
    return {
        "job": f"agent.v1.job.{conv}",
        "event": f"agent.v1.ev.{conv}.{sess}.{turn}",
        "live_of_conversation": f"agent.v1.live.{conv}.*.*",
        "cancel": f"agent.v1.ctl.cancel.{turn}",
    }


async def submit(js, job):
    """Publishes the job. Publishing it again with the same turn_id is safe: the second one is a duplicate."""
    headers = {"Nats-Msg-Id": job["turn_id"], "Agent-Schema": "1"}
    subject = subjects(job)["job"]
    try:
        return await js.publish(subject, json.dumps(job).encode(), headers=headers)
    except errors.APIError as error:
        if error.err_code != SUBJECT_IS_TAKEN:
            raise
    try:
        live = json.loads((await js.get_last_msg("AGENT_JOBS", subject, direct=True)).data)
    except errors.NotFoundError:
        raise Full from None
    if live["turn_id"] != job["turn_id"]:
        raise Busy(live["turn_id"])


async def cancel(js, turn_id, by):
    headers = {"Nats-Msg-Id": f"{turn_id}:cancel", "Agent-Schema": "1"}
    await js.publish(f"agent.v1.ctl.cancel.{turn_id}", json.dumps(make_cancel(turn_id, by)).encode(), headers=headers)


async def replay(js, subject, after):
    """Stored events of one turn, after a stream sequence."""
    while True:
        try:
            message = await js.get_msg("AGENT_EVENTS", seq=after + 1, next=True, subject=subject, direct=True)
        except errors.NotFoundError:
            return
        yield message.seq, json.loads(message.data)
        after = message.seq


async def events(js, live, job, after=0):
    """Every event of the turn once, in order, from the live copies; what those miss comes from the stream."""
    subject = subjects(job)["event"]
    while True:
        try:
            message = await live.next_msg(timeout=2)
            if not message.subject.endswith(job["turn_id"]):
                continue
            seq, previous = (int(message.headers[h]) for h in ("Nats-Sequence", "Nats-Last-Sequence"))
            if seq <= after:
                continue
            found = [(seq, json.loads(message.data))] if previous == after else [x async for x in replay(js, subject, after)]
        except (nats.errors.TimeoutError, asyncio.TimeoutError):
            found = [x async for x in replay(js, subject, after)]  # the last event has no successor that shows a loss
        for after, event in found:
            yield after, event
            if event["type"] == "turn_end":
                return


async def drive(nc, job, cancel_after=None, show=lambda seq, event: None):
    """The whole story of one turn: listen, submit, perhaps cancel, read to the end. Gives all events."""
    js = nc.jetstream()
    live = await nc.subscribe(subjects(job)["live_of_conversation"])
    await nc.flush()  # listening for certain, before anybody can say anything
    told, stopper = [], None
    try:
        await submit(js, job)
        if cancel_after is not None:
            async def stop():
                await asyncio.sleep(cancel_after)
                await cancel(js, job["turn_id"], job["user_id"])
            stopper = asyncio.create_task(stop())
        async for seq, event in events(js, live, job):
            told.append((seq, event))
            show(seq, event)
    finally:
        await live.unsubscribe()
        if stopper:
            stopper.cancel()
    return told


def show_line(seq, event):
    print(f"{seq:>7} {event['attempt']}:{event['n']:<4} {event['type']:<17} {json.dumps(event['data'], ensure_ascii=False)}", flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="?", default="")
    parser.add_argument("--user", default="alice")
    parser.add_argument("--conversation", help="a UUID, or a name of your own; a new conversation if absent")
    parser.add_argument("--action", default="message", choices=["message", "confirm", "deny", "resume"])
    parser.add_argument("--call", help="the tool_call_id that the decision is about; the whole card if absent")
    parser.add_argument("--token", help="the user's JWT; SEAL_KEY must hold the fleet's key")
    parser.add_argument("--cancel-after", type=float, metavar="SECONDS")
    options = parser.parse_args()
    job = make_job(options.user, options.conversation, options.text, options.action, options.call, options.token, os.environ.get("SEAL_KEY"))
    nc = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222").split(","))
    print(f"turn {job['turn_id']} of conversation {job['conversation_id']}", flush=True)
    try:
        told = await drive(nc, job, options.cancel_after, show_line)
    except Busy as busy:
        sys.exit(f"the conversation is busy with turn {busy}")
    except Full:
        sys.exit("the queue is full")
    finally:
        await nc.close()
    end = told[-1][1]["data"]
    print(f"{end['status']}: {end.get('text') or ''}")


if __name__ == "__main__":
    asyncio.run(main())
