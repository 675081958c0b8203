"""Deps: the value that the caller of a run passes to its tools. It is stored with the run, and typed by the agent."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, cast

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator
from typing_extensions import TypedDict

import toolwright as tw
from tests import journals
from tests.kit import Watched, call, calls, hanging, raising, until
from toolwright.core.errors import InvalidRequest, ModelError, OtherDeps
from toolwright.core.json_value import JSONObject, plain
from toolwright.core.limits import MAX_DEPS
from toolwright.core.model import ModelRequest
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Address(BaseModel):
    city: str = "Bern"


class Customer(BaseModel):
    id: int
    since: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    address: Address = Address()
    name: str = Field(default="Ada", alias="fullName")
    notes: list[str] = Field(default_factory=list[str])


@dataclass
class Shopper:
    id: int
    tags: set[str] = field(default_factory=set[str])


class Guest(TypedDict):
    id: int


def title(state: tw.ThreadState[Customer]) -> str:
    return f"customer {state.deps.id}"


@tw.tool(description="Reads the deps.")
async def who(state: tw.ThreadState[Customer]) -> Any:
    return None if state.deps is None else state.deps.model_dump(mode="json")  # pyright: ignore[reportUnnecessaryComparison]  # a run can have none


@tw.tool(description="Reads the id.")
def number(state: tw.ThreadState) -> Any:
    shown: Any = plain(state.deps)
    return shown and shown["id"]


@tw.tool(description="Reads by a dependency.")
async def titled(text: Annotated[str, tw.Depends(title)]) -> str:
    return text


@tw.tool(description="Writes a note into the deps.")
async def note(state: tw.ThreadState[Customer]) -> int:
    state.deps.notes.append("x")
    return len(state.deps.notes)


def desk(*turns: object, model: object = None, deps: Any = Customer, **options: Any) -> tw.Agent:
    tools = options.pop("tools", [who, number, titled, note])
    return tw.Agent(
        "desk",
        instructions="Be brief.",
        model=model or ScriptedModel([*turns]),
        tools=tools,
        deps=deps,
        **options,
    )


async def results(rt: Runtime, run_id: str) -> list[Any]:
    """Return the results of the run's calls."""
    return said(await rt.runs.result(run_id))


def said(result: tw.RunResult) -> list[Any]:
    """Return the results of the calls."""
    return [None if each.result is None else each.result.result for each in result.calls]


async def newest(rt: Runtime, thread_id: str, number_of: int) -> Run:
    """Return the thread's last run, once it has that many and the last one has ended."""

    async def last() -> Run | None:
        runs = await rt.runs.list(thread_id=thread_id)
        return runs[0] if len(runs) == number_of else None

    return await rt.runs.wait((await until(last)).id)


async def sent(rt: Runtime, thread_id: str, deps: object = None) -> list[Any]:
    run = await rt.threads.send(thread_id, "Go", deps=deps)
    await rt.runs.wait(run.id)
    return await results(rt, run.id)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.one_journal
async def test_tools_and_dependencies_read_the_value_of_the_run() -> None:
    agent = desk(calls("who", "number", "titled"), {"text": "Done."})
    result = await tw.run(agent, "Go", deps=Customer(id=7, fullName="Bo"))
    shown, number_of, text = said(result)
    assert shown == {
        "id": 7,
        "since": "2020-01-01T00:00:00Z",
        "address": {"city": "Bern"},
        "name": "Bo",
        "notes": [],
    }
    assert (number_of, text) == (7, "customer 7")


@pytest.mark.one_journal
def test_run_sync_and_streams_pass_it_too() -> None:
    assert said(tw.run_sync(desk(call("number"), {"text": "Done."}), "Go", deps=Customer(id=7))) == [7]
    events = list(tw.stream(desk(call("number"), {"text": "Done."}), "Go", deps=Customer(id=8)))
    assert [each.result.result for each in events if isinstance(each, tw.CallDone)] == [8]


@pytest.mark.parametrize(
    ("deps", "value"), [(Shopper, Shopper(7, {"a"})), (Guest, Guest(id=7)), (Customer, {"id": 7})]
)
@pytest.mark.one_journal
async def test_dataclasses_typed_dicts_and_mappings_are_values(deps: Any, value: Any) -> None:
    result = await tw.run(desk(call("number"), {"text": "Done."}, deps=deps), "Go", deps=value)
    assert said(result) == [7]


