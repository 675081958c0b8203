"""Toolsets: definitions, calls, and the result of everything that a handler can do."""

import asyncio
import contextvars
import functools
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import anyio
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from tests.behaviour.marks import requirement
from tests.counting import calls_of_ours

from toolwright.core.env.env import Variable
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSONObject
from toolwright.core.results import (
    LARGE,
    Attachment,
    AttachmentRef,
    ImageContent,
    Outcome,
    Pending,
    TextContent,
    ToolResult,
)
from toolwright.core.state.memory import MemoryState, Progress
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.function import FunctionExecutor
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Tool, ToolNameWarning, tool
from toolwright.core.tools.toolset import Toolset

pytestmark = pytest.mark.anyio


@tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


def returning(value: object) -> Tool:
    async def give() -> object:
        return value

    return tool(name="give", description="Give", timeout=None)(give)


def raising(error: BaseException) -> tuple[Tool, Tool]:
    async def on_loop() -> NoReturn:
        raise error

    def in_thread() -> NoReturn:
        raise error

    return tool(description="Fail")(on_loop), tool(description="Fail")(in_thread)


async def run(made: Tool) -> ToolResult:
    tools = Toolset([made])
    try:
        return await tools.call(made.name, "{}")
    finally:
        tools.close()


class Weather(BaseModel):
    degrees: int


@requirement("S2-4.1-1")
@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("text", "text"),
        (None, None),
        (0, 0),
        ([], []),
        ((1, (2,)), [1, [2]]),
        ({"status": "error", "error": "not mine"}, {"status": "error", "error": "not mine"}),
        (Weather(degrees=3), {"degrees": 3}),
        ([TextContent(text="a"), TextContent(text="b")], "a\nb"),
    ],
)
async def test_any_json_value_is_data(value: object, result: object) -> None:
    given = await run(returning(value))
    assert (given.status, given.result) == ("success", result)


CYCLE: list[object] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        {"a": b"x"},
        {b"x"},
        CYCLE,
        {(1, 2): 3},
        [float("inf")],
        object(),
        [10**5000],
        {"a": {"b": ...}},
    ],
)
async def test_what_json_cannot_carry_is_an_error_result(value: object) -> None:
    result = await run(returning(value))
    assert result.status == "error"
    assert "not JSON" in (result.error or "")


async def test_a_dict_that_looks_like_an_error_is_data_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    printed = {"status": "error", "error": "No luck", "error_code": "unlucky"}
    results = [await run(returning(printed)) for _ in range(2)]
    assert [(each.status, each.result) for each in results] == [("success", printed)] * 2
    assert sum("ToolResult.fail" in record.getMessage() for record in caplog.records) <= 1
    assert (await run(returning({"status": "error", "error": "x", "place": 3}))).status == "success"
    script = (
        "import asyncio, toolwright as tw\n"
        "@tw.tool(description='Give.')\n"
        "async def give() -> dict:\n"
        "    return {'status': 'error', 'error': 'x'}\n"
        "async def main():\n"
        "    for _ in range(3):\n"
        "        await tw.Toolset([give]).call('give', {})\n"
        "asyncio.run(main())\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: ASYNC221
    assert told.stderr.count("Return `tw.ToolResult.fail(...)` for an error result") == 1


async def test_images_become_attachments() -> None:
    image, photo = (
        ImageContent(data="AA==", mime_type="image/png"),
        ImageContent(data="AA==", mime_type="image/jpeg"),
    )
    result = await run(returning([TextContent(text="two"), image, photo]))
    assert result.result == "two"
    assert [each.name for each in result.attachments] == ["image.png", "image-2.jpg"]


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def invalid_instance() -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(list[int]).validate_python(["secret", 2, None])
    return raised.value


@requirement("S2-4.3-1", "S2-4.3-2")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no luck"), "no luck"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "3"),
        (GeneratorExit(), "GeneratorExit"),
        (BaseExceptionGroup("many", [ValueError("x")]), "many (1 sub-exception): x"),
        (
            ExceptionGroup("few", [ExceptionGroup("deep", [KeyError("k")]), RuntimeError()]),
            "few (2 sub-exceptions): deep (1 sub-exception): KeyError: 'k'; RuntimeError",
        ),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError("mine"), "mine"),
        (OddError(), "OddError"),
        (invalid_instance(), "Invalid list[int]: 0: must be an integer; 2: must be an integer."),
        (
            ExceptionGroup("few", [invalid_instance()]),
            "few (1 sub-exception): Invalid list[int]: 0: must be an integer; 2: must be an integer.",
        ),
    ],
)
async def test_whatever_a_handler_raises_is_an_error_result(error: BaseException, text: str) -> None:
    for made in raising(error):
        result = await run(made)
        assert (result.status, result.error) == ("error", text)
        assert result.stack is None or "raise error" in result.stack


