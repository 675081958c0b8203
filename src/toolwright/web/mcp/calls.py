"""`tools/call`: creates a call, follows it, and answers with its result, a task, or a question to the user."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from toolwright.core.errors import NotFound, ToolwrightError
from toolwright.core.json_value import JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import OPEN, Call, is_over
from toolwright.core.threads.decision import Decider
from toolwright.core.tools.pipeline import timed_out
from toolwright.core.tools.tool import OUTSIDE_TIMEOUT, Tool
from toolwright.core.value import changed
from toolwright.runtime.pending.app_calls import AppCall, AppCalls, CallWatch, call_of
from toolwright.web.mcp.content import call_result, error_result
from toolwright.web.mcp.sessions import HostNotifier
from toolwright.web.mcp.tasks import (
    answer_all,
    approval_notice,
    approval_question,
    ask,
    legacy_task,
    open_questions,
    refuse,
    request_of,
    task_json,
)
from toolwright.web.mcp.tools import Context, McpParts, is_modern, knows_tasks, unknown
from toolwright.wire.result import is_cut, whole_file

POLL_INTERVAL = 2.0  # seconds without an event after which the row is read
REMOTE_POLL_INTERVAL = 0.25  # the same while another process executes the runs, whose events can be lost
SETTLE = 0.25  # seconds to wait for the last event of a call after its row is final

MARGIN = 30.0  # seconds beyond a tool's timeout within which its call must start and end

CallAnswer = types.CallToolResult | types.InputRequiredResult | dict[str, Any]


class ToolCalls:
    """Executes the calls of hosts."""

    def __init__(self, parts: McpParts) -> None:
        self._parts = parts

    async def call(self, context: Context, params: types.CallToolRequestParams) -> CallAnswer:
        """Make the call, or continue a call that asked its user.

        The call is cancelled if the host cancels it or disconnects.
        """
        tool = await self._require_tool(context, params)
        if params.request_state is not None and is_modern(context):
            return await self._resume(context, tool, params, params.request_state)
        app_calls = self._parts.runtime.app_calls
        call = app_calls.new()
        with app_calls.watch(call) as watch:
            making = self._make(context, call, params)
            try:
                await asyncio.shield(making)  # see `_make`
                return await self._followed(context, tool, call, watch, params.input_responses)
            except asyncio.CancelledError:
                # In a background task, because this one is cancelled and must not wait.
                self._parts.begin(
                    _cancel(app_calls, call, making, self._parts.caller(context).through("mcp"))
                )
                raise

    async def read(self, context: Context, tool: Tool, arguments: JSONObject) -> tuple[str, ToolResult]:
        """Make a call that can ask no one, and return the id of its thread and its result, whole up to 4 MiB.

        Raises the protocol's error if the call ends without a result or waits for an approval.
        """
        app_calls = self._parts.runtime.app_calls
        call = app_calls.new()
        with app_calls.watch(call) as watch:
            params = types.CallToolRequestParams(name=tool.name, arguments=arguments)
            making = self._make(context, call, params)
            try:
                await asyncio.shield(making)
                async with asyncio.timeout(
                    OUTSIDE_TIMEOUT if tool.timeout is None else tool.timeout + MARGIN
                ):
                    row = await self._finished(context, call, watch)
            except (asyncio.CancelledError, TimeoutError) as error:
                self._parts.begin(
                    _cancel(app_calls, call, making, self._parts.caller(context).through("mcp"))
                )
                if isinstance(error, TimeoutError):
                    raise MCPError(types.INTERNAL_ERROR, "The resource could not be read in time.") from None
                raise
        result = app_calls.result(row)
        if result is None:
            raise MCPError(types.INTERNAL_ERROR, f"The call is {row.status}.")
        file = whole_file(result)
        if file is not None:
            whole = app_calls.result(await self._parts.runtime.calls.get(row.id))
            if whole is not None and not is_cut(whole):
                others = tuple([each for each in whole.attachments if each != file])
                result = changed(whole, attachments=others)
        return row.thread_id, result

    async def _finished(self, context: Context, call: AppCall, watch: CallWatch) -> Call:
        app_calls = self._parts.runtime.app_calls
        while (row := await watch.row()) is None or not is_over(row.status):
            if row is None:
                if await app_calls.is_lost(call):
                    raise MCPError(types.INTERNAL_ERROR, "The call could not be executed.")
            elif row.awaits_approval:
                await app_calls.cancel(call, by=self._parts.caller(context).through("mcp"))
                raise MCPError(types.INTERNAL_ERROR, f"The tool {row.name!r} needs an approval.")
            else:
                for question in await open_questions(self._parts.runtime, row, self._parts.caller(context)):
                    await refuse(self._parts.runtime, question)
            await watch.next(POLL_INTERVAL if self._parts.runtime.is_only_driver else REMOTE_POLL_INTERVAL)
        return row

    async def begin(self, context: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        """Create the call for a host of 2025-11-25 that requests a task. The task exists as soon as the row does."""
        await self._require_tool(context, params)
        app_calls = self._parts.runtime.app_calls
        call = app_calls.new()
        with app_calls.watch(call) as watch:
            await asyncio.shield(self._make(context, call, params))
            while (row := await watch.row()) is None:
                if not await watch.next(POLL_INTERVAL) and await app_calls.is_lost(call):
                    raise MCPError(types.INVALID_PARAMS, "The call could not be executed.")
        return {"task": legacy_task(row, "working", None)}

    async def _require_tool(self, context: Context, params: types.CallToolRequestParams) -> Tool:
        """Return the tool. Raises the protocol's error if it does not exist for this caller."""
        tool = self._parts.pages.require(params.name)
        if not await self._parts.allows(context, tool, (params.arguments or {}).get("_delegate")):
            raise unknown(params.name)
        return tool

    def _make(
        self, context: Context, call: AppCall, params: types.CallToolRequestParams
    ) -> "asyncio.Task[None]":
        """Create the call in a task that outlives the request, because a half-created call could not be cancelled."""
        caller = self._parts.caller(context)
        arguments = {} if params.arguments is None else params.arguments
        making = self._parts.runtime.app_calls.make(call, params.name, arguments, caller.entity_id)
        return self._parts.begin(making)

    async def _resume(
        self, context: Context, tool: Tool, params: types.CallToolRequestParams, call_id: str
    ) -> CallAnswer:
        """Resume the caller's call named by the state, also if it was made in another process."""
        runtime, caller = self._parts.runtime, self._parts.caller(context)
        try:
            row = await runtime.app_calls.find(call_id, caller.users)
        except NotFound:
            raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState") from None
        call = call_of(row)
        with runtime.app_calls.watch(call) as watch:
            try:
                return await self._followed(context, tool, call, watch, params.input_responses)
            except asyncio.CancelledError:
                self._parts.begin(runtime.app_calls.cancel(call, by=caller.through("mcp")))
                raise

    async def _followed(
        self,
        context: Context,
        tool: Tool,
        call: AppCall,
        watch: CallWatch,
        answers: Mapping[str, object] | None,
    ) -> CallAnswer:
        follower = _CallFollower(self._parts, context, tool, call, watch)
        follower.answers = dict(answers or {})
        try:
            return await follower.answer()
        finally:
            follower.close()


