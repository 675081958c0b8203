"""State of schema tools in runs (S1): output paths, references and instances."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolwright as tw
from tests.databases import stores
from tests.kit import Watched, call, calls, ran
from tests.runtime.rig import Rig, running
from tests.runtime.talk import Talk, opened
from toolwright import testing
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.child_effects import SetValue
from toolwright.core.journal.reads import ChildReads
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Advance
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.schemas.state_paths import Method, OutputPath, read_value_key, written
from toolwright.core.threads.call import Call
from toolwright.core.value import changed
from toolwright.testing import MemoryBus, MemoryStore
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

DONE = {"text": "Done."}
CHOSEN: JSONObject = {"_outputPath": {}, "_instance": {"type": "string"}}


def latent(name: str, **properties: JSON) -> tw.Tool:
    """Return a tool whose output is chosen by the model."""
    return tw.Tool.from_schema(name, {"type": "object", "properties": {"_output": {}, **properties}})


def note(path: JSON, output: JSON, **more: JSON) -> dict[str, Any]:  # a turn of a script
    """Return a call that chooses the path of its output."""
    return call("note", _outputPath=path, _output=output, **more)


def to(path: str, method: Method) -> JSONObject:
    return {"path": path, "method": method}


NOTE = latent("note", **CHOSEN)


@dataclass
class Handled:
    """Schema tools with handlers, and the values that they received."""

    tools: list[tw.Tool] = field(default_factory=list[tw.Tool])
    values: list[JSON] = field(default_factory=list[JSON])

    @classmethod
    def of(cls, **properties: JSON) -> "Handled":
        """Return the argument `value`."""
        handled, registry = cls(), tw.Registry()

        @registry.tool("show", {"type": "object", "properties": {"value": {}, **properties}})
        def show(value: Any = None) -> Any:  # any JSON
            handled.values.append(value)
            return value

        assert show
        handled.tools = [*registry.tools()]
        return handled


async def state_of(rig: Rig, thread_id: str) -> dict[str | None, JSONObject]:
    """Return the thread's values by instance and name."""
    states: dict[str | None, JSONObject] = {}
    for key, text in (await rig.store.children.values(thread_id)).items():
        name, instance = read_value_key(key)
        states.setdefault(instance, {})[name] = json.loads(text)
    return states


async def led(
    turns: Sequence[Any], tools: Sequence[tw.Tool | str], **more: Any
) -> tuple[dict[str | None, JSONObject], list[Call], list[str]]:
    """Return the state after a run of those turns, its calls, and the results that the model read."""
    thread_options: dict[str, Any] = more.pop("thread", {})
    async with running(Watched([*turns, DONE]), tools, **more) as rig:
        thread = await rig.rt.threads.create("tester", **thread_options)
        talk = Talk(rig.rt, thread.id)
        run = await talk.say()
        assert (run.status, run.output) == ("completed", "Done.")
        made = sorted(await talk.calls(), key=lambda each: (each.step, each.position))
        return await state_of(rig, thread.id), made, await talk.results()


async def test_a_result_goes_where_the_tool_says() -> None:
    fixed = latent("fixed", _outputPath={"const": "†state.report.title"})
    handled = Handled.of(_outputPath={"const": {"path": "†state.report.parts", "method": "push"}})
    turns = [calls(call("fixed", _output="T", _outputPath="†state.elsewhere"), call("show", value=1))]
    state, [first, second, _], results = await led([*turns, call("show", value=[2])], [fixed, *handled.tools])
    assert state == {None: {"report": {"title": "T", "parts": [1, [2]]}}}
    assert (first.kind, second.kind, results) == ("latent", "function", ["T", "1", "[2]"])