async def test_without_it_the_deps_are_none() -> None:
    async with journals.runtime(tw.App(agents=[desk(call("number"), {"text": "Done."})])) as rt:
        thread = await rt.threads.create("desk")
        assert await sent(rt, thread.id) == [None]


@pytest.mark.one_journal
async def test_the_instance_is_one_per_run_and_never_the_callers() -> None:
    given = Customer(id=7)
    agent = desk(calls("note", "note"), {"text": "Done."}, calls("note", "note"), {"text": "Done."})
    for _ in range(2):
        result = await tw.run(agent, "Go", deps=given)
        assert said(result) == [1, 2]
    assert given.notes == []


def above(arguments: JSONObject, state: tw.ThreadState[Customer]) -> bool:
    return int(str(arguments["amount"])) > state.deps.id


async def above_later(arguments: JSONObject, state: tw.ThreadState[Customer]) -> bool:
    return above(arguments, state)


async def writes(arguments: JSONObject, state: tw.ThreadState[Customer]) -> bool:
    state.emit("asked", {})
    return False


@pytest.mark.parametrize(
    ("when", "asked"), [(above, ["500", "200"]), (above_later, ["500", "200"]), (writes, ["5", "500", "200"])]
)
@pytest.mark.one_journal
async def test_a_function_that_says_which_calls_need_an_approval_reads_it(
    when: Any, asked: list[str]
) -> None:
    @tw.tool(requires_approval=tw.Approval(when=when))
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    @tw.tool
    async def relay(state: tw.ThreadState) -> str:
        """Pay by another tool."""
        return str((await state.invoke_tool("pay", {"amount": 200})).result)

    waited: list[str] = []

    def approve(waiting: tw.CallWaiting) -> bool:
        arguments: Any = waiting.arguments
        waited.append(str(arguments["amount"]))
        return True

    agent = desk(
        calls(call("pay", amount=5), call("pay", amount=500), "relay"), {"text": "Done."}, tools=[pay, relay]
    )
    result = await tw.run(agent, "Go", deps=Customer(id=100), approve=approve)
    assert {"paid 5", "paid 500", "paid 200"} >= {str(each) for each in said(result)}
    assert [each.result.status for each in result.calls if each.result] == ["success"] * len(result.calls)
    assert waited == asked


# ── the run that a message starts or joins ──────────────────────────────────────────────────────────────────


async def test_a_message_without_deps_has_those_of_the_threads_last_run() -> None:
    turns = [call("number"), {"text": "Done."}]
    async with journals.runtime(tw.App(agents=[desk(*turns * 4)])) as rt:
        thread = await rt.threads.create("desk")
        assert await sent(rt, thread.id, Customer(id=7)) == [7]
        assert await sent(rt, thread.id) == [7]
        assert await sent(rt, thread.id, Customer(id=8)) == [8]
        assert await sent(rt, thread.id) == [8]
        runs = await rt.runs.list(thread_id=thread.id)
        assert [run.deps and run.deps["id"] for run in reversed(runs)] == [7, 7, 8, 8]


async def test_a_message_with_other_deps_cannot_join_a_run() -> None:
    hang, begun = hanging()
    agent = desk(call("hang"), {"text": "Done."}, tools=[hang])
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("desk")
        run = await rt.threads.send(thread.id, "Go", deps=Customer(id=7))
        await begun.wait()
        assert (await rt.threads.send(thread.id, "The same.", deps=Customer(id=7))).id == run.id
        assert (await rt.threads.send(thread.id, "None.")).id == run.id
        with pytest.raises(OtherDeps, match="with other deps"):
            await rt.threads.send(thread.id, "Another.", deps=Customer(id=8))
        await rt.runs.cancel(run.id)
        await rt.runs.wait(run.id)
        texts = [each.content for each in await rt.threads.messages(thread.id) if each.role == "user"]
        assert "Another." not in texts


async def test_a_retried_run_and_one_that_calls_reopen_keep_theirs() -> None:
    model = Watched([call("number"), {"text": "Done."}], before=raising(ModelError("Broken.")))
    async with journals.runtime(tw.App(agents=[desk(model=model)])) as rt:
        thread = await rt.threads.create("desk")
        run = await rt.threads.send(thread.id, "Go", deps=Customer(id=7))
        assert (await rt.runs.wait(run.id)).status == "failed"
        model.before = None
        await rt.runs.retry(run.id)
        await rt.runs.wait(run.id)
        assert await results(rt, run.id) == [7]
        toolkit = await rt.toolkit("desk", run.id)
        answer = await toolkit.call("number", {})
        assert answer["content"] == [{"type": "text", "text": "7"}]


