"""Approvals of a run's calls by a function of whoever has begun it: `tw.run(agent, "…", approve=…)`."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from toolwright.core.agents.run_events import CallWaiting
from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON

Approval: TypeAlias = bool | Mapping[str, JSON]
Approve: TypeAlias = Callable[[CallWaiting], Approval | Awaitable[Approval]]
"""Is given a call that waits for an approval; the answer is true, false, or `{approved, args?, reason?}`."""


def check_approve(approve: object) -> None:
    """Refuse what cannot be asked. Raises `InvalidRequest`."""
    if approve is not None and not callable(approve):
        raise InvalidRequest(
            f"approve must be a function of the call that waits, not {brief_value(approve)}."
        )


async def ask_approval(approve: Approve, call: CallWaiting) -> JSON:
    """Call `approve` with a call that waits for an approval, in a thread if it is not async; return its answer.

    Raises what it raises, and `InvalidRequest` if its answer has the wrong form.
    """
    if inspect.iscoroutinefunction(approve):
        answer = await approve(call)
    else:
        answer = await asyncio.to_thread(approve, call)
        answer = await answer if inspect.isawaitable(answer) else answer
    return _read(answer, call.name)


async def first_done(*works: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them has ended, and cancel the others. Raises what that one raises."""
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
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
        f"approve must answer about {name!r} with true, false or {{approved, args?, reason?}}, "
        f"not {brief_value(answer)}."
    )
