"""Runs over HTTP: read, follow, wait for, cancel and retry them; their results and events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolwright.client.follow import CONNECTED, follow, signals
from toolwright.client.http import RETRIABLE, Http, segment
from toolwright.core.agents.run_result import RunDone, RunEvent, RunResult, last_text
from toolwright.core.concurrency import within
from toolwright.core.json_value import JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.schemas.meta import Call as ResultCall
from toolwright.core.threads.call import MOVES
from toolwright.core.threads.message import Message as RunMessage
from toolwright.core.threads.message import MessageCall
from toolwright.core.threads.run import OVER, RunStatus
from toolwright.wire.call import Call
from toolwright.wire.event import Event
from toolwright.wire.message import Message
from toolwright.wire.run import Run, SentPrompt
from toolwright.wire.run_events import RecordedCall, RunEvents, error_result
from toolwright.wire.shape import Items, read_field, read_list

PAGE = 200
"""Number of items read per request."""


class RunResults:
    """Reads the results of runs, and the records to which events refer."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def result(self, run_id: str) -> RunResult:
        """Return the run's result, with its output as JSON. It is partial while the run is open.

        Each result of a call is whole if it has at most 4 MiB.
        """
        run = read_field(Run, await self._http.get(f"/api/runs/{segment(run_id)}"), "run")
        messages = tuple([_message(each) for each in await self._messages(run)])
        rows = [each for each in await self._calls(run_id) if each.parent_id is None]
        calls = [await self._call(each.id) if each.result_truncated else each for each in rows]
        return RunResult(
            status=run.status,
            output=run.output,
            text=last_text(messages),
            messages=messages,
            calls=tuple([_result_call(each) for each in calls]),
            usage=run.usage,
            cost=run.cost,
            stop_reason=run.stop_reason,
            error=run.error,
            error_code="cancelled" if run.status == "cancelled" else run.error_code,
            thread_id=run.thread_id or "",
            run_id=run.id,
        )

    async def call(self, call_id: str) -> RecordedCall:
        """Return the recorded call. Raises `NotFound`."""
        call = await self._call(call_id)
        return RecordedCall(name=call.name, arguments=call.args, result=_result(call))

    async def text(self, thread_id: str, seq: int) -> str:
        """Return the text of the thread's message at that position, or an empty text."""
        query = {"limit": 1, "offset": seq - 1}
        messages = read_list(Message, await self._http.get(_messages_path(thread_id), query), "messages")
        return messages[0].content if messages else ""

    async def run(self, run_id: str) -> AsyncGenerator[RunEvent]:
        """Yield the run's events as values, from its beginning until it has finished."""
        run = read_field(Run, await self._http.get(f"/api/runs/{segment(run_id)}"), "run")
        path = f"/api/runs/{segment(run_id)}/stream"
        async with aclosing(self._values(path, run.thread_id or "", 0)) as values:
            async for each in values:
                yield each
                if isinstance(each, RunDone):
                    return

    async def thread(self, thread_id: str, after: int | None) -> AsyncGenerator[RunEvent]:
        """Yield the thread's events as values, without end."""
        path = f"/api/threads/{segment(thread_id)}/stream"
        async with aclosing(self._values(path, thread_id, after)) as values:
            async for each in values:
                yield each

    async def _values(self, path: str, thread_id: str, after: int | None) -> AsyncGenerator[RunEvent]:
        values = RunEvents(self)
        async with aclosing(follow(self._http, path, after)) as events:
            async for event in events:
                async for each in values.values(thread_id, event.run_id, event.type, event.payload):
                    yield each

    async def _call(self, call_id: str) -> Call:
        return read_field(Call, await self._http.get(f"/api/calls/{segment(call_id)}"), "call")

    async def _messages(self, run: Run) -> list[Message]:
        messages: list[Message] = []
        position = 0
        while True:
            query = {"runId": run.id, "limit": PAGE, "offset": position}
            page = read_list(
                Message, await self._http.get(_messages_path(run.thread_id or ""), query), "messages"
            )
            messages += page
            position += len(page)
            if len(page) < PAGE and not page.more:
                return messages

    async def _calls(self, run_id: str) -> list[Call]:
        calls: list[Call] = []
        position = 0
        while True:
            query = {"runId": run_id, "status": ",".join(MOVES), "limit": PAGE, "offset": position}
            page: Items[Call] = read_list(Call, await self._http.get("/api/calls", query), "calls")
            calls += page
            position += len(page)
            if len(page) < PAGE and not page.more:
                return calls


