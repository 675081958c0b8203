"""Registries: separate schemas and handlers, and how each tool is executed."""

import functools
import threading
from collections.abc import Mapping
from typing import Annotated, Any

import pytest

import toolwright as tw
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.registry import resolve
from toolwright.core.tools.tool import Tool, tool
from toolwright.core.tools.toolset import Toolset

pytestmark = pytest.mark.anyio

GREET: JSONObject = {
    "type": "object",
    "properties": {"userName": {"type": "string"}},
    "required": ["userName"],
}
OUTPUT: JSONObject = {"properties": {"text": {"type": "string"}, "_output": {"type": "string"}}}


async def greet(userName: str) -> str:  # noqa: N803 - the document's name
    return f"Hello {userName}"


def echo(text: str) -> str:
    return text


def listed(args: dict[str, JSON]) -> str:
    return str([args])


def names_of(**arguments: JSON) -> str:
    return ", ".join(arguments)


def takes_nothing() -> str:
    return "x"


def takes_more(a: object, b: object, userName: str) -> str:  # noqa: N803 - the document's name
    return f"{a} {b} {userName}"


def takes_places(*args: object) -> str:
    return str(args)


def takes_a_place(a: object, /) -> str:
    return str(a)


async def call(
    registry: tw.Registry, name: str, arguments: JSONObject, state: MemoryState | None = None
) -> ToolResult:
    tools = Toolset(registry.tools())
    try:
        return await tools.call(name, arguments, state)
    finally:
        tools.close()


def kinds(registry: tw.Registry) -> dict[str, str]:
    return {each.name: each.kind for each in registry.tools()}


def interface(registry: tw.Registry, name: str) -> object:
    [found] = [each for each in registry.tools() if each.name == name]
    assert found.meta is not None
    return found.description, found.parameters, found.meta


async def test_a_tool_without_a_handler_is_latent_and_with_one_a_function() -> None:
    registry = tw.Registry()
    registry.tool("greetUser", GREET)
    assert kinds(registry) == {"greetUser": "latent"}
    latent = await call(registry, "greetUser", {"userName": "Ada"})
    assert latent == ToolResult.ok({"success": True, "args": {"userName": "Ada"}})
    assert registry.handler("greetUser", greet) is greet
    assert kinds(registry) == {"greetUser": "function"}
    assert await call(registry, "greetUser", {"userName": "Ada"}) == ToolResult.ok("Hello Ada")
    [explicit] = registry.tools()
    assert explicit.timeout == 300.0
    assert not explicit.repeatable


async def test_handlers_are_decorated_functions_too() -> None:
    registry = tw.Registry()

    @registry.tool("greetUser", GREET)
    async def hello(userName: str) -> str:  # noqa: N803 - the document's name
        return f"Hello {userName}"

    registry.tool("leave", {})

    @registry.handler("leave")
    def bye() -> str:
        return "Bye"

    assert kinds(registry) == {"greetUser": "function", "leave": "function"}
    assert await call(registry, "greetUser", {"userName": "Ada"}) == ToolResult.ok("Hello Ada")
    assert await call(registry, "leave", {}) == ToolResult.ok("Bye")
    assert (await hello("Bo"), bye()) == ("Hello Bo", "Bye")


def test_every_tool_is_resolved_by_its_activity_its_delegate_its_name() -> None:
    def with_meta(**meta: JSON) -> JSONObject:
        return {"properties": {"userName": {"type": "string"}, **meta}, "required": ["userName"]}

    tools = [
        Tool.from_schema("byActivity", with_meta(_activity={"const": "greetUser"})),
        Tool.from_schema("greetUser", GREET),
        Tool.from_schema("emptyActivity", with_meta(_activity={"const": ""})),
        Tool.from_schema("byName", with_meta(_activity={"const": ""})),
        Tool.from_schema("byDelegate", with_meta(_delegate={"const": "researcher"})),
        Tool.from_schema("openDelegate", with_meta(_delegate={"type": "string"})),
    ]
    handlers = {"greetUser": greet, "byName": greet, "byDelegate": greet}
    resolved = resolve(tools, handlers)
    assert {each.name: each.kind for each in resolved} == {
        "byActivity": "function",
        "greetUser": "function",
        "emptyActivity": "latent",
        "byName": "function",
        "byDelegate": "delegate",
        "openDelegate": "latent",
    }
    assert [each.handler for each in resolved] == [greet, greet, None, greet, None, None]
    assert [each.kind for each in resolve(tools[1:2], {})] == ["latent"]


