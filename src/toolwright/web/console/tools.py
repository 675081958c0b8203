"""Tools by name, their calls, and the form to try a tool."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final
from urllib.parse import quote

from toolwright.core.env.env import Variable
from toolwright.core.errors import (
    DefinitionError,
    NotFound,
    StoreError,
    TenvsRequired,
    ToolwrightError,
    VariablesRequired,
)
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.results import AttachmentRef, ToolResult
from toolwright.core.text import brief
from toolwright.core.threads.call import OPEN, Call, is_over
from toolwright.core.threads.run import Run
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.core.value import Value
from toolwright.runtime.pending.app_calls import EVERY, call_of
from toolwright.runtime.runtime import Runtime
from toolwright.web.console.dialogs import confirm, variables_form
from toolwright.web.console.runs.calls import draw_files
from toolwright.web.console.schema_form import SchemaForm
from toolwright.web.console.sign_in import SignInField, entry_form
from toolwright.web.console.tool_ui.parts import json_block
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import MAX_SHOWN, action, badge, box, code, link, plain_text

_PLAIN: Final = re.compile("[A-Za-z0-9_.-]+")
MAX_DESCRIPTION: Final = 240  # characters of a description in a list
POLL_INTERVAL: Final = 0.5  # seconds without an event after which the row is read
MAX_ROWS: Final = 200
MAX_CHOICES: Final = 12
MAX_TEXT: Final = 300  # characters of a description or a default
KINDS: Final = {
    "done": "good",
    "resolved": "good",
    "error": "bad",
    "expired": "bad",
    "cancelled": "",
    "waiting": "waiting",
    "pending": "waiting",
}
"""Colors of the states of a call. All other states are in progress."""


async def tools_of(visit: Visit, agent_id: str) -> Toolset:
    """Return all tools of an agent: its own, those of its toolkits, and those of MCP servers. Waits for the servers."""
    try:
        return (await visit.runtime.toolkit(agent_id)).tools
    except TenvsRequired:  # its threads provide the values; it has none of its own
        return (await visit.runtime.agents.active(agent_id)).tools


async def find_tool(visit: Visit, name: str, agent_id: str | None) -> Tool:
    """Return the named tool of the app or of an agent. Raises `NotFound`."""
    tools = _app_toolset(visit, name) if agent_id is None else await tools_of(visit, agent_id)
    if name not in tools:
        raise NotFound(f"There is no tool {brief(repr(name), 200)}.")
    return tools[name]


def _app_toolset(visit: Visit, name: str) -> Toolset:
    """Return the toolset for external hosts if it contains the tool, or the app's own toolset otherwise."""
    try:
        tools = visit.runtime.app_calls.tools
    except DefinitionError:  # a call would report the error
        return visit.runtime.tools
    return tools if name in tools else visit.runtime.tools


def path_of(name: str, agent_id: str | None = None) -> str:
    """Return the path of a tool's page. A name that a path cannot contain is passed in the query."""
    place = "/tools" if agent_id is None else f"/tools/{quote(agent_id, safe='')}"
    return f"{place}/{name}" if _PLAIN.fullmatch(name) else f"{place}/-?name={quote(name, safe='')}"


def tool_list(tools: Sequence[Tool], agent_id: str | None = None) -> None:
    """Render a list of tools, each with a link to its page."""
    with box("ul", "list"):
        for tool in tools:
            with box("li", "item"), box("div", "fill"):
                with box("div", "row"):
                    link(tool.name, path_of(tool.name, agent_id), "title mono")
                    hints(tool)
                plain_text(brief(tool.description, MAX_DESCRIPTION), "p", "quiet small")


def hints(tool: Tool) -> None:
    """Render a tool's kind and effects as badges."""
    badge(tool.kind)
    for is_shown, name, kind in (
        (tool.read_only, "read only", "good"),
        (tool.destructive, "destructive", "bad"),
        (tool.visible, "visible", "busy"),
        (tool.is_async, "async", ""),
        (tool.approval is not None, "needs approval", "waiting"),
    ):
        if is_shown:
            badge(name, kind)


