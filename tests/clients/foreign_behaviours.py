"""What the foreign worker plays: one function per first word of a message. Nothing here touches NATS."""
import json


class Gone(Exception):
    """The worker dies in the middle of a turn."""


async def echo(turn, _):
    job = turn.job
    files = [{key: file.get(key) for key in ("name", "mime", "size")} for file in job.get("files", [])]
    action = {"message": None}.get(job["kind"], job["kind"])
    answer = {"message": {"text": job["text"][:1000], "files": files}, "chars": len(job["text"]), "action": action,
              "tool_call_id": job.get("tool_call_id"), "conversation_id": job.get("conversation_ref"),
              "user_id": job["user_id"], "locale": job["locale"], "sealed": job.get("user_token", "")[:3]}
    turn.text = json.dumps(answer, ensure_ascii=False)


async def stream(turn, count=8, pause=0.06):
    for number in range(count):
        await turn.token(f"слово{number} ")
        await turn.wait(pause)


async def slow(turn, count):
    await stream(turn, count or 26, 0.25)


async def many(turn, count):
    await stream(turn, count or 500, 0)


async def pause(turn, seconds):
    await turn.token("до ")
    await turn.wait(seconds or 20)
    await turn.token("после")


async def types(turn, _):
    """Every type of the specification's event table."""
    await turn.token("Смотрю. ")
    call = {"tool_call_id": "call_1", "tool": "search_dashboards"}
    await turn.tell("tool_start", **call, input={"query": "sales"})
    await turn.tell("tool_end", **call, output={"total": 1, "items": [{"id": "17", "path": "/dashboards/17"}]})
    call = {"tool_call_id": "call_2", "tool": "deploy_dashboard"}
    await turn.tell("tool_start", **call, input={"dashboard_id": "17"})
    await turn.tell("tool_error", **call, error="The operation failed.", code="TOOL_FAILURE")
    await card(turn)
    await turn.tell("confirm_resolved", confirmation_id=turn.job["turn_id"], result="denied", tool_call_ids=["call_3"])
    await turn.tell("error", code="LLM_UNAVAILABLE", detail="The language model can't be reached.")
    await turn.tell("message", content="Просто текст.")
    await turn.token("Готово.")


async def all_types(turn, _):
    """The additional types too, and what a worker that measures reports at its end."""
    await types(turn, None)
    await turn.tell("tool_start", tool_call_id="call_4", tool="run_backup", input={})
    await turn.tell("tool_progress", tool_call_id="call_4", tool="run_backup", elapsed_s=35)
    await turn.tell("tool_end", tool_call_id="call_4", tool="run_backup", output="ok")
    await turn.tell("warning", code="MESSAGE_TRUNCATED", detail="The message was cut.")
    await turn.tell("stream_gap", **{"from": "1", "to": "2"})
    await turn.tell("rewind", to_cursor=str(turn.seq))
    await turn.end(usage={"input_tokens": 10, "output_tokens": 5, "steps": 2},
                   timings={"queue_ms": 1, "first_token_ms": 2, "total_ms": 3})


async def card(turn, _=None):
    call = {"tool_call_id": "call_3", "tool": "deploy_dashboard", "input": {"dashboard_id": "17"}, "prompt": "Деплой?"}
    await turn.tell("confirm_required", confirmation_id=turn.job["turn_id"], prompt="Подтвердить деплой?",
                    thread_id=turn.job["conversation_id"], calls=[call], expires_at=turn.job["expires_at"])


async def ask(turn, _):
    await turn.token("Нужно подтверждение. ")
    await card(turn)
    await turn.end("interrupted")


async def error(turn, _):
    await turn.token("Пробую... ")
    await turn.tell("error", code="LLM_UNAVAILABLE", detail="The language model can't be reached. Try again in a moment.")
    await turn.end("failed")


async def die(turn, _):
    """The first attempt breaks off in the middle; the next one withdraws its text and finishes."""
    await turn.token("потеряно " if turn.attempt == 1 else "найдено ")
    if turn.attempt == 1:
        raise Gone


async def twice(turn, _):
    """Talks on after the end, which nobody may see."""
    await turn.token("раз")
    await turn.end()
    await turn.token("два")
    await turn.end()


async def silent(_turn, _):
    """No token, no text."""


async def only_tokens(turn, count):
    """An answer too long for one event: the end carries no text, readers add up the tokens."""
    await stream(turn, count or 8, 0)
    await turn.end(text=None)


BEHAVIOURS = {"stream": lambda turn, _: stream(turn), "slow": slow, "many": many, "pause": pause, "types": types,
              "all_types": all_types, "confirm_card": ask, "error": error, "die": die, "twice": twice,
              "silent": silent, "only_tokens": only_tokens}