def test_the_handler_of_an_activity_must_be_there() -> None:
    registry = tw.Registry()
    registry.tool("greetUser", {"properties": {"_activity": {"const": "hello"}}})
    registry.tool("leave", {"properties": {"_activity": {"const": "bye"}}})
    registry.handler("greetUser", greet)
    with pytest.raises(DefinitionError, match=r"_activity of 'greetUser' \('hello'\), 'leave' \('bye'\)"):
        registry.tools()
    registry.handler("hello", lambda: "hi")
    registry.handler("bye", lambda: "bye")
    assert kinds(registry) == {"greetUser": "function", "leave": "function"}


def test_a_name_is_registered_once() -> None:
    registry = tw.Registry()
    registry.tool("greetUser", GREET)
    registry.handler("greetUser", greet)
    with pytest.raises(DefinitionError, match="The tool 'greetUser' is already registered"):
        registry.tool("greetUser", {})
    with pytest.raises(DefinitionError, match="The handler 'greetUser' is already registered"):
        registry.handler("greetUser", greet)
    with pytest.raises(DefinitionError, match="The handler 'greetUser' is already registered"):
        registry.handler("greetUser")(greet)
    with pytest.raises(InvalidConfiguration):
        registry.tool("leave", {"properties": {"_x": {}}})
    assert kinds(registry) == {"greetUser": "function"}


async def test_the_interface_stays_the_same_for_every_executor() -> None:
    registry = tw.Registry()
    registry.tool("say", {"title": "Say", "description": "Say it.", **OUTPUT})
    before = interface(registry, "say")
    registry.handler("say", echo)
    assert interface(registry, "say") == before
    earlier = registry.tools()
    registry.swap_handler("say", listed)
    assert interface(registry, "say") == before
    assert await Toolset(earlier).call("say", {"text": "x"}) == ToolResult.ok("x")
    assert await call(registry, "say", {"text": "x"}) == ToolResult.ok("[{'text': 'x'}]")
    registry.remove_handler("say")
    assert interface(registry, "say") == before
    assert kinds(registry) == {"say": "latent"}
    for change in (registry.remove_handler, functools.partial(registry.swap_handler, function=greet)):
        with pytest.raises(DefinitionError, match="There is no handler 'say'"):
            change("say")
        with pytest.raises(DefinitionError, match="There is no handler a value of the type list"):
            change([])  # type: ignore[arg-type]  # user input


async def test_only_a_latent_tool_is_asked_for_its_output_and_another_never_sees_it() -> None:
    registry = tw.Registry()
    registry.tool("say", OUTPUT)
    assert "_output" in str(tw.compose({}, registry.tools()))
    assert "_output" in str(Toolset(registry.tools()).definitions())
    assert await call(registry, "say", {"text": "x", "_output": "y"}) == ToolResult.ok("y")
    registry.handler("say", names_of)
    assert "_output" not in str(tw.compose({}, registry.tools()))
    assert "_output" not in str(Toolset(registry.tools()).definitions())
    assert await call(registry, "say", {"text": "x", "_output": 5}) == ToolResult.ok("text")


