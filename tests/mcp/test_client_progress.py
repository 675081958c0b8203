"""Floods of progress reports: only the latest of each call counts, a bounded number per second."""

import asyncio
from contextlib import suppress

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

from toolwright.adapters.mcp.session import ToolsDispatcher

pytestmark = pytest.mark.anyio

FLOOD = 5_000


async def _answer(*_: object) -> dict[str, object]:
    return {}


async def _ignore(*_: object) -> None:
    return None


def report(progress: int, total: int | None = None, token: str | int = 1) -> SessionMessage:
    params = {"progressToken": token, "progress": progress}
    more = {} if total is None else {"total": total}
    return SessionMessage(
        JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={**params, **more})
    )


async def delivered(*reports: SessionMessage, last: float) -> list[float]:
    """Return the reports that a call receives; it ends after `last`."""
    told: list[float] = []
    is_last = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)
        if progress == last:
            is_last.set()

    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    dispatcher = ToolsDispatcher(incoming, outgoing, over=asyncio.Event())
    running = asyncio.create_task(dispatcher.run(_answer, _ignore))
    async with asyncio.timeout(60), to_us, from_us:
        call = asyncio.create_task(dispatcher.send_raw_request("ping", None, {"on_progress": hear}))
        sent = (await from_us.receive()).message
        token = getattr(sent, "id")  # noqa: B009 - a request has one
        for each in reports:
            assert isinstance(each.message, JSONRPCNotification)
            params = {**(each.message.params or {}), "progressToken": token}
            await to_us.send(SessionMessage(each.message.model_copy(update={"params": params})))
        await is_last.wait()
        await to_us.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=token, result={})))
        await call
    with suppress(asyncio.CancelledError):
        running.cancel()
        await running
    return told


async def test_of_a_flood_the_latest_report_is_delivered_and_few_others() -> None:
    told = await delivered(*[report(n) for n in range(1, FLOOD + 1)], last=FLOOD)
    assert (told[0], told[-1]) == (1, FLOOD)
    assert told == sorted(told)
    assert len(told) < FLOOD / 10


async def test_the_end_does_not_wait_for_a_pause_but_a_flood_of_ends_does() -> None:
    assert await delivered(report(1, 3), report(2, 3), report(3, 3), last=3) == [1, 3]
    told = await delivered(report(1, 3), *[report(3, 3)] * FLOOD, report(4, 5), last=4)
    assert (told[:2], told[-1]) == ([1, 3], 4)
    assert len(told) < FLOOD / 10
