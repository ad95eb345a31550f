"""Drives turns over NATS alone with drive_turn.py, against whatever worker serves NATS_URL.

    NATS_URL=... [CONTRACT_WORKER=foreign|real] python test_contract.py
"""
import asyncio
import json
import os
import subprocess
import sys
import unittest
import uuid
from pathlib import Path

import nats

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import drive_turn  # noqa: E402

REAL = os.environ.get("CONTRACT_WORKER") == "real"
USER = f"contract-{uuid.uuid4().hex[:8]}"
foreign_only = unittest.skipIf(REAL, "needs the foreign worker's behaviours")
real_only = unittest.skipUnless(REAL, "needs the real worker")


def types(told):
    return [event["type"] for _, event in told]


class Contract(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.nc = await nats.connect(os.environ["NATS_URL"].split(","))
        self.js = self.nc.jetstream()

    async def asyncTearDown(self):
        await self.nc.close()

    def job(self, text, conversation=None, **more):
        return drive_turn.make_job(USER, conversation, text, **more)

    async def turn(self, text, conversation=None, cancel_after=None, **more):
        job = self.job(text, conversation, **more)
        told = await asyncio.wait_for(drive_turn.drive(self.nc, job, cancel_after), 60)
        self.check(job, told)
        return told

    def check(self, job, told):
        """What holds for every turn of every worker."""
        last = told[-1][1]
        self.assertEqual(types(told).count("turn_end"), 1)
        self.assertEqual(last["type"], "turn_end")
        numbers = {}
        for seq, event in told:
            self.assertEqual((event["v"], event["turn_id"]), (1, job["turn_id"]))
            numbers.setdefault(event["attempt"], []).append(event["n"])
        self.assertEqual([seq for seq, _ in told], sorted(seq for seq, _ in told))
        for attempt, seen in numbers.items():
            self.assertEqual(seen, list(range(1, len(seen) + 1)), f"numbers of attempt {attempt}")
        if last["data"].get("text") is not None and "rewind" not in types(told):
            self.assertEqual("".join(e["data"]["token"] for _, e in told if e["type"] == "stream_token") or last["data"]["text"], last["data"]["text"])

    async def test_a_turn(self):
        told = await self.turn("stream")
        self.assertEqual((types(told)[0], types(told)[-1]), ("attempt", "turn_end"))
        self.assertGreater(types(told).count("stream_token"), 3)
        self.assertEqual(told[-1][1]["data"]["status"], "completed")

    async def test_cancel_in_the_middle(self):
        told = await self.turn("slow", cancel_after=0.8)
        end = told[-1][1]["data"]
        self.assertEqual(end["status"], "cancelled")
        self.assertTrue(end["text"])

    async def test_cancel_before_the_job(self):
        job = self.job("slow")
        await drive_turn.cancel(self.js, job["turn_id"], USER)
        told = await asyncio.wait_for(drive_turn.drive(self.nc, job), 20)
        self.assertEqual(told[-1][1]["data"]["status"], "cancelled")
        self.assertNotIn("stream_token", types(told))

    async def test_one_turn_per_conversation(self):
        first = self.job("slow", "busy")
        running = asyncio.create_task(drive_turn.drive(self.nc, first, cancel_after=1.5))
        await asyncio.sleep(0.5)
        with self.assertRaises(drive_turn.Busy) as busy:
            await drive_turn.submit(self.js, self.job("stream", "busy"))
        self.assertEqual(str(busy.exception), first["turn_id"])
        await drive_turn.submit(self.js, first)  # the same job again is no second turn
        self.assertEqual((await running)[-1][1]["data"]["status"], "cancelled")

    async def test_a_job_sent_twice_runs_once(self):
        job = self.job("stream")
        await drive_turn.submit(self.js, job)
        told = await asyncio.wait_for(drive_turn.drive(self.nc, job), 20)
        self.check(job, told)
        again = await self.js.publish(drive_turn.subjects(job)["job"], json.dumps(job).encode(), headers={"Nats-Msg-Id": job["turn_id"]})
        self.assertTrue(again.duplicate)

    async def test_a_late_reader_gets_everything(self):
        job = self.job("stream")
        told = await drive_turn.drive(self.nc, job)
        replayed = [event async for event in drive_turn.replay(self.js, drive_turn.subjects(job)["event"], 0)]
        self.assertEqual(replayed, told)

    async def test_a_job_that_waited_too_long_is_rejected(self):
        job = self.job("stream")
        job["expires_at"] = job["created_at"] = "2020-01-01T00:00:00Z"
        told = await asyncio.wait_for(drive_turn.drive(self.nc, job), 20)
        self.assertEqual(told[-1][1]["data"]["status"], "rejected")
        self.assertIn("error", types(told))

    async def test_twenty_turns_at_once(self):
        turns = await asyncio.gather(*(self.turn("stream") for _ in range(20)))
        self.assertEqual({told[-1][1]["data"]["status"] for told in turns}, {"completed"})

    async def test_the_program(self):
        command = [sys.executable, HERE / "drive_turn.py", "--user", USER, "--cancel-after", "1", "slow"]
        process = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("stream_token", process.stdout)
        self.assertTrue(process.stdout.splitlines()[-1].startswith("cancelled: "), process.stdout)

    async def test_nothing_is_left_in_the_queue(self):
        await self.turn("stream")
        for _ in range(50):
            state = (await self.js.consumer_info("AGENT_JOBS", "workers")).num_ack_pending
            if not state:
                return
            await asyncio.sleep(0.1)

    @foreign_only
    async def test_every_event_type(self):
        found = set(types(await self.turn("all_types")))
        files = {path.name.split(".")[0] for path in (HERE / "../../../shared/contract/fixtures/event").resolve().glob("*.json")}
        self.assertEqual(files - found, {"queued", "session"})

    @foreign_only
    async def test_takeover_after_a_death(self):
        told = await self.turn("die")
        self.assertEqual(types(told), ["attempt", "stream_token", "attempt", "rewind", "stream_token", "turn_end"])
        self.assertEqual(told[3][1]["data"], {"to_cursor": str(told[0][0])})

    @foreign_only
    async def test_two_writers_are_kept_apart(self):
        job = self.job("slow")
        reading = asyncio.create_task(drive_turn.drive(self.nc, job, cancel_after=2))
        await asyncio.sleep(0.8)
        with self.assertRaises(nats.js.errors.APIError) as refused:
            await self.js.publish(drive_turn.subjects(job)["event"], b"{}", headers={"Nats-Expected-Last-Subject-Sequence": "1"})
        self.assertEqual(refused.exception.err_code, 10071)
        self.check(job, await reading)

    @real_only
    async def test_a_tool_acts_for_the_owner_of_the_token(self):
        import jwt

        token = jwt.encode({"sub": USER, "exp": 4102444800}, os.environ["JWT_SECRET"], algorithm="HS256")
        told = await self.turn("покажи дашборды", token=token, seal_key=os.environ["SEAL_KEY"])
        self.assertIn("tool_end", types(told))

    @real_only
    async def test_without_a_token_a_tool_says_so(self):
        told = await self.turn("покажи дашборды")
        codes = [event["data"].get("code") for _, event in told if event["type"] in ("error", "tool_error")]
        self.assertIn("UNAUTHORIZED", codes)


if __name__ == "__main__":
    unittest.main()