async def test_a_handler_gets_the_call_the_tool_and_the_state_on_request() -> None:
    registry = tw.Registry()
    seen: dict[str, Any] = {}  # the handler's arguments

    @registry.tool("note", {"properties": {"call": {"type": "string"}, "_instance": {}}})
    async def note(
        *,
        arguments: dict[str, JSON],
        made: tw.Call,
        interface: tw.Tool | None,
        state: Annotated[tw.ThreadState, "x"],
    ) -> None:
        seen.update(arguments=arguments, call=made, tool=interface, state=state)

    state = MemoryState(thread_id="here")
    asked: JSONObject = {
        "_tool": "note",
        "call": "x",
        "more": 1,
        "_instance": "a",
        "_reasoningForCall": "It must be.",
    }
    assert (await call(registry, "note", asked, state)).status == "success"
    assert seen["arguments"] == {"call": "x", "more": 1}
    assert seen["call"] == tw.Call(
        tool="note", args={"call": "x", "more": 1}, meta={"_instance": "a"}, reasoning="It must be."
    )
    assert (seen["tool"].name, seen["tool"].kind) == ("note", "latent")
    assert seen["state"] is state


async def test_annotations_may_be_text() -> None:
    registry = tw.Registry()

    @registry.tool("note", {"properties": {"a": {}}})
    async def note(a: "int", made: "Call", tool: "Tool", state: "ThreadState") -> "list[str]":  # type: ignore[name-defined]  # noqa: F821 - resolved without an import
        return [made.tool, tool.name, state.thread_id]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    assert await call(registry, "note", {"a": 1}) == ToolResult.ok(["note", "note", "thread"])


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (takes_nothing, "has no parameter for the argument 'userName'"),
        (takes_more, "has the parameter 'b', which is not an argument. The arguments are: userName"),
        (takes_places, "positional-only parameter 'args'"),
        (takes_a_place, "positional-only parameter 'a'"),
    ],
)
def test_a_handler_must_fit_its_tool(handler: Any, words: str) -> None:  # any function
    registry = tw.Registry()
    registry.handler("greetUser", handler)
    registry.tool("greetUser", GREET)
    with pytest.raises(DefinitionError, match=words):
        registry.tools()


def test_a_misspelt_parameter_is_no_object_of_all_arguments() -> None:
    async def hello(user_name: str) -> str:
        return user_name

    registry = tw.Registry()
    registry.tool("greetUser", GREET)(hello)
    with pytest.raises(DefinitionError, match="has the parameter 'user_name', which is not an argument"):
        registry.tools()
    for annotation in (dict, dict[str, Any], Mapping[str, object], Any, object):
        hello.__annotations__["user_name"] = annotation
        assert kinds(registry) == {"greetUser": "function"}


@pytest.mark.parametrize("wrong", [5, "greet", int, tool(description="x")(greet), object()])
def test_a_handler_is_a_function(wrong: Any) -> None:  # no function, on purpose
    registry = tw.Registry()
    with pytest.raises(DefinitionError, match="must be a function"):
        registry.handler("greetUser", wrong)
    registry.handler("greetUser", greet)
    with pytest.raises(DefinitionError, match="must be a function"):
        registry.swap_handler("greetUser", wrong)
    with pytest.raises(DefinitionError, match="name"):
        registry.handler("")


def test_a_handler_that_yields_is_refused() -> None:
    def many() -> Any:  # a generator
        yield 1

    with pytest.raises(DefinitionError, match="yields"):
        tw.Registry().handler("many", many)