async def draw_outcome(call: Call, result: ToolResult | None) -> None:
    """Render the result or error of a call, if any."""
    if result is None:
        plain_text("There is no result.", "p", "quiet")
        return
    if result.status == "error":
        with box("div", "error") as element:
            element.props["role"] = "alert"
            plain_text(brief(result.error or "The call failed.", MAX_SHOWN), "p")
        if result.error_code is not None:
            with box("div", "row"):
                badge(brief(result.error_code, 60), "bad")
    if isinstance(result.result, str):
        code(result.result)
    elif result.result is not None or result.status == "success":
        await json_block(result.result)
    draw_files(call.thread_id, [each for each in result.attachments if isinstance(each, AttachmentRef)])
    if result.stack:
        with box("details", "folded"):
            plain_text("Traceback", "summary", "quiet small")
            code(result.stack)


class TestProgress(Value):
    """Status of a call: its row, if it exists yet, and its run."""

    call: Call | None = None
    run: Run | None = None

    @property
    def over(self) -> bool:
        """Return whether the call has ended."""
        return self.call is not None and is_over(self.call.status)

    @property
    def request_id(self) -> str | None:
        """Id of the open request for variables of the call's run, or None."""
        waiting = self.run.waiting if self.run is not None and self.run.status == "waiting" else None
        request_id = (waiting or {}).get("requestId")
        return request_id if isinstance(request_id, str) else None


async def call_app_tool(
    runtime: Runtime, name: str, arguments: JSONObject, before: Call | None
) -> AsyncGenerator[TestProgress]:
    """Call a tool of the app like an external host, and yield the status of the call until it has ended."""
    app_calls = runtime.app_calls
    call = app_calls.new(before)
    with app_calls.watch(call) as watch:
        if before is None:
            await app_calls.make(call, name, arguments)
        else:
            await app_calls.make_in_thread_of(call, before, name, arguments)
        while True:
            row = await watch.row()
            progress = TestProgress(call=row, run=await _run(runtime, call.run_id))
            yield progress
            if progress.over:
                return
            if not await watch.next(POLL_INTERVAL) and row is None and await app_calls.is_lost(call):
                raise StoreError("The call could not be executed.")


async def call_agent_tool(
    runtime: Runtime, agent_id: str, name: str, arguments: JSONObject
) -> AsyncGenerator[TestProgress]:
    """Call a tool of an agent in a separate run, and yield the status of the call until it has ended."""
    toolkit = await runtime.toolkit(agent_id)
    calling = asyncio.create_task(toolkit.call(name, arguments), name="toolwright-console-call")
    try:
        done = False
        while not done:
            await asyncio.wait([calling], timeout=POLL_INTERVAL)
            done = calling.done()
            if done:
                await calling  # raises the task's exception
            yield await _latest(runtime, toolkit.run_id)
    finally:  # the call continues without a waiter in this process
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)


async def _latest(runtime: Runtime, run_id: str | None) -> TestProgress:
    """Return the current status of the call for which the run was created."""
    if run_id is None:
        return TestProgress()
    calls = await runtime.calls.list(status=EVERY, run_id=run_id)
    root = next((each for each in calls if each.parent_id is None), None)
    return TestProgress(call=root, run=await _run(runtime, run_id))


async def _run(runtime: Runtime, run_id: str) -> Run | None:
    """Return the run, or None if it does not exist yet."""
    try:
        return await runtime.runs.get(run_id)
    except NotFound:
        return None


class ParameterView(Value):
    """Description of one parameter."""

    name: str
    type: str
    required: bool = False
    default: str = ""
    description: str = ""


