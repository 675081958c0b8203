"""Results and events of runs, as a client puts them together."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolwright.client.transport.follow import follow
from toolwright.client.transport.http import Http, segment
from toolwright.core.agents.run_events import RunDone, RunEvent
from toolwright.core.agents.run_result import RunResult, last_text
from toolwright.core.json_value import JSONObject
from toolwright.core.results.result import ToolResult
from toolwright.core.schemas.meta import Call as ResultCall
from toolwright.core.threads.call import MOVES
from toolwright.core.threads.message import Message as RunMessage
from toolwright.core.threads.message import MessageCall
from toolwright.wire.call import Call
from toolwright.wire.message import Message
from toolwright.wire.reading import Items, read_field, read_list
from toolwright.wire.run import Run
from toolwright.wire.streams.run_events import RecordedCall, RunEvents, failure_of

PAGE = 200
"""Items that are read at once."""


class RunResults:
    """Reads what runs came to, and what their events only name."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def result(self, run_id: str) -> RunResult:
        """What the run has come to, so far if it is not over; its output as JSON."""
        run = read_field(Run, await self._http.get(f"/api/runs/{segment(run_id)}"), "run")
        messages = tuple([_message(each) for each in await self._messages(run)])
        calls = [each for each in await self._calls(run_id) if each.parent_id is None]
        return RunResult(
            status=run.status,
            output=run.output,
            text=last_text(messages),
            messages=messages,
            calls=tuple([_shown(each) for each in calls]),
            usage=run.usage,
            cost=run.cost,
            stop_reason=run.stop_reason,
            error=run.error,
            error_code="cancelled" if run.status == "cancelled" else run.error_code,
            thread_id=run.thread_id or "",
            run_id=run.id,
        )

    async def call(self, call_id: str) -> RecordedCall:
        """The call as it is recorded. Raises `NotFound`."""
        call = read_field(Call, await self._http.get(f"/api/calls/{segment(call_id)}"), "call")
        return RecordedCall(name=call.name, arguments=call.args, result=_result(call))

    async def text(self, thread_id: str, seq: int) -> str:
        """The text of the thread's message at that place, empty if there is none."""
        query = {"limit": 1, "offset": seq - 1}
        messages = read_list(Message, await self._http.get(_messages_of(thread_id), query), "messages")
        return messages[0].content if messages else ""

    async def run(self, run_id: str) -> AsyncGenerator[RunEvent]:
        """The run's events as values, from its beginning until it is over."""
        run = read_field(Run, await self._http.get(f"/api/runs/{segment(run_id)}"), "run")
        path = f"/api/runs/{segment(run_id)}/stream"
        async with aclosing(self._values(path, run.thread_id or "", 0)) as values:
            async for each in values:
                yield each
                if isinstance(each, RunDone):
                    return

    async def thread(self, thread_id: str, after: int | None) -> AsyncGenerator[RunEvent]:
        """The thread's events as values, forever."""
        path = f"/api/threads/{segment(thread_id)}/stream"
        async with aclosing(self._values(path, thread_id, after)) as values:
            async for each in values:
                yield each

    async def _values(self, path: str, thread_id: str, after: int | None) -> AsyncGenerator[RunEvent]:
        values = RunEvents(self)
        async with aclosing(follow(self._http, path, after)) as events:
            async for event in events:
                async for each in values.of(thread_id, event.run_id, event.type, event.payload):
                    yield each

    async def _messages(self, run: Run) -> list[Message]:
        messages: list[Message] = []
        place = 0
        while True:
            query = {"runId": run.id, "limit": PAGE, "offset": place}
            page = read_list(
                Message, await self._http.get(_messages_of(run.thread_id or ""), query), "messages"
            )
            messages += page
            place += len(page) + len(page.broken)
            if len(page) < PAGE and not page.more:
                return messages

    async def _calls(self, run_id: str) -> list[Call]:
        calls: list[Call] = []
        place = 0
        while True:
            query = {"runId": run_id, "status": ",".join(MOVES), "limit": PAGE, "offset": place}
            page: Items[Call] = read_list(Call, await self._http.get("/api/calls", query), "calls")
            calls += page
            place += len(page) + len(page.broken)
            if len(page) < PAGE and not page.more:
                return calls


def _messages_of(thread_id: str) -> str:
    return f"/api/threads/{segment(thread_id)}/messages"


def _message(message: Message) -> RunMessage:
    calls = [
        MessageCall(id=each.id, name=each.name, arguments=each.arguments, model_call_id=each.id)
        for each in message.calls
    ]
    return RunMessage(
        id=message.id,
        role=message.role,
        content=message.content,
        seq=message.seq,
        run_id=message.run_id,
        calls=tuple(calls),
        call_id=message.call_id,
        tool_name=message.tool_name,
        status=message.status,
        stack=message.stack,
        attachments=message.attachments,
        created_at=message.created_at,
    )


def _shown(call: Call) -> ResultCall:
    args: JSONObject = call.args if isinstance(call.args, dict) else {}
    return ResultCall(tool=call.name, args=args, result=_result(call))


def _result(call: Call) -> ToolResult | None:
    match call.result_status:
        case "success":
            return ToolResult(status="success", result=call.result, attachments=call.attachments)
        case "error":
            return failure_of(call.result if isinstance(call.result, dict) else {})
        case None:
            return None