class _CallFollower:
    """Follows one call until its host can be answered."""

    def __init__(
        self, parts: McpParts, context: Context, tool: Tool, call: AppCall, watch: CallWatch
    ) -> None:
        self._parts = parts
        self._runtime = parts.runtime
        self._context = context
        self._caller = parts.caller(context)
        self._tool = tool
        self._call = call
        self._watch = watch
        self._relay = HostNotifier(parts, context, call.id)
        self.answers: dict[str, object] = {}
        self._missing_capabilities: JSONObject = {}
        self._question_tasks: dict[str, asyncio.Task[None]] = {}
        self._clock = asyncio.get_running_loop()
        self._began = self._clock.time()

    async def answer(self) -> CallAnswer:
        """Return the result, a task, the requested input, or a notice of the timeout."""
        must_check = True
        while True:
            row = await self._watch.row()
            if row is not None:
                answer = await self._now(row, must_check=must_check)
                if answer is not None:
                    return answer
            events = await self._watch.next(self._pause())
            await self._relay.send(events)
            if not events:
                # No row will ever exist if the run for the call's inbox event failed repeatedly.
                if row is None and await self._runtime.app_calls.is_lost(self._call):
                    return error_result("The call could not be executed.")
                await self._relay.beat(self._elapsed, f"{self._tool.name} has not finished yet")
            must_check = not events or any(event.type == "tool.started" for event in events)

    def close(self) -> None:
        """Stop following the call."""
        for task in self._question_tasks.values():
            task.cancel()

    @property
    def _elapsed(self) -> float:
        return self._clock.time() - self._began

    async def _now(self, row: Call, *, must_check: bool) -> CallAnswer | None:
        """Return the answer for the row's current status, or None while there is no answer."""
        if is_over(row.status):
            return await self._result(row)
        if must_check and row.status != "created":
            answer = await self._questions(row)
            if answer is not None:
                return answer
        if knows_tasks(self._context) and (row.status in OPEN or self._elapsed >= self._parts.patience):
            return {"resultType": "task", **task_json(row, "working")}
        if row.awaits_approval and not self._can_approve(row):
            return error_result(approval_notice(row))
        limit = self._tool.timeout or OUTSIDE_TIMEOUT
        if row.status == "pending" and self._elapsed >= limit:
            return await call_result(self._runtime.files, row.thread_id, timed_out(limit), self._tool)
        return None

    async def _result(self, row: Call) -> CallAnswer:
        # The row can be final before its last events arrive: progress and log lines must precede the result.
        until = self._clock.time() + SETTLE
        while not self._relay.ended and self._runtime.is_only_driver and self._clock.time() < until:
            await self._relay.send(await self._watch.next(until - self._clock.time()))
        result = self._runtime.app_calls.result(row)
        if result is None:
            return error_result(f"The call is {row.status}.")
        if self._missing_capabilities and result.status == "error" and is_modern(self._context):
            data = {"requiredCapabilities": self._missing_capabilities}
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", data
            )
        return await call_result(self._runtime.files, row.thread_id, result, self._tool)

    def _can_approve(self, row: Call) -> bool:
        """Return whether the host's user can be asked to approve the call."""
        question = approval_question(row, self._caller)
        is_open = is_modern(self._context) or self._context.session.can_send_request
        return question is not None and is_open and request_of(question, self._context) is not None

    async def _questions(self, row: Call) -> CallAnswer | None:
        """Ask the host's user, within the session or by an answer after which the host repeats the request."""
        questions = await open_questions(self._runtime, row, self._caller)
        if not is_modern(self._context):
            for each in questions:
                if each.call.id not in self._question_tasks:
                    asking = ask(self._runtime, each, self._context)
                    self._question_tasks[each.call.id] = asyncio.create_task(asking)
            return None
        answered = {each.key: self.answers.pop(each.key) for each in questions if each.key in self.answers}
        if answered and await answer_all(self._runtime, questions, answered):
            row = await self._watch.row() or row
            questions = await open_questions(self._runtime, row, self._caller)
        requests: dict[str, types.InputRequest] = {}
        for each in questions:
            request = request_of(each, self._context)
            if request is None:
                if not each.approves:
                    self._missing_capabilities |= each.missing_capability
                await refuse(self._runtime, each)
            else:
                requests[each.key] = request
        if not requests:
            return None
        return types.InputRequiredResult(input_requests=requests, request_state=self._call.id)

    def _pause(self) -> float:
        """Return the seconds to wait for the next event."""
        pause = min(POLL_INTERVAL, self._parts.beat) if self._runtime.is_only_driver else REMOTE_POLL_INTERVAL
        if knows_tasks(self._context):
            remaining = self._parts.patience - self._elapsed
            return max(0.01, min(pause, remaining)) if remaining > 0 else pause
        return pause


async def _cancel(app_calls: AppCalls, call: AppCall, making: "asyncio.Task[None]", by: Decider) -> None:
    """Cancel a call after it was created."""
    with suppress(ToolwrightError):  # the host no longer waits, and the call might have ended by itself
        await making
        await app_calls.cancel(call, by=by)