async def test_a_plain_function_that_raises_stop_iteration_does_not_hang() -> None:
    for made in raising(StopIteration("end")):
        assert (await run(made)).error == "end"


async def test_the_callers_cancellation_passes() -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Toolset([wait]).call("wait", "{}"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("timeout", [None, 300.0])
async def test_a_handler_that_catches_the_callers_cancellation_does_not_swallow_it(
    timeout: float | None,
) -> None:
    begun, over = asyncio.Event(), list[str]()

    @tool(timeout=timeout)
    async def stubborn() -> str:
        """Be stubborn."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        over.append("tidied up")
        return "all the same"

    toolset = Toolset([stubborn])
    task = asyncio.create_task(toolset.call("stubborn", "{}"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await toolset.call("stubborn", "{}")
    with anyio.move_on_after(0.01) as scope:
        await toolset.call("stubborn", "{}")
    assert scope.cancelled_caught
    assert over[:2] == ["tidied up"] * 2


@pytest.mark.parametrize("timeout", [None, 300.0])
async def test_a_caller_that_was_cancelled_before_can_still_call(timeout: float | None) -> None:
    """For example, during its clean-up."""

    @tool(timeout=timeout)
    async def tidy() -> str:
        """Tidy up."""
        await asyncio.sleep(0)
        return "tidy"

    async def caller() -> object:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return (await Toolset([tidy]).call("tidy", "{}")).result

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "tidy"


async def test_a_timeout_names_its_milliseconds() -> None:
    @tool(timeout=0.01)
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    result = await Toolset([wait]).call("wait", "{}")
    assert (result.error, result.error_code) == ("Tool timed out after 10ms", "timeout")


async def test_plain_functions_run_in_a_thread_with_the_callers_context() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    who.set("me")

    @tool
    def look() -> list[object]:
        """Look."""
        return [who.get(), threading.current_thread() is threading.main_thread()]

    assert (await run(look)).result == ["me", False]


async def test_an_unknown_tool_is_answered_with_those_that_exist() -> None:
    result = await Toolset([greet]).call("great", "{}")
    assert result.error == "There is no tool 'great'. Did you mean 'greet'? The tools are: greet."
    assert result.error_code == "unknown_tool"


async def test_a_pending_outcome_outside_a_run_is_an_error_result() -> None:
    async def later(prepared: PreparedCall, state: ThreadState) -> Outcome:
        return Pending()

    async def broken(prepared: PreparedCall, state: ThreadState) -> Outcome:
        raise RuntimeError("a bug")

    outside = Tool(name="ask", description="Ask", kind="external")
    nobody = Tool(name="fetch", description="Fetch", kind="gateway")
    bug = Tool(name="bug", description="Fail", kind="internal")
    tools = Toolset([outside, nobody, bug], executors={"external": later, "internal": broken})
    assert (await tools.call("ask", "{}")).error_code == "pending_outside_run"
    assert (await tools.call("fetch", "{}")).error_code == "no_executor"
    assert (await tools.call("bug", "{}")).error == "a bug"


async def test_handlers_see_the_state_they_are_called_with() -> None:
    @tool
    async def note(what: ThreadState, text: str) -> str:
        """Note."""
        what.emit("noted", {"text": text})
        what.progress(1, 2, "half")
        what.execution.stop_session()
        assert not what.execution.abort_signal.aborted
        assert list(await what.get_messages()) == []
        return f"{what.thread_id} {what.agent_id} {what.user_id} {what.execution.current_side}"

    state = MemoryState(thread_id="t", agent_id="a", user_id="u")
    result = await Toolset([note]).call("note", {"text": "x"}, state)
    assert result.result == "t a u side_a"
    assert state.events[0].type == "noted"
    assert state.reports == [Progress(done=1, total=2, text="half")]
    assert state.execution.stopped


async def test_a_call_outside_a_run_has_an_id_of_its_own() -> None:
    @tool
    def which(state: ThreadState) -> list[str]:
        """Tell the call."""
        return [state.call_id, state.call_id]

    tools = Toolset([which])
    first, second = [(await tools.call("which", "{}")).result for _ in range(2)]
    assert isinstance(first, list)
    assert first[0] == first[1]
    assert first != second
    assert (await tools.call("which", "{}", MemoryState(call_id="mine"))).result == ["mine", "mine"]
    tools.close()


async def test_definitions_come_in_three_forms_and_cannot_be_spoilt() -> None:
    tools = Toolset([greet])
    schema = greet.parameters
    description = "Greet somebody."
    assert tools.definitions() == [
        {"type": "function", "function": {"name": "greet", "description": description, "parameters": schema}}
    ]
    anthropic = tools.definitions("anthropic")
    assert anthropic == [{"name": "greet", "description": description, "input_schema": schema}]
    anthropic[0]["input_schema"] = None
    assert tools.definitions("anthropic")[0]["input_schema"] == schema
    annotations = tools.definitions("mcp")[0]["annotations"]
    assert annotations == {"readOnlyHint": False, "idempotentHint": False, "destructiveHint": False}
    assert tools.model_definitions is tools.model_definitions


@requirement("S2-8.1-1")
async def test_toolsets_join_filter_and_take_prefixes() -> None:
    other = returning(1)
    both = Toolset([greet]) | Toolset([other])
    assert [each.name for each in both] == ["greet", "give"]
    assert len(both) == 2
    assert "greet" in both
    assert both["give"] is other
    assert [each.name for each in both.filtered(lambda each: each.name != "greet")] == ["give"]
    assert (await both.prefixed("my_").call("my_greet", {"name": "you"})).result == "Hello you"
    with pytest.raises(DefinitionError, match="Two tools are called 'greet'"):
        _ = both | Toolset([greet])


@requirement("S2-8.3-1")
def test_an_odd_name_warns_once_and_works() -> None:
    def named() -> Tool:
        return tool(name="Odd-Name", description="Odd")(lambda: "x")

    with pytest.warns(ToolNameWarning, match="Odd-Name"):
        named()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert named().name == "Odd-Name"


@pytest.mark.parametrize(
    "declare",
    [
        lambda: tool(name="", description="x")(lambda: 1),
        lambda: tool(name="x", description="x", timeout=0)(lambda: 1),
        lambda: tool(name="x", description="x", timeout=float("nan"))(lambda: 1),
        lambda: tool(name="x", description="x", timeout=-1)(lambda: 1),
        lambda: tool(name="x", description="x", read_only=True, destructive=True)(lambda: 1),
        lambda: Tool(name="x", description="x"),
        lambda: Tool(name="x", description="x", kind="external", parameters={"type": "bogus"}),
        lambda: tool(description="x")(lambda: 1),
    ],
)
def test_contradictions_are_refused(declare: Callable[[], Tool]) -> None:
    with pytest.raises(DefinitionError):
        declare()


@requirement("S2-4.1-1", "S2-10-4")
async def test_results_of_handlers_are_checked() -> None:
    path = AttachmentRef(id="f", path="/a", name="a", mime_type="text/plain", size=1)
    chart = Attachment(name="c.png", mime_type="image/png", data="AA==")
    assert (await run(returning(ToolResult.ok("x", (chart, path))))).attachments == (chart, path)
    bad = ToolResult(status="success", result=float("nan"))
    assert (await run(returning(bad))).status == "error"
    assert (await run(returning(ToolResult.ok("x", ("no",))))).status == "error"  # type: ignore[arg-type]  # invalid


async def test_a_raw_handler_gets_state_and_arguments() -> None:
    async def handle(state: ThreadState, arguments: object) -> object:
        return arguments

    raw = Tool(name="raw", description="Raw", parameters={"type": "object"}, handler=handle)
    assert (await Toolset([raw]).call("raw", '{"a": 1}')).result == {"a": 1}


async def test_an_executor_uses_the_pool_it_is_given_and_closes_only_its_own() -> None:
    executor = FunctionExecutor()
    made = tool(name="one", description="One")(lambda: 1)
    result = await executor(PreparedCall(tool=made, arguments={}, call_id="c", keywords={}), MemoryState())
    assert result.result == 1
    executor.close()
    executor.close()


def test_importing_the_core_loads_no_io_library() -> None:
    code = (
        "import sys, toolwright.core.tools.toolset; "
        "bad = {'sqlalchemy', 'httpx', 'fastapi', 'sqlite3', 'yaml', 'opentelemetry', 'docstring_parser'}; "
        "sys.exit(', '.join(bad & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@requirement("S0-3-1")
async def test_a_call_without_required_variables_is_an_error_and_its_handler_does_not_run() -> None:
    ran: list[str | None] = []
    variables = [
        Variable("KEY", type="secret"),
        Variable("REGION"),
        Variable("COLOUR", required=False),
    ]

    @tool(description="Ask.", variables=variables)
    async def ask(state: ThreadState) -> str:
        ran.append(await state.env("REGION"))
        return "Asked."

    tools = Toolset([ask])
    lacking = [await tools.call("ask", {}), await tools.call("ask", {}, MemoryState(env={"KEY": "k"}))]
    assert [(each.status, each.error_code, each.error_data) for each in lacking] == [
        ("error", "variables_required", {"missing": ["KEY", "REGION"]}),
        ("error", "variables_required", {"missing": ["REGION"]}),
    ]
    assert lacking[0].error == "Tool 'ask' needs variables that are not set here: KEY, REGION."
    assert ran == []
    state = MemoryState(env={"KEY": "k", "REGION": {"value": "", "type": "text"}})
    assert (await tools.call("ask", {}, state)).result == "Asked."
    assert ran == [""]


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who")


@tool
async def note(words: str, price: float = 1.0) -> dict[str, object]:
    """Note."""
    WHO.set(words)
    return {"words": words, "price": price, "alone": asyncio.current_task() is not CALLER.get()}


@tool
async def note_later(words: str) -> dict[str, object]:
    """Note, a moment later."""
    await asyncio.sleep(0)
    return {"words": words, "alone": asyncio.current_task() is not CALLER.get()}


CALLER: contextvars.ContextVar[object] = contextvars.ContextVar("caller")


async def test_only_a_handler_that_waits_has_a_task_of_its_own() -> None:
    CALLER.set(asyncio.current_task())
    tools = Toolset([note, note_later])
    assert (await tools.call("note", {"words": "a"})).result == {"words": "a", "price": 1.0, "alone": False}
    assert (await tools.call("note_later", {"words": "a"})).result == {"words": "a", "alone": True}


async def test_context_variables_of_a_handler_that_does_not_wait_are_its_own() -> None:
    WHO.set("the caller")
    await Toolset([note]).call("note", {"words": "the handler"})
    assert WHO.get() == "the caller"


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), asyncio.CancelledError("no")])
async def test_what_a_handler_that_does_not_wait_raises_is_its_result(error: BaseException) -> None:
    @tool
    async def fail() -> None:
        """Fail."""
        raise error

    result = await Toolset([fail]).call("fail", "{}")
    assert (result.status, result.error) == ("error", "no")


@pytest.mark.parametrize("wrapped", [True, False])
async def test_a_handler_that_hides_where_it_waits_has_its_time(wrapped: bool) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    @functools.wraps(wait)
    async def outer() -> None:
        async with asyncio.timeout(None):
            return await wait()

    class Waiter:
        async def __call__(self) -> None:
            await wait()

    made = tool(name="wait", description="Wait.", timeout=0.001)(outer if wrapped else Waiter())
    assert (await Toolset([made]).call("wait", "{}")).error_code == "timeout"


async def test_the_way_of_a_usual_call_is_short() -> None:
    """Our function calls for one tool call: each takes tenths of a microsecond, walking a value takes many more."""

    @tool
    async def find(words: str, prices: list[float]) -> dict[str, object]:
        """Find."""
        return {"items": [{"words": words, "prices": prices}] * 10}

    tools, arguments = Toolset([find]), '{"words": "a", "prices": [20.0, 2.5]}'
    await tools.call("find", arguments)
    with calls_of_ours() as calls:
        assert (await tools.call("find", arguments)).status == "success"
    assert len(calls) <= 9, calls


async def test_a_tool_stands_alone_that_waits_for_nothing_and_asks_for_nothing_but_its_arguments() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    async def say(state: ThreadState, text: str) -> str:
        """Say."""
        return f"{state.thread_id}: {text}"

    @tool
    async def rest() -> None:
        """Rest."""
        await asyncio.sleep(0)

    @tool
    def plainly() -> None:
        """Plainly."""

    assert add.stands_alone
    assert not any(each.stands_alone for each in (say, rest, plainly))
    needs = tool(variables=[Variable("KEY")])(add.handler)  # type: ignore[arg-type]  # a tool of a function
    assert not needs.stands_alone
    assert (await Toolset([say]).call("say", {"text": "a"})).result == "thread: a"


async def test_a_large_file_of_a_tool_that_stands_alone_is_validated_like_any_other() -> None:
    @tool
    async def draw(good: bool) -> ToolResult:
        """Draw."""
        data = "A" * 2 * LARGE if good else "A" * 2 * LARGE + "!"
        return ToolResult.ok("drawn", (Attachment(name="a.png", mime_type="image/png", data=data),))

    assert draw.stands_alone
    assert (await Toolset([draw]).call("draw", {"good": True})).status == "success"
    faulty = await Toolset([draw]).call("draw", {"good": False})
    assert "data must be base64 text" in (faulty.error or "")


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_a_cancellation_during_a_handler_that_does_not_wait_reaches_the_caller(
    timeout: float | None,
) -> None:
    callers: list[asyncio.Task[None]] = []

    @tool(timeout=timeout)
    async def stop() -> str:
        """Stop."""
        callers[0].cancel()
        return "stopped"

    async def call() -> None:
        await Toolset([stop]).call("stop", "{}")
        await asyncio.Event().wait()

    callers.append(asyncio.create_task(call()))
    with pytest.raises(asyncio.CancelledError):
        await callers[0]


def echo(state: ThreadState, arguments: JSONObject) -> JSONObject:
    return arguments


ODD_NAMES: JSONObject = {
    "type": "object",
    "properties": {"filter[name]": {"type": "string"}},
    "required": ["filter[name]"],
    "additionalProperties": False,
}


async def test_definitions_for_a_provider_are_what_it_accepts_and_calls_are_taken_as_it_was_told() -> None:
    with pytest.warns(ToolNameWarning):
        odd = Tool(
            name="odd.tool",
            description="Odd.",
            parameters=ODD_NAMES,
            handler=echo,
        )
    lost = Tool(
        name="lost",
        description="Lost.",
        parameters={"type": "object", "properties": {"a": {"$ref": "#/anyOf/0"}}, "anyOf": [{}]},
        handler=echo,
    )
    toolset = Toolset([odd, lost])
    assert [each["name"] for each in toolset.definitions("anthropic")] == ["odd.tool", "lost"]
    [told] = toolset.definitions("anthropic", provider="anthropic")
    assert [fault.tool for fault in toolset.faults("anthropic")] == ["lost"]
    name, schema = str(told["name"]), told["input_schema"]
    assert name != "odd.tool" and isinstance(schema, dict)
    assert schema["required"] == ["filter_name"]
    for arguments in (
        '{"filter_name": "x"}',
        {"filter_name": "x"},
        b'{"filter_name": "x"}',
        {"filter[name]": "x"},
    ):
        result = await toolset.call(name, arguments)
        assert (result.status, result.result) == ("success", {"filter[name]": "x"})
    refused = await toolset.call(name, {"filter_name": 1})
    assert refused.error == "Invalid arguments: filter_name: must be a string, not a number."
    own = await toolset.call("odd.tool", {"filter[name]": 1})
    assert own.error == "Invalid arguments: filter[name]: must be a string, not a number."
    with pytest.raises(DefinitionError, match="The provider 'gemini' is unknown"):
        toolset.definitions(provider="gemini")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parameters", [True, {"type": "string"}, {"anyOf": [{"type": "string"}, {"enum": [1]}]}]
)
def test_parameters_that_no_object_fits_are_refused_where_a_tool_is_declared(parameters: Any) -> None:
    with pytest.raises(DefinitionError, match="its parameters must be"):
        Tool(name="odd", description="Odd.", parameters=parameters, handler=echo)
    config = {"name": "odd", "description": "Odd.", "executionType": "external", "inputSchema": parameters}
    with pytest.raises(InvalidConfiguration, match="inputSchema"):
        Tool.from_config(config)


async def test_the_log_tells_the_author_of_a_tool_that_its_result_is_invalid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(name="counted_wrongly", description="Count.")
    async def of_coroutine() -> object:
        return {"a": [b"x"]}

    @tool(name="counted_in_a_thread", description="Count.")
    def of_thread() -> object:
        unknown: Any = object()  # not JSON
        return ToolResult.ok(unknown)

    @tool(name="refuses", description="Refuse.")
    async def refuses() -> ToolResult:
        return ToolResult.fail("No.")

    tools = Toolset([of_coroutine, of_thread, refuses])
    try:
        for name in ("counted_wrongly", "counted_in_a_thread", "refuses") * 2:
            assert (await tools.call(name, {})).status == "error"
    finally:
        tools.close()
    told = [record.getMessage() for record in caplog.records]
    wrong = "The tool 'counted_wrongly': The tool returned a value that is not JSON: a.0 is of the type bytes"
    assert [each.startswith(wrong) for each in told].count(True) == 1
    assert sum("'counted_in_a_thread'" in each for each in told) == 1
    assert not any("'refuses'" in each for each in told)