def _messages_path(thread_id: str) -> str:
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


def _result_call(call: Call) -> ResultCall:
    args: JSONObject = call.args if isinstance(call.args, dict) else {}
    return ResultCall(tool=call.name, args=args, result=_result(call))


def _result(call: Call) -> ToolResult | None:
    match call.result_status:
        case "success":
            return ToolResult(status="success", result=call.result, attachments=call.attachments)
        case "error":
            return error_result(call.result if isinstance(call.result, dict) else {})
        case None:
            return None


ENDS = frozenset(f"run.{status}" for status in OVER)


class Runs:
    """The runs of a gateway. Raises `NotFound` for unknown ids."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._results = RunResults(http)

    async def get(self, run_id: str) -> Run:
        """Return the run, with its steps."""
        answer = await self._http.get(_path(run_id))
        return read_field(Run, answer, "run")

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Items[Run]:
        """Return runs without their steps, newest first."""
        query = {
            "status": status,
            "agentId": agent,
            "threadId": thread_id,
            "limit": limit,
            "offset": offset,
        }
        return read_list(Run, await self._http.get("/api/runs", query), "runs")

    async def events(self, run_id: str, after: int = 0, limit: int = 500, offset: int = 0) -> Items[Event]:
        """Return the run's recorded events with a number above `after`, oldest first."""
        query = {"after": after, "limit": limit, "offset": offset}
        return read_list(Event, await self._http.get(f"{_path(run_id)}/events", query), "events")

    async def prompts(self, run_id: str, limit: int = 20, offset: int = 0) -> Items[SentPrompt]:
        """Return the request to the model at each step of the run, oldest first, including those of prompt tools."""
        query = {"limit": limit, "offset": offset}
        return read_list(SentPrompt, await self._http.get(f"{_path(run_id)}/prompts", query), "prompts")

    async def result(self, run_id: str) -> RunResult:
        """Return the run's result: its output as JSON, its messages and calls. It is partial while the run is open."""
        return await self._results.result(run_id)

    def stream(self, run_id: str) -> AsyncGenerator[RunEvent]:
        """Yield the run's events as values, from its start to its end. The last one is `RunDone`. See `follow`."""
        return self._results.run(run_id)

    def follow(self, run_id: str, after: int | None = None) -> AsyncGenerator[Event]:
        """Yield the run's events, without end, also after the run has finished.

        Yields the recorded events with a number above `after` (0: all), then live events; without `after` only live
        events. See `Threads.follow`.
        """
        return follow(self._http, f"{_path(run_id)}/stream", after)

    async def wait(self, run_id: str, timeout: float | None = None) -> Run:
        """Wait until the run has finished and return it. Raises `TimeoutError` after `timeout` seconds (None: never).

        The run is read after each connection and at its end; in between, its event stream is followed.
        """
        is_connected = False
        async with within(timeout, f"The run {run_id!r} did not finish within {timeout} seconds."):
            while True:
                try:
                    async with aclosing(signals(self._http, f"{_path(run_id)}/stream")) as events:
                        async for event in events:
                            is_connected = True
                            if event.type == CONNECTED or event.type in ENDS:
                                run = await self.get(run_id)
                                if run.over:
                                    return run
                except RETRIABLE:
                    if not is_connected:  # once connected, outages are waited out
                        raise

    async def cancel(self, run_id: str) -> Run:
        """Request the cancellation of a run. Raises `RunOver` if it has finished. Wait for its end with `wait`."""
        return read_field(Run, (await self._http.call("POST", f"{_path(run_id)}/cancel")).json, "run")

    async def retry(self, run_id: str) -> Run:
        """Continue a failed run from its last step. Wait for its end with `wait`.

        Raises `NotFailed` if the run has not failed, or if its inbox events are retried one by one; `RunOver` if the
        thread has a later run; `ThreadBusy` while a run is open in the thread; `ThreadTerminated` if the thread's
        session has ended.
        """
        return read_field(Run, (await self._http.call("POST", f"{_path(run_id)}/retry")).json, "run")


def _path(run_id: str) -> str:
    return f"/api/runs/{segment(run_id)}"