async def test_a_late_result_wakes_a_run_with_the_deps_of_the_run_that_made_the_call() -> None:
    slow = tw.Tool(
        name="slow", description="Slow.", kind="external", is_async=True, timeout=9.0, expires_in=3600.0
    )
    model = Watched([call("slow"), {"text": "Later."}])
    async with journals.runtime(tw.App(agents=[desk(model=model, tools=[slow, number])])) as rt:
        thread = await rt.threads.create("desk")
        first = await rt.threads.send(thread.id, "Go", deps=Customer(id=7))
        await rt.runs.wait(first.id)
        model.says([call("number"), {"text": "Done."}])
        assert await sent(rt, thread.id, Customer(id=8)) == [8]
        [pending] = await rt.calls.list(run_id=first.id)
        await rt.calls.submit(first.id, pending.id, {"ok": True})
        assert await results(rt, (await newest(rt, thread.id, 3)).id) == [7]
        assert await sent(rt, thread.id) == [7]


async def test_the_agents_own_plan_has_the_deps_of_the_run_that_made_it() -> None:
    plan = {"name": "tea", "instruction": "Make tea.", "runAfter": 1}
    model = Watched([call("set_plans", plans=[plan]), {"text": "Planned."}])

    async def read_if_planned(request: ModelRequest) -> None:
        if "Make tea." in request.messages[-1].content and request.messages[-1].role == "user":
            model.says([call("number"), {"text": "Done."}])

    model.before = read_if_planned
    agent = desk(model=model, tools=[number], toolkits=["mind"])
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("desk")
        run = await rt.threads.send(thread.id, "Go", deps=Customer(id=7))
        await rt.runs.wait(run.id)
        assert await results(rt, (await newest(rt, agent.home_thread_id, 1)).id) == [7]


async def test_an_inbox_event_has_the_threads_last() -> None:
    turns = [call("number"), {"text": "Done."}]
    agent = desk(*turns * 3)
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        await rt.inboxes.trigger("desk", "clock")
        assert await results(rt, (await newest(rt, agent.home_thread_id, 1)).id) == [None]
        assert await sent(rt, agent.home_thread_id, Customer(id=9)) == [9]
        await rt.inboxes.trigger("desk", "clock")
        assert await results(rt, (await newest(rt, agent.home_thread_id, 3)).id) == [9]


# ── other agents ────────────────────────────────────────────────────────────────────────────────────────────


def below(*turns: object, deps: Any = Shopper) -> tw.Agent:
    return tw.Agent(
        "below",
        instructions="Help.",
        model=ScriptedModel([*turns]),
        tools=[number],
        deps=deps,
        description="Helps.",
    )


@pytest.mark.parametrize(
    ("declared", "deps", "number_of"),
    [
        (None, Shopper, None),
        ({"id": "id"}, Shopper, 7),
        (True, Customer, 7),
        ({"id": "address.city"}, Guest, "invalid_request"),
        ({"other": "id"}, Shopper, "invalid_request"),
    ],
)
async def test_a_child_gets_what_the_callers_configuration_maps(
    declared: Any, deps: Any, number_of: Any
) -> None:
    child = below(call("number"), {"text": "Done."}, deps=deps)
    agent = desk(call("below", message="Help."), {"text": "Done."}, tools=[child.as_tool(deps=declared)])
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("desk")
        run = await rt.threads.send(thread.id, "Go", deps=Customer(id=7))
        await rt.runs.wait(run.id)
        [made] = (await rt.runs.result(run.id)).calls
        children = await rt.threads.children(thread.id)
        if number_of == "invalid_request":
            assert made.result is not None
            assert (made.result.error_code, list(children)) == (number_of, [])
        else:
            [child_run] = await rt.runs.list(thread_id=children[0].id)
            assert await results(rt, child_run.id) == [number_of]