ALL_METHODS = [
    note("†state.a", {"x": 1}),
    note(to("†state.a", "merge"), {"y": {"z": 2}}),
    note(to("†state.list", "push"), 1),
    note(to("†state.list", "concat"), [2, 3]),
    note(to("†state.a.text", "concat"), "one, "),
    note(to("†state.a.text", "concat"), "two"),
    note("†state.none", None),
    call("note", _output="written nowhere"),
]
AFTER_ALL_METHODS: JSONObject = {
    "a": {"x": 1, "y": {"z": 2}, "text": "one, two"},
    "list": [1, 2, 3],
    "none": None,
}


@pytest.mark.parametrize("turns", [ALL_METHODS, [calls(*ALL_METHODS)]], ids=["steps", "one answer"])
async def test_calls_write_by_every_method_in_their_order(turns: list[Any]) -> None:
    state, made, _ = await led(turns, [NOTE])
    assert state == {None: AFTER_ALL_METHODS}
    assert {each.status for each in made} == {"done"}


async def test_a_unit_writes_no_value_twice() -> None:
    turns = [*ALL_METHODS, call("keep", key="a", value={}, _outputPath=to("†state.a", "merge"))]
    async with running(Watched([calls(*turns), DONE]), [NOTE, keeper()]) as rig:
        thread = await rig.rt.threads.create("tester")
        await Talk(rig.rt, thread.id).say()
        for unit in rig.store.units:
            effects = unit.effects if isinstance(unit, Advance) else ()
            keys = [effect.key for effect in effects if isinstance(effect, SetValue)]
            assert len(keys) == len(set(keys))


async def test_a_unit_writes_no_more_than_can_be_made_without_a_pause() -> None:
    large: list[JSON] = ["x" * 1000] * 400
    turns = [note("†state.a", large), *[note(to("†state.a", "push"), number) for number in range(20)]]
    async with running(Watched([calls(*turns), DONE]), [NOTE]) as rig:
        thread = await rig.rt.threads.create("tester")
        await Talk(rig.rt, thread.id).say()
        assert (await state_of(rig, thread.id))[None]["a"] == [*large, *range(20)]
        settled = [
            len([each for each in unit.messages if each.role == "tool"])
            for unit in rig.store.units
            if isinstance(unit, Advance)
        ]
        assert (sum(settled), max(settled)) == (21, 3)


async def test_nor_does_it_read_more() -> None:
    large: list[JSON] = ["x" * 1000] * 400
    tool = latent("look", value={})
    turns = [call("look", value="†input.large", _output=number) for number in range(10)]
    async with running(Watched([calls(*turns), DONE]), [tool]) as rig:
        thread = await rig.rt.threads.create("tester", arguments={"large": large})
        assert (await Talk(rig.rt, thread.id).say()).status == "completed"
        settled = [
            len([each for each in unit.messages if each.role == "tool"])
            for unit in rig.store.units
            if isinstance(unit, Advance)
        ]
        assert (sum(settled), max(settled)) == (10, 3)


async def test_a_later_run_goes_on_with_the_state() -> None:
    handled, model = Handled.of(), Watched([])
    async with running(model, [NOTE, *handled.tools]) as rig:
        talk = Talk(rig.rt, (await rig.rt.threads.create("tester")).id)
        for turn in (note("†state.a", [1]), note(to("†state.a", "push"), 2), call("show", value="†state.a")):
            model.says([turn, DONE])
            await talk.say()
    assert handled.values == [[1, 2]]


async def test_arguments_refer_to_what_an_earlier_call_of_the_same_answer_wrote() -> None:
    echo = tw.Tool.from_schema("echo", {"properties": {"value": {}, "_outputPath": {}}})
    handled = Handled.of(_outputPath={})
    answer = calls(
        note("†state.user", {"name": "Ada", "tags": ["x"]}),
        call("echo", value="†state.user.name", _outputPath="†state.echo"),
        call(
            "show",
            value=["†state.echo.args.value", {"tag": "†state.user.tags.0"}],
            _outputPath="†state.shown",
        ),
        call("show", value="†state.shown.1"),
        call("echo", value="†input.city"),
    )
    state, made, results = await led(
        [answer], [NOTE, echo, *handled.tools], thread={"arguments": {"city": "Paris"}}
    )
    assert handled.values == [["Ada", {"tag": "x"}], {"tag": "x"}]
    assert state[None]["echo"] == {"success": True, "args": {"value": "Ada"}}
    assert json.loads(results[-1])["args"] == {"value": "Paris"}
    assert json.loads(made[1].arguments)["value"] == "†state.user.name", "the row has what the model wrote"


