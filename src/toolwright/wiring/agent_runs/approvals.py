"""Approvals of a run's calls by a function of whoever has begun it: `tw.run(agent, "…", approve=…)`."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from toolwright.core.agents.run_events import CallWaiting, RunEvent
from toolwright.core.checks import brief_value
from toolwright.core.errors import AlreadyOver, CallExpired, InvalidRequest
from toolwright.core.json_value import JSON

Approval: TypeAlias = bool | Mapping[str, JSON]
Approve: TypeAlias = Callable[[CallWaiting], Approval | Awaitable[Approval]]
"""Is given a call that waits for an approval; the answer is true, false, or `{approved, args?, reason?}`."""
Submit: TypeAlias = Callable[[str, JSON], Awaitable[None]]


def check_approve(approve: object) -> None:
    """Refuse what cannot be asked. Raises `InvalidRequest`."""
    if approve is not None and not callable(approve):
        raise InvalidRequest(f"approve= is a function of a call that waits, not {brief_value(approve)}.")


async def approve_event(event: RunEvent, approve: Approve, submit: Submit) -> None:
    """Ask about the call, if the event says that one waits for an approval, and hand in the answer.

    A function that is not async is asked in a thread. Raises what it raises, and `InvalidRequest` for an answer that is
    none, or whose arguments do not fit.
    """
    if not isinstance(event, CallWaiting) or event.reason != "approval":
        return
    if inspect.iscoroutinefunction(approve):
        answer = await approve(event)
    else:
        answer = await asyncio.to_thread(approve, event)
        answer = await answer if inspect.isawaitable(answer) else answer
    with suppress(AlreadyOver, CallExpired):  # somebody else has answered, or it took too long
        await submit(event.call_id, _read(answer, event.name))


async def all_done(*waits: Coroutine[Any, Any, None]) -> None:
    """Wait for all of them; the first that raises ends the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        for ended in asyncio.as_completed(tasks):
            await ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _read(answer: object, name: str) -> JSON:
    if isinstance(answer, bool):
        return {"approved": answer}
    if isinstance(answer, Mapping):
        return {**answer}  # pyright: ignore[reportUnknownVariableType]  # judged where it is handed in
    raise InvalidRequest(
        f"approve= answers about {name!r} with true, false or {{approved, args?, reason?}}, not {brief_value(answer)}."
    )
