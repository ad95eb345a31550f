"""The fleet with its own worker, the scripted model and the reference backend."""
import base64
import json
import os
import random
import signal
import threading
import time

from lib import ALICE, A, BOB, Skip, at_least, bearer, connect, conversation, error_of, httpx, kind, need, outputs, predict, same, submit, token, tokens, types

DEPLOY = "deploy dashboard 42 to prod"


def effects(headers):
    body = headers["Authorization"].split(".")[1]
    user = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["sub"]
    return [e for e in httpx.get(os.environ["BACKEND_URL"] + "/__test/effects").json() if e["user"] == user]


def card():
    """A user of this scenario only, with an open card."""
    headers, conv = bearer(token(f"py-{conversation()}")), conversation()
    client = connect(headers)
    got = outputs(submit(client, DEPLOY, conv))
    same(kind(got[-1]), "confirm_required")
    same(len(effects(headers)), 0)
    return client, headers, conv


def only(got, name):
    return [m["metadata"] for m in got if kind(m) == name]


def silence_is_survived():
    need(predict(connect(), "pause")["content"].endswith("After the pause."), "no end")


def a_question():
    got = outputs(submit(connect(), "покажи дашборды с проблемами валидации"))
    seen = types(got)
    need({"stream_token", "tool_start", "tool_end"} <= set(seen), seen)
    same((seen[-2:], tokens(got)), (["turn_end", "plain"], got[-1]["content"]))


def confirm():
    client, headers, conv = card()
    got = outputs(submit(client, "confirm", conv, "confirm"))
    same((only(got, "confirm_resolved")[0]["result"], kind(got[-1]), len(effects(headers))), ("confirmed", "plain", 1))
    same(error_of([predict(client, "confirm", conv, "confirm")])["code"], "ALREADY_RESOLVED")
    same(len(effects(headers)), 1)


def deny_with_a_reason():
    client, headers, conv = card()
    got = outputs(submit(client, "not today", conv, "deny"))
    same((only(got, "confirm_resolved")[0]["result"], kind(got[-1]), len(effects(headers))), ("denied", "plain", 0))


def confirm_from_another_gateway():
    _, headers, conv = card()
    got = outputs(submit(connect(headers, A.peer), "confirm", conv, "confirm"))
    same((only(got, "confirm_resolved")[0]["result"], len(effects(headers))), ("confirmed", 1))


def a_message_supersedes_the_card():
    client, headers, conv = card()
    got = outputs(submit(client, "show environments", conv))
    resolved = only(got, "confirm_resolved")[0]
    same((resolved["result"], resolved["reason"], len(effects(headers))), ("denied", "superseded", 0))


def a_reader_may_not_deploy():
    client, conv = connect(BOB), conversation()
    outputs(submit(client, DEPLOY, conv))
    got = outputs(submit(client, "confirm", conv, "confirm"))
    same((only(got, "tool_error")[0]["code"], len(effects(BOB))), ("FORBIDDEN", 0))


def cancel_and_go_on():
    client, conv = connect(), conversation()
    job = submit(client, "slow", conv)
    at_least(job, 3)
    asked = time.monotonic()
    job.cancel()
    while not job.done():
        need(time.monotonic() - asked < 5, "the job did not end")
        time.sleep(0.01)
    same(kind(predict(client, "stream", conv)), "plain")


def attach_from_another_client():
    conv = conversation()
    job = submit(connect(), "slow", conv)
    at_least(job, 3)
    attached = outputs(submit(connect(base=A.peer), "", conv, "attach"))
    own = outputs(job)
    same(attached[-1]["content"], own[-1]["content"])
    same([m["metadata"]["cursor"] for m in attached], [m["metadata"]["cursor"] for m in own])


def joined(kept, values):
    """The values of a turn: without the gateway's own words, the repeated last one once."""
    for value in values:
        if "cursor" in value["metadata"] and kept[-1:] != [value]:
            kept.append(value)
    return kept


def action(kept):
    return f"attach:{kept[-1]['metadata']['cursor']}" if kept else "attach"


def random_cuts_are_joined():
    conv, seed = conversation(), int(os.environ.get("CUTS_SEED") or random.randrange(2**31))
    dice, results = random.Random(seed), []
    plans = [[dice.randrange(1, 40) for _ in range(dice.randrange(1, 4))] for _ in range(12)]
    own = submit(connect(), "slow", conv)
    at_least(own, 1)

    def cutter(plan):
        kept = []
        for number, count in enumerate(plan):
            job = submit(connect(base=A.peer if number % 2 else A.base), "", conv, action(kept))
            while len(job.outputs()) < count and not job.done():
                time.sleep(0.01)
            joined(kept, job.outputs()[:count])
        joined(kept, outputs(submit(connect(base=A.peer), "", conv, action(kept))))
        results.append(kept)

    cutters = [threading.Thread(target=cutter, args=[plan]) for plan in plans]
    for thread in cutters[:8]:
        thread.start()
    whole = joined([], outputs(own, 60))
    for thread in cutters[8:]:
        thread.start()
    for thread in cutters:
        thread.join(60)
    same(len(results), len(plans), f"clients that got to the end (CUTS_SEED={seed})")
    for kept in results:
        same(kept, whole, f"joined values (CUTS_SEED={seed})")


def a_stopping_gateway_sends_its_client_on():
    spare = os.environ.get("SPARE_GATEWAY")
    if not spare:
        raise Skip("has no gateway to stop")
    conv = conversation()
    job = submit(connect(base=spare), "slow", conv)
    at_least(job, 3)
    os.kill(int(os.environ["SPARE_PID"]), signal.SIGTERM)
    got = outputs(job)
    told = got[-1]["metadata"]
    same((told["code"], told["retryable"], "cursor" in told), ("UNAVAILABLE", True, False))
    kept = joined([], got)
    need(3 <= len(kept) < 60, f"{len(kept)} values before the gateway stopped")
    joined(kept, outputs(submit(connect(base=A.peer), "", conv, action(kept)), 60))
    same(kept, joined([], outputs(submit(connect(), "", conv, "attach"))), "joined values")


def a_failing_model():
    metadata = predict(connect(), "error")["metadata"]
    need(metadata["type"] == "error" and metadata["code"].startswith("LLM_"), metadata)


def threads():
    client, got = connect(), []
    all_threads = [threading.Thread(target=lambda: got.append(predict(client, "stream"))) for _ in range(5)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join(60)
    same(len(got), 5, "finished")


def history_is_kept():
    client, conv = connect(), None
    first = predict(client, "покажи дашборд 17", conversation("name"))
    need(first["metadata"]["conversation_id"].startswith("name-"), first)
    fresh = client.predict({"text": "привет", "files": []}, api_name="/chat")
    conv = fresh["metadata"]["conversation_id"]
    page = httpx.get(f"{A.rest}/api/assistant/history", params={"conversation_id": conv}, headers=ALICE).json()
    same(sorted(m["role"] for m in page["items"]), ["assistant", "user"])


SCENARIOS = [
    silence_is_survived, a_question, confirm, deny_with_a_reason, confirm_from_another_gateway, a_message_supersedes_the_card,
    a_reader_may_not_deploy, cancel_and_go_on, attach_from_another_client, random_cuts_are_joined, a_stopping_gateway_sends_its_client_on,
    a_failing_model, threads, history_is_kept,
]