async def test_the_mark_may_be_written_by_its_number_and_ordinary_texts_stay() -> None:
    handled = Handled.of()
    escaped = {"name": "show", "args": r'{"value": "\u2020input"}'}
    turns = [{"calls": [escaped]}, call("show", value="see †state.a"), call("show", value="† 1815")]
    await led(turns, handled.tools, thread={"arguments": {"a": 1}})
    assert handled.values == [{"a": 1}, "see †state.a", "† 1815"]


async def test_only_arguments_are_resolved() -> None:
    @tw.tool(description="Gives back.")
    async def other(value: str) -> str:
        return value

    turns = [note("†state.a", "†input.x"), call("other", value="†input.x")]
    state, _, results = await led(turns, [NOTE, other])
    assert (state, results) == ({None: {"a": "†input.x"}}, ["†input.x", "†input.x"])


async def test_references_are_resolved_before_arguments_are_validated() -> None:
    registry = tw.Registry()
    values: list[int] = []
    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}

    @registry.tool("count", schema)
    def count(n: int) -> None:
        values.append(n)

    assert count
    turns = [
        note("†state.a", {"n": 3, "t": "x"}),
        call("count", n="†state.a.n"),
        call("count", n="†state.a.t"),
    ]
    _, made, results = await led(turns, [NOTE, *registry.tools()])
    assert values == [3]
    assert made[-1].status == "error"
    assert "n: must be an integer" in results[-1]


async def test_an_unknown_reference_is_an_error_that_names_the_path() -> None:
    handled = Handled.of()
    turns = [
        note("†state.user", {"name": "Ada"}),
        call("show", value=["†state.user.nme"]),
        call("show", value="†input.x"),
    ]
    _, made, results = await led(turns, [NOTE, *handled.tools])
    assert [each.status for each in made] == ["done", "error", "error"]
    assert [json.loads(each)["error_code"] for each in results[1:]] == ["invalid_arguments"] * 2
    assert "value.0: refers to nothing: There is no †state.user.nme: †state.user has only name" in results[1]
    assert "There is no †input.x: †input is an object without it" in results[2]
    assert handled.values == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (to("†state.a", "push"), 1, "†state.a by push: its value is a string."),
        ("†state.a.b", 1, "†state.a is a string, not an object."),
        ("†state.big", "x" * (1024 * 1024), "With †state.big the state would have more than"),
        ("†state.big", "\u00fc" * (200 * 1024), "With †state.big the state would have more than"),
        (f"†state.{'n' * 300}", 1, "must have 1 to 200 characters"),
    ],
)  # fmt: skip
async def test_what_cannot_be_written_is_an_error_though_the_tool_succeeded(
    path: JSON, value: JSON, words: str
) -> None:
    handled = Handled.of(_outputPath={})
    turns = [
        note("†state.a", "x"),
        call("show", value=value, _outputPath=path),
        call("show", value="†state.a"),
    ]
    state, made, results = await led(turns, [NOTE, *handled.tools])
    assert [each.status for each in made] == ["done", "error", "done"]
    error = json.loads(results[1])
    assert error["error_code"] == "state_write"
    assert error["error"].startswith(
        "Tool 'show' itself succeeded, but its result cannot be written to †state."
    )
    assert words in error["error"]
    assert (state, handled.values[1:]) == ({None: {"a": "x"}}, ["x"])


