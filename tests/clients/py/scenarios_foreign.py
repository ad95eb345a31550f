"""Scenarios that need the foreign worker: the first word of the message picks what it does."""
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

from lib import (
    A, ALICE, API, BOB, at_least, bearer, connect, conversation, echo_of, error_of, httpx, kind, msg, need, outputs,
    post, predict, same, submit, token, tokens, types,
)

PARAMETERS = ["message", "conversation_id", "action", "client_message_id", "text", "files"]


def pause_of_seventeen_seconds():
    same(predict(connect(), "pause 17")["content"], "до после")


def connect_and_view_api():
    client = connect()
    same(client.protocol, "sse_v3")
    info = client.view_api(return_format="dict", print_info=False)
    same([p["parameter_name"] for p in info["named_endpoints"]["/chat"]["parameters"]], PARAMETERS)
    text = client.view_api(return_format="str", print_info=False)
    for name in ["/chat", *PARAMETERS]:
        need(name in text, f"{name} is not in {text}")


def positional_arguments():
    conv = conversation()
    echo = echo_of(predict(connect(), "echo", conv, "confirm"))
    same((echo["message"]["text"], echo["conversation_id"], echo["action"]), ("echo", conv, "confirm"))


def keyword_arguments():
    conv = conversation()
    echo = echo_of(connect().predict(message=msg("echo"), conversation_id=conv, action="deny", api_name="/chat"))
    same((echo["conversation_id"], echo["action"]), (conv, "deny"))


def text_and_files_as_parameters():
    conv = conversation()
    echo = echo_of(connect().predict(text="echo", files=[], conversation_id=conv, api_name="/chat"))
    same((echo["message"]["text"], echo["conversation_id"]), ("echo", conv))


def only_the_message():
    echo = echo_of(connect().predict(msg("echo"), api_name="/chat"))
    same((echo["conversation_id"], echo["action"]), (None, None))


def a_plain_string():
    same(echo_of(connect().predict("echo", api_name="/chat"))["message"]["text"], "echo")


def api_name_left_out():
    same(echo_of(connect().predict(msg("echo"), conversation(), None))["message"]["text"], "echo")


def values_come_live_and_add_up():
    job = submit(connect(), "slow 12")
    at_least(job, 1)
    first = time.monotonic()
    got = outputs(job)
    need(time.monotonic() - first > 0.5, "all values came at once: something buffers")
    same(tokens(got), got[-1]["content"])
    same(types(got), ["stream_token"] * 12 + ["plain"])
    same(job.result(), got[-1], "result()")
    for message in got:
        need(message["metadata"]["cursor"].isdigit() and message["metadata"]["conversation_id"], message)


def for_loop_ends():
    need(sum(1 for _ in submit(connect(), "stream")) >= 8, "too few values")


def async_iteration():
    async def go():
        return [update async for update in submit(connect(), "stream")]

    updates = asyncio.run(go())
    need({"output", "status"} <= {u.type for u in updates}, [u.type for u in updates])
    need(updates[-1].type == "output" and updates[-1].final, updates[-1])


def every_type():
    got = outputs(submit(connect(), "all_types"))
    seen = set(types(got))
    for name in (
        "stream_token", "tool_start", "tool_end", "tool_error", "tool_progress", "confirm_required", "confirm_resolved", "error",
        "warning", "rewind", "stream_gap", "turn_end", "plain",
    ):
        need(name in seen, f"no {name} in {seen}")
    same(types(got)[-2:], ["turn_end", "plain"])


def no_output_looks_like_a_file():
    def walk(value):
        if isinstance(value, dict):
            need(not isinstance(value.get("path"), str), f"an output holds {value}")
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    got = outputs(submit(connect(), "types"))
    walk(got)
    need("path_" in json.dumps(got), "the key was not renamed")


def many_tokens():
    got = outputs(submit(connect(), "many 500"), 60)
    same([m["metadata"]["token"] for m in got if kind(m) == "stream_token"], [f"слово{i} " for i in range(500)])


def an_error_is_a_message():
    job = submit(connect(), "error")
    got = outputs(job)
    same((types(got), job.result()["metadata"]["code"]), (["stream_token", "error"], "LLM_UNAVAILABLE"))


def a_card_is_the_result():
    same(kind(predict(connect(), "confirm_card")), "confirm_required")