async def test_a_message_to_a_resumable_child_brings_the_deps_of_its_run() -> None:
    child = below(call("number"), {"text": "One."}, call("number"), {"text": "Two."})
    child = tw.Agent("below", child.side_a, deps=Shopper, expose_as_tool=True, tool_description="Helps.")
    config = tw.SubagentToolConfig.model_validate({"name": "below", "resumable": {}, "deps": {"id": "id"}})
    model = Watched([call("subagent_create", agent="below", name="b", message="Help."), {"text": "Done."}])
    agent = desk(model=model, tools=[config])
    async with journals.runtime(tw.App(agents=[agent, child])) as rt:
        thread = await rt.threads.create("desk")
        run = await rt.threads.send(thread.id, "Go", deps=Customer(id=7))
        await rt.runs.wait(run.id)
        [kid] = await rt.threads.children(thread.id)
        model.says([call("subagent_message", reference=kid.id, message="More."), {"text": "Done."}])
        run = await rt.threads.send(thread.id, "Go", deps=Customer(id=8))
        await rt.runs.wait(run.id)
        runs = await rt.runs.list(thread_id=kid.id)
        assert [await results(rt, each.id) for each in reversed(runs)] == [[7], [8]]


@pytest.mark.parametrize("says", [False, True], ids=["ends", "notifies"])
async def test_news_of_a_child_in_the_background_begin_a_run_with_the_deps_of_its_call(says: bool) -> None:
    free = asyncio.Event()

    @tw.tool(description="Works.")
    async def work(state: tw.ThreadState) -> str:
        await free.wait()
        if says:
            await state.notify_parent("Half of it is done.")
        return "worked"

    child = tw.Agent(
        "below", instructions="Help.", model=ScriptedModel([call("work"), {"text": "Done."}]), tools=[work]
    )
    config = tw.SubagentToolConfig(name="below", blocking=False)
    turns: list[Any] = [
        {"when": "First", **call("below", message="Help.")},
        {"text": "Done."},
    ]
    child = tw.Agent("below", child.side_a, expose_as_tool=True, tool_description="Helps.")
    agent = desk(*turns, tools=[config, number])
    async with journals.runtime(tw.App(agents=[agent, child])) as rt:
        thread = await rt.threads.create("desk")
        for text, each in (("First", 7), ("Second", 8)):
            await rt.runs.wait((await rt.threads.send(thread.id, text, deps=Customer(id=each))).id)
        free.set()
        await newest(rt, thread.id, 3 + says)
        runs = await rt.runs.list(thread_id=thread.id)
        assert [(each.deps or {})["id"] for each in reversed(runs)] == [7, 8, 7, 7][: 3 + says]


@pytest.mark.parametrize(("deps", "number_of"), [(Customer, 7), (Shopper, None), (None, None)])
async def test_an_agent_that_takes_the_thread_over_sees_deps_of_its_own_type_only(
    deps: Any, number_of: Any
) -> None:
    expert = tw.Agent(
        "expert",
        instructions="Know.",
        model=ScriptedModel([call("number"), {"text": "Done."}]),
        tools=[number],
        deps=deps,
        expose_as_tool=True,
        tool_description="Knows.",
    )
    agent = desk(call("expert"), tools=["expert"])
    async with journals.runtime(tw.App(agents=[agent, expert])) as rt:
        thread = await rt.threads.create("desk")
        assert (await sent(rt, thread.id, Customer(id=7)))[-1] == number_of


@pytest.mark.one_journal
def test_a_configuration_cannot_give_deps_to_an_agent_that_declares_none() -> None:
    child = below(deps=None)
    with pytest.raises(tw.errors.DefinitionError, match="'below' declares no deps"):
        tw.App(agents=[desk(tools=[child.as_tool(deps=True)])])


# ── refused ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("x", "must be a Customer, not 'x'"),
        ({"id": "seven"}, "not a valid Customer: deps.id"),
        ({"id": 7, "notes": ["x" * MAX_DEPS]}, "more than 65536 bytes"),
        ({"id": 7, "notes": float("nan")}, "cannot be stored"),
        ({"id": 7, "adress": {}}, "not a valid Customer: deps.adress: is not a known field"),
        ({"id": 7, "address": {"town": "Rome"}}, "deps.address.town: is not a known field"),
        (Address(), "must be a Customer, not a value of the type Address"),
    ],
)
async def test_an_invalid_value_is_refused_and_nothing_is_sent(value: Any, error: str) -> None:
    async with journals.runtime(tw.App(agents=[desk({"text": "Done."})])) as rt:
        thread = await rt.threads.create("desk")
        with pytest.raises(InvalidRequest, match=error):
            await rt.threads.send(thread.id, "Go", deps=value)
        assert await rt.runs.list(thread_id=thread.id) == []


