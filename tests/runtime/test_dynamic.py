"""Instructions and tools that depend on the run: functions of its state, called once in a run or in each step."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest

import toolwright as tw
from tests.databases import database, prepare
from tests.kit import DONE, Watched, call, calls, until
from tests.runtime.rig import Rig, running
from tests.runtime.solving import DONE as SOLVED
from tests.runtime.solving import TEXT, said, solved
from toolwright.core.dependencies import dynamic
from toolwright.core.errors import DefinitionError
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import SentText
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.testing import runtime
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio


@tw.tool(description="Look.")
async def look() -> str:
    return "Seen"


async def ran(rig: Rig, agent: str = "tester", user: str | None = None, thread: str | None = None) -> Run:
    """Send a message to a thread, or to a new one of the user, and return the finished run."""
    thread = thread or (await rig.rt.threads.create(agent, user)).id
    return await rig.rt.runs.wait((await rig.rt.threads.send(thread, "Go")).id, 60)


async def results(rig: Rig, run: Run) -> list[str]:
    return [each.content for each in await rig.rt.runs.messages(run.id) if each.role == "tool"]


def offered(model: Watched) -> list[list[str]]:
    """Return the names of the tools of each request."""
    return [[tool.name for tool in request.tools] for request in model.requests]


class Counted:
    """A function of the state that counts its calls."""

    def __init__(self, *values: object) -> None:
        self.values = [*values]
        self.count = 0

    async def __call__(self, state: tw.ThreadState) -> Any:  # of any type, to be checked
        self.count += 1
        return self.values[min(self.count, len(self.values)) - 1]


# ── instructions ────────────────────────────────────────────────────────────────────────────────────────────


async def test_instructions_are_what_a_function_returns_for_the_run() -> None:
    model = Watched([call("look"), DONE])
    asked = list[str | None]()

    def brief(state: tw.ThreadState) -> str:
        asked.append(state.user_id)
        return f"You help {state.user_id}."

    agent = tw.Agent("helper", instructions=brief, model=model, tools=[look])
    async with running(Watched(), agents=[agent]) as rig:
        run = await ran(rig, "helper", "ada")
        assert [each.system for each in model.requests] == ["You help ada."] * 2
        assert asked == ["ada"]
        prompts = await rig.rt.sent_prompts.of_run(run.id)
        assert [each.system for each in prompts] == ["You help ada."] * 2
        await ran(rig, "helper", thread=run.thread_id)
        assert asked == ["ada", "ada"]  # once in each run


async def test_texts_of_functions_and_of_hooks_belong_to_their_thread_and_not_to_all() -> None:
    class Longer(tw.Hooks):
        def before_model(self, event: tw.BeforeModel, /) -> tw.model.ModelRequest:
            return replace(event.request, system=f"{event.request.system} Be brief.")

    def brief(state: tw.ThreadState) -> str:
        return f"You help {state.user_id}."

    helper = tw.Agent("helper", instructions=brief, model=Watched(), hooks=[Longer()])
    plain = tw.Agent("plain", instructions="You help.", model=Watched(), hooks=[Longer()])
    async with running(Watched(), agents=[helper, plain]) as rig:
        runs = [await ran(rig, "helper", "ada"), await ran(rig, "plain", "ada")]
        owned = [await rig.store.rows.find(SentText, {"thread_id": each.thread_id}) for each in runs]
        texts = [{row.text for row in rows} for rows in owned]
        assert texts == [{"You help ada.", "You help ada. Be brief."}, {"You help. Be brief."}]
        shared = await rig.store.rows.find(SentText, {"thread_id": ""})
        assert {each.text for each in shared} == {"You help."}


async def test_functions_can_be_async_and_take_dependencies() -> None:
    model = Watched()

    def open_names() -> dict[str, str]:
        return {"ada": "Ada Lovelace"}

    async def brief(state: tw.ThreadState, names: Annotated[dict[str, str], tw.Depends(open_names)]) -> str:
        return f"You help {names[state.user_id or '']}."

    prompt = tw.Prompt("helper", brief, model=model)
    async with running(Watched(), agents=[tw.Agent("helper", prompt)]) as rig:
        await ran(rig, "helper", "ada")
    assert model.requests[0].system == "You help Ada Lovelace."


async def test_a_function_of_each_step_is_sent_as_state_when_its_text_changes() -> None:
    model = Watched([call("look"), call("look"), DONE])
    text = Counted("One.", "One.", "Two.", "Two.")
    agent = tw.Agent("helper", instructions=tw.Dynamic(text, per_step=True), model=model, tools=[look])
    async with running(Watched(), agents=[agent]) as rig:
        run = await ran(rig, "helper")
        states = [None if each.state is None else dict(each.state.parts) for each in model.requests]
        assert states == [{"instructions": "One."}, {}, {"instructions": "Two."}]
        assert [each.system for each in model.requests] == [""] * 3
        await ran(rig, "helper", thread=run.thread_id)
        assert not model.requests[3].state or not model.requests[3].state.parts
        prompts = await rig.rt.sent_prompts.of_run(run.id)
        assert ["One." in each.changing for each in prompts] == [True, False, False]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3, "The function 'Counted' must return the instructions as text, not 3."),
        (None, "The function 'Counted' must return the instructions as text, not None."),
    ],
)
async def test_what_is_no_text_fails_the_run(returned: object, message: str) -> None:
    model = Watched()
    agent = tw.Agent("helper", instructions=Counted(returned), model=model)
    async with running(Watched(), agents=[agent]) as rig:
        run = await ran(rig, "helper")
    assert (run.status, run.error, run.error_code) == ("failed", message, "function_failed")
    assert model.requests == []


@pytest.mark.parametrize("within", [False, True])
async def test_a_function_that_raises_fails_the_run(within: bool) -> None:
    def brief(state: tw.ThreadState) -> str:
        raise RuntimeError("the database is away")

    inner = tw.Prompt("inner", brief, model=Watched(), tool_description="Ask.", expose_as_tool=True)
    outer = tw.Prompt("outer", "Talk.", model=Watched([call("inner", message="Hi"), DONE]), tools=["inner"])
    agent = tw.Agent("helper", outer if within else tw.Prompt("own", brief, model=Watched()))
    async with running(Watched(), agents=[agent], prompts=[inner]) as rig:
        run = await ran(rig, "helper")
    assert (run.status, run.error_code) == ("failed", "function_failed")
    assert run.error == "The function 'brief' failed: the database is away."


async def test_a_state_without_a_call_only_reads() -> None:
    async def brief(state: tw.ThreadState) -> str:
        state.set_value("key", 1)
        return ""

    agent = tw.Agent("helper", instructions=brief, model=Watched())
    async with running(Watched(), agents=[agent]) as rig:
        run = await ran(rig, "helper")
    assert (
        run.status == "failed"
        and run.error is not None
        and run.error.startswith("The function 'brief' failed: ")
    )


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_tool_that_is_not_available_is_neither_sent_nor_called() -> None:
    refunded = list[str]()

    @tw.tool(description="Refund.", available=lambda state: state.user_id == "ada")
    async def refund() -> str:
        refunded.append("refund")
        return "Refunded"

    model = Watched([calls("look", "refund"), DONE])
    async with running(model, [look, refund]) as rig:
        run = await ran(rig, user="bob")
        assert offered(model) == [["look"]] * 2
        assert await results(rig, run) == [
            "Seen",
            '{"error":"There is no tool \'refund\'. The tools are: look.","error_code":"unknown_tool"}',
        ]
        model.requests.clear()
        model.says([calls("look", "refund"), DONE])
        run = await ran(rig, user="ada")
        assert offered(model) == [["look", "refund"]] * 2
        assert await results(rig, run) == ["Seen", "Refunded"]
    assert refunded == ["refund"]


async def test_a_composed_answer_can_only_call_the_tools_that_are_available() -> None:
    refunded = list[str]()

    @tw.tool(description="Refund.", available=lambda state: False)
    async def refund() -> str:
        refunded.append("refund")
        return "Refunded"

    turns = [said(None, {"_tool": "refund"}), said(None, {"_tool": "look"}), said(SOLVED)]
    context = [{"type": "tool", "tool": ["look", "refund"]}, TEXT]
    solution, model = await solved(turns, context, app=tw.App(tools=[look, refund]))
    assert ([each.tool for each in solution.calls], refunded) == (["look"], [])
    assert ["refund" in str(each.answer.schema) for each in model.requests if each.answer] == [False] * 3
    assert "calls.0._tool: must be" in model.requests[1].messages[-1].content


@pytest.mark.parametrize(("per_step", "count", "tools"), [(False, 1, [2, 2, 2]), (True, 3, [2, 1, 2])])
async def test_a_predicate_is_asked_once_in_a_run_or_in_each_step(
    per_step: bool, count: int, tools: list[int]
) -> None:
    asked = Counted(True, False, True)
    available = tw.Dynamic(asked, per_step=per_step)
    other = tw.tool(description="Other.", name="other", available=available)(look.handler)  # type: ignore[arg-type]  # a function
    model = Watched([call("look"), call("look"), DONE])
    async with running(model, [look, other]) as rig:
        assert (await ran(rig)).status == "completed"
    assert asked.count == count
    assert [len(names) for names in offered(model)] == tools


async def test_all_tools_of_a_toolset_can_depend_on_the_run() -> None:
    tools = [*tw.Toolset([look]).available(lambda state: state.user_id == "ada")]
    model = Watched()
    async with running(model, tools) as rig:
        await ran(rig, user="bob")
        await ran(rig, user="ada")
    assert offered(model) == [[], ["look"]]


async def test_a_predicate_that_raises_or_says_neither_fails_the_run() -> None:
    def away(state: tw.ThreadState) -> bool:
        raise RuntimeError("away")

    for predicate, error in (
        (away, "The function 'away' failed: away."),
        (
            Counted("yes"),
            "The function 'Counted' must return whether the tool is available, True or False, not 'yes'.",
        ),
    ):
        async with running(Watched(), [*tw.Toolset([look]).available(predicate)]) as rig:
            run = await ran(rig)
            assert (run.status, run.error, run.error_code) == ("failed", error, "function_failed")


async def test_a_handler_cannot_call_a_tool_that_is_not_available() -> None:
    @tw.tool(description="Call it.")
    async def relay(state: tw.ThreadState) -> str:
        return (await state.invoke_tool("look")).error or "called"

    tools = [relay, *tw.Toolset([look]).available(lambda state: False)]
    async with running(Watched([call("relay"), DONE]), tools) as rig:
        assert await results(rig, await ran(rig)) == ["There is no tool 'look'. The tools are: relay."]


async def test_a_toolkit_cannot_call_a_tool_that_is_not_available() -> None:
    async with running(
        Watched(), [look, *tw.Toolset([look]).prefixed("no_").available(lambda state: False)]
    ) as rig:
        kit = await rig.rt.toolkit("tester")
        assert "is_error" not in await kit.handlers["look"]({})
        refused = await kit.handlers["no_look"]({})
        assert refused["is_error"] and "There is no tool" in str(refused)


async def test_tools_called_outside_a_run_are_asked_for_too() -> None:
    tools = tw.Toolset([look]).available(lambda state: False)
    result = await tools.call("look", {})
    assert (result.status, result.error) == ("error", "There is no tool 'look'. There are no tools.")
    assert (await tw.Toolset([look]).available(lambda state: True).call("look", {})).result == "Seen"


async def test_prompt_tools_and_both_sides_have_functions_of_their_own() -> None:
    inside = Watched([call("look"), DONE])
    inner = tw.Prompt(
        "inner",
        lambda state: f"Inside for {state.user_id}.",
        model=inside,
        tools=[*tw.Toolset([look]).available(lambda state: False)],
        tool_description="Ask.",
        expose_as_tool=True,
    )
    one = tw.Prompt(
        "one", lambda state: "I am one.", model=Watched([call("inner", message="Hi"), DONE]), tools=["inner"]
    )
    second = Watched([DONE])
    two = tw.Prompt("two", lambda state: "I am two.", model=second)
    agent = tw.Agent("pair", tw.Side(one), tw.Side(two), type="dual_ai", max_session_turns=1)
    async with running(Watched(), agents=[agent], prompts=[inner]) as rig:
        run = await ran(rig, "pair", "ada")
        assert run.status == "completed", run.error
    assert [each.system for each in inside.requests] == ["Inside for ada."] * 2
    assert offered(inside) == [[], []]
    assert "There is no tool 'look'" in inside.requests[1].messages[-1].content
    assert [each.system for each in second.requests] == ["I am two."]


async def test_a_subagent_has_the_instructions_of_its_own_run() -> None:
    model = Watched()
    child = tw.Agent(
        "child", instructions=lambda state: f"Child of {state.user_id}.", model=model, tool_description="Ask."
    )
    boss = tw.Prompt(
        "boss", "Lead.", model=Watched([call("child", message="Hi"), DONE]), tools=[child.as_tool()]
    )
    async with running(Watched(), agents=[child, tw.Agent("boss", boss)]) as rig:
        run = await ran(rig, "boss", "ada")
        assert run.status == "completed", run.error
    assert model.requests[0].system in ("Child of ada.", "Child of None.")


def test_what_cannot_be_called_is_refused() -> None:
    def many(state: tw.ThreadState, other: int) -> str:
        return ""

    def yields(state: tw.ThreadState) -> Any:
        yield ""

    with pytest.raises(DefinitionError, match="parameter 'other': it has no source"):
        tw.Agent("helper", instructions=many)
    with pytest.raises(DefinitionError, match="parameter 'customer': it has no source"):
        tw.Agent("helper", instructions=eval("lambda state, customer: customer"))  # without annotations
    with pytest.raises(
        DefinitionError, match="Tool 'look': available must be a function of the run's state, not 5"
    ):
        tw.tool(description="Look.", available=5)(look.handler)  # type: ignore[call-overload]  # input of a user
    with pytest.raises(DefinitionError, match="must return its value, not yield it"):
        tw.Agent("helper", instructions=yields)
    with pytest.raises(DefinitionError, match="Dynamic must be given a function of the run's state, not 3"):
        tw.Dynamic(3)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(DefinitionError, match="instructions must be text, not 3"):
        tw.Agent("helper", instructions=3)  # type: ignore[arg-type]  # as above
    assert dynamic.DYNAMIC_TIMEOUT == 30.0


# ── a run that another process continues ────────────────────────────────────────────────────────────────────

outside = tw.Tool(
    name="outside",
    description="Ask.",
    kind="external",
    timeout=600.0,
    parameters={"type": "object", "properties": {}},
)


def helper(text: object, is_open: object, model: Watched, *, within: bool = False) -> tw.App:
    """Return an app whose agent, or its prompt tool, has these instructions and a tool with this predicate."""
    tools = [outside, *tw.Toolset([look]).available(is_open)]  # type: ignore[arg-type]  # a function
    if not within:
        return tw.App(agents=[tw.Agent("helper", instructions=text, model=model, tools=tools)])  # type: ignore[arg-type]  # as above
    prompt = tw.Prompt("inner", text, model=model, tools=tools, tool_description="Ask.", expose_as_tool=True)  # type: ignore[arg-type]  # as above
    outer = tw.Prompt("outer", "Lead.", model=Watched([call("inner", message="Hi"), DONE]), tools=["inner"])
    return tw.App(agents=[tw.Agent("helper", outer)], prompts=[prompt])


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(("kind", "per_step"), [("sqlite", False), ("postgres", False), ("sqlite", True)])
async def test_a_run_goes_on_with_what_its_functions_have_returned(
    kind: str, per_step: bool, within: bool, tmp_path: Path
) -> None:
    async with database(kind, tmp_path) as url:
        prepare(url)
        settings = Settings(database_url=url, files_url="memory://", max_outage=timedelta(0))
        model = Watched([calls("outside", "look"), DONE])
        closed = tw.Dynamic(Counted(False), per_step=per_step)
        async with helper(Counted("One."), closed, model, within=within).runtime(settings, grace=1.0) as rt:
            run = await rt.threads.send((await rt.threads.create("helper")).id, "Go")
            [waiting] = await until(lambda: waits(rt, run.id))
        assert [each.system for each in model.requests] == ["One."]
        text, is_open = Counted("Two."), Counted(True)
        later = Watched([calls("outside", "look"), DONE])
        opened = tw.Dynamic(is_open, per_step=per_step)
        async with helper(text, opened, later, within=within).runtime(settings, grace=1.0) as rt:
            await rt.calls.submit(run.id, waiting.id, "Answer")
            run = await rt.runs.wait(run.id, 60)
            assert run.status == "completed", run.error
            refused = [each.content for each in later.requests[-1].messages if each.tool_name == "look"]
    assert (text.count, is_open.count) == (0, 1 if per_step else 0)
    assert [each.system for each in later.requests] == ["One."]
    assert "There is no tool 'look'" in refused[0]  # it was not available when it was called
    assert offered(later) == [["outside", "look"] if per_step else ["outside"]]


async def waits(rt: Runtime, run_id: str) -> Sequence[Call] | None:
    return await rt.calls.list(status=["waiting"], run_id=run_id) or None


async def exits_async(state: tw.ThreadState) -> str:
    raise SystemExit(3)


def exits(state: tw.ThreadState) -> str:
    raise SystemExit(3)


@pytest.mark.parametrize("function", [exits, exits_async])
async def test_a_function_that_ends_the_interpreter_fails_the_run_alone(function: Any) -> None:
    agent = tw.Agent("tester", instructions=function, model=Watched([DONE]))
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("tester")
        run = await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 60)
        assert (run.status, run.error_code) == ("failed", "function_failed")