def a_dead_worker_is_survived():
    got = outputs(submit(connect(), "die"))
    same((types(got), got[-1]["content"]), (["stream_token", "rewind", "stream_token", "plain"], "найдено "))


def nothing_after_the_end():
    client = connect()
    same(predict(client, "twice")["content"], "раз")
    for i in range(3):
        same(echo_of(predict(client, f"echo {i}"))["message"]["text"], f"echo {i}")


def cancel_mid_stream():
    client, conv = connect(), conversation()
    job = submit(client, "slow", conv)
    at_least(job, 2)
    asked = time.monotonic()
    need(job.cancel() is True, "cancel() is not True")
    need(time.monotonic() - asked < 4, "cancel() took too long")
    # The job's own future is cancelled; what counts is that it ends, and that the client stays usable.
    while not job.done():
        need(time.monotonic() - asked < 5, "the job did not end")
        time.sleep(0.01)
    need(str(job.status().code).endswith("CANCELLED"), job.status())
    count = len(job.outputs())
    time.sleep(1.2)
    need(len(job.outputs()) <= count + 1, "values went on after the cancel")
    same(echo_of(predict(client, "echo", conv))["message"]["text"], "echo")


def cancel_after_the_end():
    client = connect()
    job = submit(client, "echo")
    outputs(job)
    job.cancel()
    same(kind(predict(client, "echo")), "plain")


def two_at_once():
    client = connect()
    for job in [submit(client, "stream"), submit(client, "stream")]:
        got = outputs(job)
        same(tokens(got), got[-1]["content"])


def short_jobs_beside_a_long_one():
    """A completion that overtakes the answer to its join, or comes twice, kills every job of an old client."""
    client = connect()
    job = submit(client, "slow 14")
    at_least(job, 1)
    for i in range(6):
        same(echo_of(predict(client, f"echo {i}"))["message"]["text"], f"echo {i}")
    same(len(outputs(job)[-1]["content"].split()), 14)


def twelve_in_a_row():
    client, conv = connect(), conversation()
    for i in range(12):
        same(echo_of(predict(client, f"echo {i}", conv))["message"]["text"], f"echo {i}")