class Open(BaseModel, extra="ignore"):
    id: int


@pytest.mark.one_journal
async def test_a_type_can_say_what_becomes_of_unknown_fields() -> None:
    agent = desk(call("number"), {"text": "Done."}, deps=Open)
    result = await tw.run(agent, "Go", deps={"id": 7, "other": 1})
    assert [made.result.result for made in result.calls if made.result] == [7]


@pytest.mark.one_journal
async def test_an_instance_with_a_field_of_another_type_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidRequest) as refused:
        await tw.run(desk({"text": "Done."}), "Go", deps=Customer.model_construct(id=cast("Any", "seven")))
    assert str(refused.value) == (
        "The deps cannot be stored: the field 'id' has a value of another type than Customer declares."
    )


@pytest.mark.one_journal
async def test_deps_for_an_agent_that_declares_none_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="'desk' declares no deps"):
        await tw.run(desk({"text": "Done."}, deps=None), "Go", deps=Customer(id=7))


class Checked(BaseModel):
    """A type that a deployment has made stricter once `stricter` is set."""

    stricter: ClassVar[bool] = False
    id: int

    @field_validator("id")
    @classmethod
    def _check(cls, value: int) -> int:
        if Checked.stricter:
            raise ValueError("must have ten digits")
        return value


async def test_stored_deps_that_the_type_no_longer_accepts_are_an_error_of_the_call() -> None:
    model = Watched([call("number"), {"text": "Done."}], before=_make_stricter)
    async with journals.runtime(tw.App(agents=[desk(model=model, deps=Checked)])) as rt:
        thread = await rt.threads.create("desk")
        run = await rt.threads.send(thread.id, "Go", deps=Checked(id=7))
        await rt.runs.wait(run.id)
        [made] = (await rt.runs.result(run.id)).calls
        Checked.stricter = False
        assert made.result is not None
        assert made.result.error == "The run's deps do not fit Checked any more: id: must have ten digits."


async def _make_stricter(_: object) -> None:
    Checked.stricter = True


class Exiting(BaseModel):
    """A type whose validator would end the interpreter."""

    id: int

    @field_validator("id")
    @classmethod
    def _check(cls, value: int) -> int:
        raise SystemExit(value)


@pytest.mark.one_journal
async def test_a_validator_that_would_end_the_interpreter_refuses_the_deps_alone() -> None:
    with pytest.raises(InvalidRequest, match="cannot be read as Exiting"):
        await tw.run(desk({"text": "Done."}, deps=Exiting), "Go", deps={"id": 3})


class Connected(BaseModel, arbitrary_types_allowed=True):
    client: asyncio.Lock


@dataclass
class Calling:
    back: Callable[[], None]


class Trusted(BaseModel):
    password: SecretStr


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        (Connected, r"deps=Connected cannot be stored: .*tw\.Depends"),
        (Calling, r"deps=Calling cannot be stored: .*tw\.Depends"),
        (Trusted, "deps=Trusted has a secret field"),
        (int, r"deps must be a pydantic model, a dataclass or a TypedDict, .*tw\.Depends"),
        (Customer(id=7), "deps must be a pydantic model"),
    ],
)
@pytest.mark.one_journal
def test_a_type_that_cannot_be_stored_is_refused_where_it_is_declared(declared: Any, error: str) -> None:
    with pytest.raises(tw.errors.DefinitionError, match=error):
        desk(deps=declared)


class Reads(tw.Hooks):
    """Replaces each result by the deps."""

    def after_call(self, event: tw.AfterCall, /) -> tw.ToolResult:
        return tw.ToolResult.ok(f"hook {event.state.deps.id}")


@pytest.mark.one_journal
async def test_hooks_and_functions_of_instructions_and_tools_read_it() -> None:
    model = Watched([call("number"), {"text": "Done."}])
    agent = tw.Agent(
        "desk",
        instructions=lambda state: f"You help {title(state)}.",
        model=model,
        tools=[*tw.Toolset([number]).available(lambda state: state.deps.id == 7)],
        deps=Customer,
        hooks=[Reads()],
    )
    result = await tw.run(agent, "Go", deps=Customer(id=7))
    assert said(result) == ["hook 7"]
    assert [each.system for each in model.requests] == ["You help customer 7."] * 2
    assert [[tool.name for tool in each.tools] for each in model.requests] == [["number"]] * 2