async def test_an_error_of_a_tool_is_written_nowhere() -> None:
    registry = tw.Registry()

    @registry.tool("fail", {"properties": {"_outputPath": {"const": "†state.a"}}})
    def fail() -> tw.ToolResult:
        return tw.ToolResult.fail("No.")

    assert fail
    state, _, _ = await led([call("fail")], [*registry.tools()])
    assert state == {}


async def test_the_state_has_the_whole_of_a_result_that_the_model_reads_the_beginning_of() -> None:
    handled = Handled.of(_outputPath={"const": "†state.a"})
    value: JSON = {"text": "x" * 5_000}
    state, _, results = await led(
        [call("show", value=value)], handled.tools, settings=Settings(max_result_text=1_024)
    )
    assert state == {None: {"a": value}}
    assert "of which the first 1024 are shown" in results[0]


# ── instances ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_calls_of_an_instance_have_their_own_state() -> None:
    handled = Handled.of(_instance={"type": "string"})
    fixed = latent("fixed", _outputPath={"const": "†state.a"}, _instance={"const": "two"})
    turns = [
        calls(
            note("†state.a", 0),
            note("†state.a", 1, _instance="one"),
            call("fixed", _output=2),
            *[
                call("show", value="†state.a", **own)
                for own in ({}, {"_instance": "one"}, {"_instance": "two"})
            ],
            call("show", value="†state.a", _instance="three"),
        )
    ]
    state, made, results = await led(turns, [NOTE, fixed, *handled.tools])
    assert state == {None: {"a": 0}, "one": {"a": 1}, "two": {"a": 2}}
    assert handled.values == [0, 1, 2]
    assert made[-1].status == "error"
    assert "There is no †state.a" in results[-1]


def keeper() -> tw.Tool:
    """Return a tool whose handler returns the value stored under `key`, and stores `value` there."""
    registry = tw.Registry()
    schema = {"properties": {"key": {"type": "string"}, "value": {}, **CHOSEN}}

    @registry.tool("keep", schema)
    async def keep(state: tw.ThreadState, key: str, value: Any = None) -> Any:  # any JSON
        before = await state.get_value(key)
        if value is not None:
            state.set_value(key, value)
            assert await state.get_value(key) == value
        return before

    assert keep
    return registry.tools()[0]


async def test_handlers_read_and_set_the_values_of_their_instance() -> None:
    handled = Handled.of(_instance={"type": "string"})
    turns = [
        note("†state.a", 1, _instance="one"),
        call("keep", key="a", value=2, _instance="one"),
        call("keep", key="a", value=3),
        call("keep", key="a"),
        calls(call("show", value="†state.a", _instance="one"), call("show", value="†state.a")),
        call("keep", key="a.b", _instance="one"),
        call("keep", key="†a.one"),
    ]
    state, made, results = await led(turns, [NOTE, keeper(), *handled.tools])
    assert results[:4] == ["1", "1", "null", "3"]
    assert (state, handled.values) == ({"one": {"a": 2}, None: {"a": 3}}, [2, 3])
    assert [each.status for each in made[-2:]] == ["error", "error"]
    assert all("is not valid in this call" in each for each in results[-2:])


async def test_an_output_path_lies_over_what_the_handler_of_the_same_call_set() -> None:
    registry = tw.Registry()

    @registry.tool("add", {"properties": {"_outputPath": {"const": to("†state.a", "push")}}})
    def add(state: tw.ThreadState) -> int:
        state.set_value("a", ["set"])
        state.set_value("b", 1)
        return 2

    assert add
    state, _, _ = await led([call("add")], [*registry.tools()])
    assert state == {None: {"a": ["set", 2], "b": 1}}