def threads_share_a_client():
    client, got = connect(), []
    threads = [threading.Thread(target=lambda: got.append(predict(client, "stream"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    same(len(got), 6, "finished")


def busy_conversation():
    client, conv = connect(), conversation()
    job = submit(client, "slow 10", conv)
    at_least(job, 1)
    busy = error_of([predict(client, "echo", conv)])
    same(busy["code"], "CONVERSATION_BUSY")
    need(busy.get("turn_id"), busy)
    same(len(outputs(job)[-1]["content"].split()), 10)


def reset_session():
    client = connect()
    predict(client, "echo")
    before = client.session_hash
    client.reset_session()
    need(client.session_hash != before, "the same hash")
    predict(client, "echo")


def script_can_exit():
    code = (
        "import os; os.environ['HF_HUB_OFFLINE']='1'\nfrom gradio_client import Client\n"
        f"c = Client({A.base!r}, verbose=False, analytics_enabled=False, headers={ALICE!r})\n"
        "c.predict({'text': 'stream', 'files': []}, 'exit', None, api_name='/chat')\nprint('done')\n"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    need("done" in done.stdout, done.stderr[-300:])
    need(time.monotonic() - started < 40, "the interpreter exits late: the event stream stays open")


def long_message():
    got = outputs(submit(connect(), "echo " + "я" * 150_000))
    same((types(got)[0], echo_of(got[-1])["chars"]), ("warning", 100_000))


def attach_from_another_client():
    conv = conversation()
    job = submit(connect(), "slow 10", conv)
    at_least(job, 2)
    attached = outputs(submit(connect(base=A.peer), "", conv, "attach"))
    own = outputs(job)
    same([m["metadata"]["cursor"] for m in attached if kind(m) != "plain"], [m["metadata"]["cursor"] for m in own if kind(m) != "plain"])
    same(attached[-1]["content"], own[-1]["content"])
    later = outputs(submit(connect(), "", conv, f"attach:{own[4]['metadata']['cursor']}"))
    same(tokens(later), tokens(own[5:]))


def upload_and_submit():
    from gradio_client import handle_file

    path = os.path.join(tempfile.mkdtemp(), "отчёт 2.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("a,b\n1,2\n")
    echo = echo_of(predict(connect(), "echo", files=[handle_file(path)]))
    same(([f["name"] for f in echo["message"]["files"]], echo["message"]["files"][0]["size"]), (["отчёт 2.csv"], 8))


def large_file(size):
    path = os.path.join(tempfile.mkdtemp(), "large.pdf")
    with open(path, "wb") as file:
        file.write(b"%PDF-1.7\n".ljust(size, b"\7"))
    return path


def the_largest_file_passes_and_one_byte_more_does_not():
    from gradio_client import handle_file

    client, limit = connect(), 10 * 1024 * 1024
    echo = echo_of(predict(client, "echo", files=[handle_file(large_file(limit))]))
    same([f["size"] for f in echo["message"]["files"]], [limit])
    raises(lambda: predict(client, "echo", files=[handle_file(large_file(limit + 1))]), ("ValueError", "HTTPStatusError", "AppError"))


def raises(what, names):
    try:
        what()
    except Exception as problem:  # noqa: BLE001
        need(type(problem).__name__ in names, f"{type(problem).__name__}: {problem}")
        return
    raise AssertionError("accepted")


def bad_tokens_are_refused():
    for headers in (bearer("x"), bearer(token("alice", -3600)), {}):
        raises(lambda: connect(headers).predict(msg("echo"), api_name="/chat"), ("AuthenticationError", "HTTPStatusError", "ValueError"))


def another_user_sees_nothing():
    conv = conversation()
    job = submit(connect(), "slow 8", conv)
    at_least(job, 1)
    same(error_of([predict(connect(BOB), "", conv, "attach")])["code"], "NOT_FOUND")
    same(echo_of(predict(connect(BOB), "echo", conv))["conversation_id"], conv, "bob's own conversation of that name")
    same(len(outputs(job)[-1]["content"].split()), 8)


def heartbeat_is_served():
    client = connect()
    url = client.heartbeat_url.format(session_hash=client.session_hash)
    with httpx.stream("GET", url, headers=ALICE, timeout=5) as answer:
        same(answer.status_code, 200)
        same(next(answer.iter_lines()), "data: ALIVE")


def answers_come_within_five_seconds():
    """httpx gives up after 5 s (GRADIO-PROTOCOL §2), so nothing slow may stand before these answers."""
    for _ in range(10):
        session = conversation("s")
        for path, body in (
            ("/queue/join", {"data": [msg("slow 2"), conversation(), None], "fn_index": 0, "session_hash": session}),
            ("/cancel", {"event_id": None, "session_hash": session, "fn_index": 0}),
        ):
            started = time.monotonic()
            same(post(path, body).status_code, 200)
            need(time.monotonic() - started < 4, f"{path} took {time.monotonic() - started:.1f} s")


def the_simple_call_api():
    event_id = post("/call/chat", {"data": [msg("stream"), conversation(), None]}).json()["event_id"]
    with httpx.stream("GET", f"{A.peer}{API}/call/chat/{event_id}", headers=ALICE, timeout=20) as answer:
        frames = answer.read().decode().strip().split("\n\n")
    same(frames[-1].split("\n")[0], "event: complete")
    need(json.loads(frames[-1].split("\n")[1][6:])[0]["content"].startswith("слово0 "), frames[-1])


SCENARIOS = [
    pause_of_seventeen_seconds, script_can_exit, connect_and_view_api, positional_arguments, keyword_arguments,
    text_and_files_as_parameters, only_the_message, a_plain_string, api_name_left_out, values_come_live_and_add_up, for_loop_ends,
    async_iteration, every_type, no_output_looks_like_a_file, many_tokens, an_error_is_a_message, a_card_is_the_result,
    a_dead_worker_is_survived, nothing_after_the_end, cancel_mid_stream, cancel_after_the_end, two_at_once,
    short_jobs_beside_a_long_one, twelve_in_a_row, threads_share_a_client, busy_conversation, reset_session, long_message,
    attach_from_another_client, upload_and_submit, the_largest_file_passes_and_one_byte_more_does_not, bad_tokens_are_refused, another_user_sees_nothing, heartbeat_is_served,
    answers_come_within_five_seconds, the_simple_call_api,
]