def parameters_of(schema: JSONObject) -> Iterator[ParameterView]:
    """Yield the parameters of an input schema, in order."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return
    for name, part in properties.items():
        fields = part if isinstance(part, dict) else {}
        described = fields.get("description")
        yield ParameterView(
            name=name,
            type=type_of(part),
            required=isinstance(required, list) and name in required,
            default=dumps_unescaped(fields["default"]) if "default" in fields else "",
            description=described if isinstance(described, str) else "",
        )


def type_of(part: JSON, depth: int = 0) -> str:
    """Describe the type of a schema in a few words."""
    if not isinstance(part, dict) or depth > 4:
        return "any"
    reference = part.get("$ref")
    if isinstance(reference, str):
        return reference.rpartition("/")[2]
    choices = part.get("enum")
    if isinstance(choices, list):
        values = [dumps_unescaped(each) for each in choices[:MAX_CHOICES]]
        return " | ".join([*values, "…"] if len(choices) > MAX_CHOICES else values)
    if "const" in part:
        return dumps_unescaped(part["const"])
    for several in (part.get("anyOf"), part.get("oneOf")):
        if isinstance(several, list):
            return " | ".join([type_of(each, depth + 1) for each in several[:MAX_CHOICES]])
    kind = part.get("type")
    if kind == "array":
        return f"list of {type_of(part.get('items'), depth + 1)}"
    if isinstance(kind, list):
        return " | ".join([str(each) for each in kind])
    return kind if isinstance(kind, str) else "any"


def parameter_table(schema: JSONObject) -> None:
    """Render the table of parameters, or a note that there are none."""
    rows = [*parameters_of(schema)]
    if not rows:
        plain_text("No parameters.", "p", "quiet")
        return
    with box("div", "scroll card"), box("table", "grid"):
        with box("thead"), box("tr"):
            for title in ("Parameter", "Type", "Description"):
                plain_text(title, "th")
        with box("tbody"):
            for row in rows[:MAX_ROWS]:
                _row(row)
    if len(rows) > MAX_ROWS:
        plain_text(f"… and {len(rows) - MAX_ROWS} more", "p", "quiet small")


def _row(row: ParameterView) -> None:
    with box("tr"):
        with box("td"), box("span", "row"):
            plain_text(brief(row.name, 100), "span", "mono")
            if row.required:
                badge("required")
        plain_text(brief(row.type, MAX_TEXT), "td", "mono")
        with box("td"):
            plain_text(brief(row.description, MAX_TEXT), "p")
            if row.default:
                plain_text(f"Default: {brief(row.default, MAX_TEXT)}", "p", "quiet small")


class ToolTester:
    """Calls a tool of the app or of an agent with the entered arguments. Shows one call at a time."""

    def __init__(self, visit: Visit, tool: Tool, agent_id: str | None) -> None:
        self._visit = visit
        self._tool = tool
        self._agent_id = agent_id
        self._by = visit.caller.through("console")
        self._drawn_state: object = None
        self._calls = 0
        self._arguments: JSONObject = {}

    def draw(self) -> None:
        """Render the form. The call's result is shown below it."""
        with box("section", "section stack"):
            plain_text("Call this tool", "h2")
            if self._agent_id is not None:
                plain_text("The agent executes the call in a new thread.", "p", "quiet small")
            self._form = SchemaForm(self._tool.offered, name=self._tool.name)
            with box("div", "row"):
                action("Call", self._press, icon="play_arrow", kind="primary")
            self._place = box("div")
            self._place.props["aria-live"] = "polite"

    async def _press(self) -> None:
        async def read() -> None:
            arguments = self._form.value()
            if not self._tool.destructive:
                self._begin(arguments)
                return

            async def go() -> None:
                self._begin(arguments)

            hint = "The tool declares itself destructive. Its effect may be irreversible."
            confirm(self._visit, f"Call {self._tool.name}?", "Call", go, hint=hint)

        await self._visit.act(read())

    def _begin(self, arguments: JSONObject, before: Call | None = None) -> None:
        self._calls += 1
        self._drawn_state = None
        self._place.clear()
        with self._place:
            plain_text("Calling …", "p", "quiet")
        self._arguments = arguments
        self._visit.view.run(self._follow(self._calls, before))

    async def _follow(self, number: int, before: Call | None) -> None:
        try:
            async with aclosing(self._call_states(before)) as states:
                async for progress in states:
                    if number != self._calls:
                        return  # another call is shown
                    await self._show(progress)
        except ToolwrightError as error:
            self._place.clear()
            with self._place:
                plain_text(error.message, "p", "error").props["role"] = "alert"

    def _call_states(self, before: Call | None) -> AsyncGenerator[TestProgress]:
        runtime, name = self._visit.runtime, self._tool.name
        if self._agent_id is None:
            return call_app_tool(runtime, name, self._arguments, before)
        return call_agent_tool(runtime, self._agent_id, name, self._arguments)

    async def _show(self, progress: TestProgress) -> None:
        call, request_id = progress.call, progress.request_id
        state = (None if call is None else (call.status, call.awaits_approval), request_id)
        if state == self._drawn_state:
            return  # so that entered values are kept
        self._drawn_state = state
        self._place.clear()
        with self._place:
            if request_id is not None and progress.run is not None:
                await variables_form(self._visit, progress.run.thread_id, request_id)
            if call is not None:
                await self._draw_call(call, progress)

    async def _draw_call(self, call: Call, progress: TestProgress) -> None:
        with box("div", "card stack"):
            with box("div", "row"):
                badge(call.status, KINDS.get(call.status, "busy"))
                if call.completed_at is not None:
                    seconds = (call.completed_at - (call.started_at or call.created_at)).total_seconds()
                    plain_text(f"{seconds:.2f} s", "span", "quiet small")
                link("Its run", f"/runs/{call.run_id}", "small")
                box("span", "fill")
                if not progress.over:
                    action("Cancel", lambda: self._cancel(call))
            if call.awaits_approval:
                _wait("Waiting for approval.")
            elif call.status in ("waiting", "pending"):
                _wait("Waiting for an external result.")
            if progress.over:
                result = self._visit.runtime.app_calls.result(call)
                await draw_outcome(call, result)
                await self._ask_for_values(call, result)

    async def _ask_for_values(self, call: Call, result: ToolResult | None) -> None:
        """Ask for the missing variables of an external call, which does not wait for them, and repeat the call."""
        data = (result.error_data if result is not None else None) or {}
        request_id, missing = data.get("requestId"), data.get("missing")
        if isinstance(request_id, str):  # of a deferred child
            await variables_form(self._visit, call.thread_id, request_id)
        elif self._agent_id is None and isinstance(missing, list) and _is_missing_values(result):
            declared = {each.name: each for each in self._tool.variables}
            fields = [_field(str(name), declared.get(str(name))) for name in missing]
            plain_text("Values are missing", "h3")
            plain_text(
                "Enter them to call again. Secrets are stored encrypted.",
                "p",
                "quiet small",
            )
            entry_form(fields, "Save and call again", partial(self._give, call))

    async def _give(self, call: Call, entered: Mapping[str, str]) -> None:
        async def go() -> None:
            await self._visit.runtime.threads.set_env(call.thread_id, entered, by=self._by)
            self._begin(self._arguments, call)

        await self._visit.act(go())

    async def _cancel(self, call: Call) -> None:
        runtime = self._visit.runtime
        if call.status in OPEN:  # the person asked is notified, and the run continues until it ends
            await self._visit.act(runtime.calls.cancel(call.id, by=self._by), "Cancelled.")
        else:
            await self._visit.act(runtime.app_calls.cancel(call_of(call), by=self._by), "Cancelled.")


def _is_missing_values(result: ToolResult | None) -> bool:
    return result is not None and result.error_code == VariablesRequired.code


def _field(name: str, variable: Variable | None) -> SignInField:
    secret = variable is None or variable.type == "secret"
    return SignInField(name=name, secret=secret, hint="" if variable is None else variable.description)


def _wait(text: str) -> None:
    with box("p", "row"):
        plain_text(text)
        link("Answer it", "/pending")