async def test_what_a_handler_calls_reads_and_writes_the_state_but_is_of_no_instance() -> None:
    handled = Handled.of(_outputPath={}, _instance={"type": "string"})
    registry = tw.Registry()
    results: list[tw.ToolResult] = []
    made: list[tuple[str, JSONObject]] = [
        ("note", {"_outputPath": "†state.b", "_output": {"n": 1}}),
        ("show", {"value": "†state.b.n", "_outputPath": "†state.c"}),
        ("show", {"value": 2, "_outputPath": "†state.c", "_instance": "two"}),
        ("show", {"value": "†state.a"}),
        ("note", {"_outputPath": "†state.b.n.x", "_output": 1}),
    ]

    @registry.tool("outer", {"properties": {"_instance": {"type": "string"}}})
    async def outer(state: tw.ThreadState) -> None:
        for name, args in made:
            results.append(await state.invoke_tool(name, args))

    assert outer
    turns = [note("†state.a", 1, _instance="one"), call("outer", _instance="one")]
    state, _, _ = await led(turns, [NOTE, *handled.tools, *registry.tools()])
    assert [each.result for each in results[:3]] == [{"n": 1}, 1, 2]
    assert [each.error_code for each in results[3:]] == ["invalid_arguments", "state_write"]
    assert state == {"one": {"a": 1}, None: {"b": {"n": 1}, "c": 1}, "two": {"c": 2}}


# ── every instance, compared with a simple model of the state ─────────────────────────────────────────────────

VALUES = st.sampled_from([1, "x", [1], {"k": 1}, {"k": {"l": "y"}}, [[2], "z"], None])
PATHS = st.sampled_from([("a",), ("b",), ("a", "k"), ("a", "k", "l"), ("b", "c")])
PLACES = st.builds(OutputPath, path=PATHS, method=st.sampled_from(get_args(Method)))
INSTANCES = st.sampled_from([None, "one", "two", "x.y"])
WRITES = st.tuples(PLACES, VALUES, INSTANCES, st.booleans())
ANSWERS = st.lists(st.lists(WRITES, min_size=1, max_size=6), min_size=1, max_size=5)
Write = tuple[OutputPath, JSON, str | None, bool]


def expected(answers: list[list[Write]]) -> tuple[dict[str | None, JSONObject], list[str]]:
    """Return the states after those writes, and the outcome of each."""
    states: dict[str | None, JSONObject] = {}
    went: list[str] = []
    for place, value, instance, _ in [each for answer in answers for each in answer]:
        try:
            states[instance] = written(states.get(instance, {}), place, value)
            went.append("done")
        except InvalidRequest:
            went.append("error")
    return states, went


def turn_of(answer: list[Write]) -> dict[str, Any]:
    """Return an answer that makes those writes, by latent calls and by handlers."""
    made: list[dict[str, Any]] = []
    for place, value, instance, is_latent in answer:
        own: JSONObject = {} if instance is None else {"_instance": instance}
        if is_latent:
            made.append(note(place.written, value, **own))
        else:
            made.append(call("show", value=value, _outputPath=place.written, **own))
    return calls(*made)


async def compare(answers: list[list[Write]], **more: Any) -> None:
    state, made, _ = await led(
        [turn_of(answer) for answer in answers], [NOTE, *Handled.of(**CHOSEN).tools], **more
    )
    states, went = expected(answers)
    assert (state, [each.status for each in made]) == (states, went)


@settings(max_examples=60, deadline=None)
@given(ANSWERS)
def test_any_calls_of_any_instances_come_to_what_a_plain_state_does(answers: list[list[Write]]) -> None:
    asyncio.run(compare(answers))


MIXED: list[list[Write]] = [
    [
        (OutputPath(path=("a",)), {"k": 1}, None, True),
        (OutputPath(path=("a",), method="push"), "x", "one", False),
        (OutputPath(path=("a",), method="push"), [1], "one", True),
        (OutputPath(path=("a", "k"), method="merge"), {"k": 1}, None, True),
    ],
    [
        (OutputPath(path=("a",), method="concat"), ["ü", None], "one", False),
        (OutputPath(path=("a", "k", "l")), "y", "x.y", True),
    ],
]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_same_on_a_database(kind: str, tmp_path: Path) -> None:
    async with stores(kind, tmp_path) as store:
        await compare(MIXED, store=store)