async def test_what_a_call_may_leave_out_a_handler_may_need() -> None:
    registry = tw.Registry()

    @registry.tool("add", {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert await call(registry, "add", {"a": 1}) == ToolResult.ok(3)
    lacking = await call(registry, "add", {"b": 1, "other": 2})
    assert (lacking.error, lacking.error_code) == ("Invalid arguments: a: is missing.", "invalid_arguments")
    assert await call(registry, "add", {"a": 1, "other": 2}) == ToolResult.ok(3)


async def test_plain_functions_run_in_a_thread_and_failures_are_results() -> None:
    registry = tw.Registry()
    registry.tool("where", {})(lambda: threading.current_thread() is threading.main_thread())
    assert await call(registry, "where", {}) == ToolResult.ok(False)

    @registry.tool("fail", {})
    async def fail() -> None:
        raise ValueError("broken")

    assert (await call(registry, "fail", {})).error == "broken"


async def test_methods_partials_and_callable_objects_are_handlers() -> None:
    class Greeter:
        def greet(self, userName: str) -> str:  # noqa: N803 - the document's name
            return f"Hello {userName}"

        async def __call__(self, userName: str, made: tw.Call) -> str:  # noqa: N803 - the document's name
            return f"{made.tool} {userName}"

    def twice(userName: str, times: int) -> str:  # noqa: N803 - the document's name
        return userName * times

    registry = tw.Registry()
    for name, handler in {
        "method": Greeter().greet,
        "object": Greeter(),
        "partial": functools.partial(twice, times=2),
    }.items():
        registry.tool(name, GREET)(handler)
    answers = [
        (await call(registry, name, {"userName": "Ada"})).result for name in ("method", "object", "partial")
    ]
    assert answers == ["Hello Ada", "object Ada", "AdaAda"]


async def test_an_unbound_activity_is_refused_by_an_app_and_fails_in_a_toolset() -> None:
    schema: JSONObject = {"properties": {"_activity": {"const": "payOut"}, "_output": {"type": "string"}}}
    pay = Tool.from_schema("pay", schema)
    with pytest.raises(
        DefinitionError, match="names the handler 'payOut' as its _activity, but no handler is bound"
    ):
        tw.App(tools=[pay])
    with pytest.raises(DefinitionError, match="no handler is bound"):
        tw.App(agents=[tw.Agent("payer", tw.Prompt("payer", tools=[pay]))])
    result = await Toolset([pay]).call("pay", {})
    assert (result.status, result.error_code, result.error) == (
        "error",
        "no_handler",
        "Tool 'pay' has no handler.",
    )


def test_the_tools_of_a_registry_are_the_same_each_time() -> None:
    registry = tw.Registry()
    registry.tool("greetUser", GREET)
    registry.handler("greetUser", greet)
    assert registry.tools() == registry.tools()
    prompt = tw.Prompt("host", tools=registry.tools())
    app = tw.App(agents=[tw.Agent("host", prompt)], registry=registry)
    assert [tool.name for tool in app.catalog.tools] == ["greetUser"]


async def test_the_name_of_other_arguments_may_be_that_of_an_argument() -> None:
    registry = tw.Registry()
    registry.tool("note", {"properties": {"arguments": {"type": "string"}}})
    registry.handler("note", names_of)
    assert await call(registry, "note", {}) == ToolResult.ok("")
    assert await call(registry, "note", {"arguments": "x"}) == ToolResult.ok("arguments")


def test_a_parameter_for_the_call_that_has_an_arguments_name_is_refused() -> None:
    def note(call: tw.Call, **arguments: JSON) -> str:
        return f"{call} {arguments}"

    registry = tw.Registry()
    registry.tool("note", {"properties": {"call": {"type": "string"}}})
    registry.handler("note", note)
    with pytest.raises(
        DefinitionError, match="has an injected parameter with the name of an argument, 'call'"
    ):
        registry.tools()


def test_a_tool_above_a_function_that_is_refused_is_not_registered() -> None:
    registry = tw.Registry()
    with pytest.raises(DefinitionError):
        registry.tool("t", {"type": "object"})(3)  # type: ignore[type-var]  # on purpose
    assert registry.tools() == ()
    registry.tool("t", {"type": "object"})


def test_the_return_annotation_of_a_handler_is_ignored() -> None:
    registry = tw.Registry()

    @registry.tool("t", {"type": "object"})
    def t() -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
        return 1

    assert registry.tools()[0].handler is t