# ── other participants ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_that_another_process_takes_over_goes_on_with_the_state(tmp_path: Path) -> None:
    registry, begun, values = tw.Registry(), asyncio.Event(), list[JSON]()

    @registry.tool("wait", {"properties": {"value": {}, "_outputPath": {"const": to("†state.a", "push")}}})
    async def wait(value: Any) -> Any:  # any JSON
        values.append(value)
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return len(value)

    assert wait
    tools = [NOTE, *[changed(tool, idempotent=True) for tool in registry.tools()]]
    answer = calls(
        note(to("†state.a", "push"), "first"), call("wait", value="†state.a"), call("wait", value="†state.a")
    )
    async with stores("sqlite", tmp_path) as store:
        async with running(Watched([answer, DONE]), tools, store=store) as rig:
            sent = await rig.send()
            await begun.wait()
        async with running(Watched([answer, DONE]), tools, store=store) as rig:
            assert (await rig.rt.runs.wait(sent.id, 10)).output == "Done."
            assert await state_of(rig, sent.thread_id) == {None: {"a": ["first", 1, 2]}}
    assert values == [["first"], ["first"], ["first", 1]]


async def test_a_result_from_outside_is_written_when_the_run_answers_the_call() -> None:
    schema = {"properties": {"_outputPath": {"const": "†state.a.b"}}}
    ask = changed(tw.Tool.from_schema("ask", schema), kind="external", timeout=60.0, visible=False)
    handled = Handled.of()
    turns = [calls(call("ask"), call("show", value="†state.a")), note("†state.a", 1), call("ask"), DONE]
    async with running(Watched(turns), [NOTE, ask, *handled.tools]) as rig:
        sent = await rig.send()
        talk = Talk(rig.rt, sent.thread_id)
        answers: list[JSON] = [{"said": "yes"}, "late"]
        for answer in answers:
            await rig.rt.calls.submit(sent.id, await opened(talk), answer)
        assert (await rig.rt.runs.wait(sent.id, 10)).output == "Done."
        assert (await state_of(rig, sent.thread_id), handled.values) == (
            {None: {"a": 1}},
            [{"b": {"said": "yes"}}],
        )
        assert json.loads((await talk.results())[-1])["error_code"] == "state_write"


async def test_the_tools_of_a_prompt_tool_share_the_state() -> None:
    handled = Handled.of()
    below = tw.Prompt(
        "below",
        model=Watched([note("†state.below", 1), call("show", value="†state.main"), {"text": "Below."}]),
        tools=[NOTE, *handled.tools],
        expose_as_tool=True,
        tool_description="Works.",
    )
    turns = [note("†state.main", 0), call("below", message="Go")]
    state, _, _ = await led(turns, [NOTE, "below"], prompts=[below])
    assert (state, handled.values) == ({None: {"main": 0, "below": 1}}, [0])


@pytest.mark.parametrize("named", ["below", "expert"])
async def test_the_only_schema_tools_may_be_those_of_a_prompt_tool_or_of_an_agent_that_takes_over(
    named: str,
) -> None:
    handled = Handled.of(_outputPath={})
    within, knows = (
        Watched([call("show", value=1, _outputPath="†state.a"), DONE]),
        Watched([note("†state.b", 2), DONE]),
    )
    shown: dict[str, Any] = {"expose_as_tool": True, "tool_description": "Works."}
    below = tw.Prompt("below", model=within, tools=handled.tools, **shown)
    expert = tw.Agent("expert", tw.Prompt("expert", model=knows, tools=[NOTE]), **shown)
    state, _, _ = await led([call(named, message="Go")], [named], prompts=[below], agents=[expert])
    assert state == {None: {"a": 1} if named == "below" else {"b": 2}}


async def test_the_only_schema_tools_may_be_those_of_the_other_side() -> None:
    first = tw.Prompt("first", model=Watched([{"text": "Over to you."}]))
    second = tw.Prompt("second", model=Watched([note("†state.a", 1), {"text": "Thanks."}]), tools=[NOTE])
    agent = tw.Agent("both", first, second, type="dual_ai", max_session_turns=2)
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        talk = Talk(rt, (await rt.threads.create("both")).id)
        await talk.say()
        assert [(each.name, each.status) for each in await talk.calls()] == [("note", "done")]
        assert [message.content for message in await talk.messages() if message.role == "tool"] == ["1"]


class Values:
    """Reads of another store's thread trees, with additional values of every thread; reads of values are counted."""

    def __init__(self, inner: ChildReads, values: Mapping[str, str]) -> None:
        self._inner, self._values, self.reads = inner, values, 0

    async def values(self, thread_id: str) -> Mapping[str, str]:
        self.reads += 1
        return {**await self._inner.values(thread_id), **self._values}

    def __getattr__(self, name: str) -> Any:  # other reads pass through
        return getattr(self._inner, name)


@asynccontextmanager
async def reading(
    values: Mapping[str, str], tools: Sequence[tw.Tool], *turns: Any
) -> AsyncGenerator[tuple[Rig, Values]]:
    """Run a runtime whose threads have those values too."""
    made: list[Values] = []

    async def store(bus: MemoryBus) -> Store:
        inner = MemoryStore(bus.publish)
        made.append(Values(inner.children, values))
        inner.children = made[0]  # type: ignore[assignment]  # reads pass through
        return inner

    async with running(Watched([*turns, DONE]), tools, store=store) as rig:
        yield rig, made[0]


async def test_values_are_read_once_a_run_and_never_without_schema_tools() -> None:
    @tw.tool(description="Works.")
    async def work(state: tw.ThreadState) -> str:
        state.set_value("a", 1)
        return "worked"

    for tools, reads in (([work], 0), ([work, NOTE], 1)):
        async with reading({}, tools, call("work"), call("work")) as (rig, values):
            thread = await rig.rt.threads.create("tester")
            assert (await Talk(rig.rt, thread.id).say()).output == "Done."
            assert values.reads == reads


async def test_a_value_that_is_no_json_fails_the_run_that_would_go_on_with_it() -> None:
    async with reading({"a": "no json"}, [NOTE], note("†state.b", 1)) as (rig, _):
        thread = await rig.rt.threads.create("tester")
        run = await Talk(rig.rt, thread.id).say()
        assert run.status == "failed"
        assert f"The value 'a' of the thread {thread.id} is broken: it is not JSON." in str(run.error)


async def test_what_a_handler_has_set_is_not_written_by_a_call_within_it() -> None:
    registry = tw.Registry()
    registry.tool("note", {"type": "object", "properties": {"_output": {}, "_outputPath": {}}})

    @registry.tool("both", {"type": "object"})
    async def both(state: tw.ThreadState) -> list[Any]:
        state.set_value("kept", [1])
        within = [
            await state.invoke_tool("note", {"_output": 2, "_outputPath": to(f"†state.{name}", "push")})
            for name in ("kept", "other")
        ]
        return [within[0].error_code, within[1].status]

    assert both
    script = [{"calls": [{"name": "both"}]}, DONE]
    prompt = tw.Prompt("a", model=Watched(script), tools=["both", "note"])
    async with testing.runtime(tw.App(agents=[tw.Agent("a", prompt)], registry=registry)) as rt:
        run = await ran(rt, "a")
        rows = {
            row.name: row for row in await rt.calls.list(run_id=run.id, status=()) if row.parent_id is None
        }
        result = rows["both"].result
        assert result is not None and result["result"] == ["state_write", "success"]
        store: Any = getattr(rt, "_store")  # noqa: B009 - pyright forbids direct access
        assert await store.children.values(run.thread_id) == {"kept": "[1]", "other": "[2]"}
