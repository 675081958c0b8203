"""`tw.run(…, approve=…)`: the caller of a run answers for its calls; and runs whose calls no one answers."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from toolwright.core.errors import InvalidRequest, RunFailed
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tw.tool(requires_approval=True)
def pay(to: str, euros: int) -> str:
    """Pay somebody."""
    return f"Paid {euros} to {to}"


@tw.tool(variables=[tw.Variable("KEY", type="secret")])
async def look(state: tw.ThreadState) -> str:
    """Look something up."""
    return str(await state.env("KEY"))[:2]


PAYS = {"calls": [{"name": "pay", "args": {"to": "Ann", "euros": 5}}]}


def clerk(*turns: dict[str, Any], tool: tw.Tool = pay) -> tw.Agent:
    model = ScriptedModel([*turns, {"text": "Well."}])
    return tw.Agent("clerk", model=model, tools=[tool], expose_as_tool=True, tool_description="Pays.")


def result_of(result: tw.RunResult) -> object:
    [call] = result.calls
    assert call.result is not None
    return call.result.error or call.result.result


async def test_an_edit_that_the_tool_does_not_take_is_asked_for_again_with_the_reason() -> None:
    reasons: list[str | None] = []

    def approve(call: tw.CallWaiting) -> dict[str, Any]:
        reasons.append(call.error)
        return {"approved": True, "args": {"to": "Bob", "euros": "1" if call.error is None else 1}}

    assert result_of(await tw.run(clerk(PAYS), "Pay.", approve=approve)) == "Paid 1 to Bob"
    async with tw.stream(clerk(PAYS), "Pay.", approve=approve) as stream:
        [done] = [event async for event in stream if isinstance(event, tw.CallDone)]
    assert done.result.result == "Paid 1 to Bob"
    rejected = "The tool does not take these arguments: euros: must be an integer, not a string."
    assert reasons == [None, rejected, None, rejected]


async def test_edits_that_the_tool_never_takes_raise_an_error_that_names_the_call_and_its_paths() -> None:
    with pytest.raises(InvalidRequest) as refused:
        await tw.run(clerk(PAYS), "Pay.", approve=lambda _: {"approved": True, "args": {"to": 7}})
    assert refused.value.message.startswith(
        "approve gave no valid answer for the call 'pay': The tool does not"
    )
    assert {each["path"] for each in refused.value.details} == {"result.args.to", "result.args.euros"}


async def later(call: tw.CallWaiting) -> bool:
    await asyncio.sleep(0)
    return call.arguments == {"to": "Ann", "euros": 5}


async def yes(_: tw.CallWaiting) -> bool:
    return True


def answering(answer: Any) -> Callable[[tw.CallWaiting], Any]:
    """Return a function that records its calls, and returns this answer."""

    def approve(_: tw.CallWaiting) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return approve


def at_once_and_later(call: tw.CallWaiting) -> Awaitable[bool]:
    return later(call)


@pytest.mark.parametrize(
    ("approve", "wanted"),
    [
        (answering(True), "Paid 5 to Ann"),
        (answering(False), "The call was not approved."),
        (answering({"approved": False, "reason": "too much"}), "The call was not approved: too much"),
        (answering({"approved": True, "args": {"to": "Bob", "euros": 1}}), "Paid 1 to Bob"),
        (later, "Paid 5 to Ann"),
        (at_once_and_later, "Paid 5 to Ann"),
    ],
)
async def test_its_answer_is_taken(approve: Callable[[tw.CallWaiting], Any], wanted: str) -> None:
    result = await tw.run(clerk(PAYS), "Pay.", approve=approve)
    assert (result_of(result), result.output) == (wanted, "Well.")


def test_each_call_is_asked_about_in_order_also_in_code_that_is_not_async() -> None:
    asked: list[object] = []

    def approve(call: tw.CallWaiting) -> bool:
        asked.append(call.arguments)
        return True

    calls = [{"name": "pay", "args": {"to": name, "euros": 1}} for name in ("Ann", "Bob", "Cyd")]
    result = tw.run_sync(clerk({"calls": calls}), "Pay.", approve=approve)
    assert asked == [call["args"] for call in calls]
    paid = [tw.ToolResult.ok(f"Paid 1 to {name}") for name in ("Ann", "Bob", "Cyd")]
    assert [call.result for call in result.calls] == paid


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ("yes", InvalidRequest, "approve must return True, False or"),
        ({"approved": True, "args": {"to": 7}}, InvalidRequest, "to: must be a string"),
        ({"approved": True, "sure": 1}, InvalidRequest, "sure is not known"),
        (LookupError("No idea."), LookupError, "No idea"),
    ],
)
async def test_an_invalid_answer_ends_the_run_with_a_message(
    answer: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await tw.run(clerk(PAYS), "Pay.", approve=answering(answer))


async def test_what_cannot_be_asked_is_refused_before_anything_runs() -> None:
    wrong: Any = "yes"
    with pytest.raises(
        InvalidRequest, match="approve must be a function that takes the waiting call, not 'yes'"
    ):
        await tw.run(clerk(PAYS), "Pay.", approve=wrong)


async def test_in_memory_a_run_that_cannot_be_approved_ends_with_a_message() -> None:
    with pytest.raises(InvalidRequest, match=r"waits for an approval\. Pass approve="):
        await tw.run(clerk(PAYS), "Pay.")


@pytest.mark.parametrize("approve", [None, yes])
async def test_in_memory_a_run_with_missing_values_ends_with_a_message(approve: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"waits for missing variables. Pass env=\{…\} with KEY"):
        await tw.run(clerk({"calls": [{"name": "look", "args": {}}]}, tool=look), "Look.", approve=approve)


async def test_values_that_are_given_are_not_waited_for() -> None:
    agent = clerk({"calls": [{"name": "look", "args": {}}]}, tool=look)
    assert result_of(await tw.run(agent, "Look.", env={"KEY": "sk-0123456789"})) == "sk"


async def test_on_a_database_others_may_approve(tmp_path: Path) -> None:
    agent, url = clerk(PAYS), f"sqlite:///{tmp_path / 'journal.db'}"
    app = tw.App(agents=[agent])
    running = asyncio.create_task(tw.run(agent, "Pay.", app=app, database_url=url))
    async with tw.stream("clerk", "Pay, too.", app=app, database_url=url) as other:
        async for event in other:
            if isinstance(event, tw.CallWaiting):
                await other.submit(event.call_id, {"approved": False})
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_run_that_fails_while_someone_is_asked_is_not_waited_for() -> None:
    async def never(_: tw.CallWaiting) -> bool:
        await asyncio.Event().wait()
        return True

    with pytest.raises(TimeoutError):
        await tw.run(clerk(PAYS), "Pay.", approve=never, timeout=0.2)
    failing = tw.Agent("failing", model=ScriptedModel([]), tools=[pay])
    with pytest.raises(RunFailed):
        await tw.run(failing, "Pay.", approve=never)


@tw.tool
async def ask(state: tw.ThreadState) -> str:
    """Ask a person."""
    return str((await state.elicit("Sure?")).action)


@tw.tool
async def pay_within(state: tw.ThreadState) -> str:
    """Pay by another tool."""
    return str((await state.invoke_tool("pay", {"to": "Ann", "euros": 5})).result)


def chief() -> tw.Agent:
    """Return an agent whose child waits for an approval."""
    child = tw.SubagentToolConfig(name="clerk")
    turns: list[object] = [{"calls": [{"name": "clerk", "args": {"message": "Pay."}}]}, {"text": "Well."}]
    return tw.Agent("chief", model=ScriptedModel(turns), tools=[child])


def calling(name: str, *tools: tw.Tool) -> tw.Agent:
    turns: list[object] = [{"calls": [{"name": name, "args": {}}]}, {"text": "Well."}]
    return tw.Agent("clerk", model=ScriptedModel(turns), tools=[*tools])


AGENTS: dict[str, tuple[Callable[[], tw.App], str]] = {
    "an approval": (
        lambda: tw.App(agents=[clerk(PAYS)]),
        "waits for an approval. Pass approve=",
    ),
    "an approval within a handler": (
        lambda: tw.App(agents=[calling("pay_within", pay_within, pay)]),
        "waits for an approval. Pass approve=",
    ),
    "a child's approval": (
        lambda: tw.App(agents=[chief(), clerk(PAYS)]),
        "waits for an approval. Pass approve=",
    ),
    "values": (lambda: tw.App(agents=[calling("look", look)]), "waits for missing variables"),
    "a person's answer": (
        lambda: tw.App(agents=[calling("ask", ask)]),
        "waits for a person's answer to a question",
    ),
}


async def by_run(app: tw.App) -> None:
    await tw.run(app.catalog.agents[0].name, "Go.", app=app)


async def by_run_sync(app: tw.App) -> None:
    await asyncio.to_thread(functools.partial(tw.run_sync, app.catalog.agents[0].name, "Go.", app=app))


async def by_stream(app: tw.App) -> None:
    async with tw.stream(app.catalog.agents[0].name, "Go.", app=app) as stream:
        async for _ in stream:
            pass


async def by_plain_for(app: tw.App) -> None:
    await asyncio.to_thread(lambda: [*tw.stream(app.catalog.agents[0].name, "Go.", app=app)])


@pytest.mark.parametrize("way", [by_run, by_run_sync, by_stream, by_plain_for])
@pytest.mark.parametrize("waits_for", AGENTS)
async def test_in_memory_a_run_that_waits_for_unavailable_values_ends_with_a_sentence(
    way: Callable[[tw.App], Awaitable[None]], waits_for: str
) -> None:
    app, words = AGENTS[waits_for]
    with pytest.raises(InvalidRequest, match=words):
        await way(app())


@pytest.mark.parametrize("waits_for", ["an approval", "an approval within a handler", "a child's approval"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_approve_is_asked_wherever_in_the_run_an_approval_is_missing(
    waits_for: str, streamed: bool
) -> None:
    app, asked = AGENTS[waits_for][0](), list[object]()

    def approve(call: tw.CallWaiting) -> bool:
        asked.append((call.name, call.arguments, call.reason))
        return True

    name = app.catalog.agents[0].name
    if streamed:
        async with tw.stream(name, "Go.", app=app, approve=approve) as stream:
            waits = [each for each in [each async for each in stream] if isinstance(each, tw.CallWaiting)]
            assert [each.name for each in waits if each.reason == "approval"] == ["pay"]
            result = await stream.result()
    else:
        result = await tw.run(name, "Go.", app=app, approve=approve)
    assert (asked, result.output) == ([("pay", {"to": "Ann", "euros": 5}, "approval")], "Well.")


ANSWERS: dict[str, object] = {
    "an approval": {"approved": True},
    "an approval within a handler": {"approved": True},
    "a child's approval": {"approved": True},
    "a person's answer": {"action": "accept", "content": {}},
}


@pytest.mark.parametrize("waits_for", ANSWERS)
async def test_the_reader_of_a_stream_answers_in_the_loop(waits_for: str) -> None:
    app, answered = AGENTS[waits_for][0](), list[str]()
    async with tw.stream(app.catalog.agents[0].name, "Go.", app=app) as stream:
        async for event in stream:
            if isinstance(event, tw.CallWaiting) and event.reason != "child":
                answered.append(event.name)
                await stream.submit(event.call_id, ANSWERS[waits_for])  # type: ignore[arg-type]  # JSON
        result = await stream.result()
    assert (len(answered), result.output) == (1, "Well.")


@pytest.mark.parametrize("waits_for", ANSWERS)
@pytest.mark.parametrize("in_a_loop", [True, False])
def test_a_plain_for_answers_too(waits_for: str, in_a_loop: bool) -> None:
    app = AGENTS[waits_for][0]()

    def read() -> object:
        stream, output = tw.stream(app.catalog.agents[0].name, "Go.", app=app), None
        for event in stream:
            if isinstance(event, tw.CallWaiting) and event.reason != "child":
                stream.submit(event.call_id, ANSWERS[waits_for])  # type: ignore[arg-type]  # JSON
            if isinstance(event, tw.RunDone):
                output = event.result.output
        return output

    async def within() -> object:
        return read()

    assert (asyncio.run(within()) if in_a_loop else read()) == "Well."


@pytest.mark.parametrize("way", [by_stream, by_plain_for])
async def test_a_failed_stream_raises_after_its_last_event(way: Callable[[tw.App], Awaitable[None]]) -> None:
    with pytest.raises(RunFailed) as failed:
        await way(tw.App(agents=[tw.Agent("failing", model=ScriptedModel([]))]))
    assert failed.value.result.status == "failed"


async def test_the_last_event_of_a_failed_stream_comes_before_it_raises() -> None:
    last: tw.RunEvent | None = None
    async with tw.stream(tw.Agent("failing", model=ScriptedModel([])), "Go.") as stream:
        with pytest.raises(RunFailed):
            async for event in stream:
                last = event
    assert isinstance(last, tw.RunDone)


async def test_what_approve_raises_ends_the_stream() -> None:
    with pytest.raises(LookupError, match="No idea"):
        async with tw.stream(clerk(PAYS), "Pay.", approve=answering(LookupError("No idea."))) as stream:
            async for _ in stream:
                pass
    wrong: Any = "yes"
    with pytest.raises(InvalidRequest, match="approve must be a function"):
        tw.stream(clerk(PAYS), "Pay.", approve=wrong)


async def test_calls_that_wait_at_the_same_time_are_each_told_and_answered_once() -> None:
    @tw.tool(read_only=True, requires_approval=True)
    def read(n: int) -> str:
        """Read something secret."""
        return f"read {n}"

    outside = tw.Tool(
        name="outside",
        description="Ask outside.",
        kind="external",
        read_only=True,
        timeout=20.0,
        visible=False,
    )
    calls: list[dict[str, Any]] = [
        {"name": "read", "args": {"n": 1}},
        {"name": "outside", "args": {}},
        {"name": "read", "args": {"n": 2}},
    ]
    model = ScriptedModel([{"calls": calls}, {"text": "Well."}])
    agent = tw.Agent("clerk", model=model, tools=[read, outside], parallel=4)
    told: list[tuple[str, str]] = []
    async with tw.stream(agent, "Go") as stream:
        async for event in stream:
            if isinstance(event, tw.CallWaiting):
                told.append((event.name, event.reason))
                await stream.submit(
                    event.call_id, {"approved": True} if event.reason == "approval" else "a result"
                )
    assert sorted(told) == [("outside", "calls"), ("read", "approval"), ("read", "approval")]


async def test_approve_is_asked_of_every_call_that_waits_at_the_same_time() -> None:
    asked: list[object] = []

    @tw.tool(read_only=True, requires_approval=True)
    def read(n: int) -> str:
        """Read something secret."""
        return f"read {n}"

    async def approve(call: tw.CallWaiting) -> bool:
        asked.append(call.arguments)
        return True

    calls = [{"name": "read", "args": {"n": n}} for n in (1, 2)]
    agent = tw.Agent(
        "clerk", model=ScriptedModel([{"calls": calls}, {"text": "Well."}]), tools=[read], parallel=2
    )
    result = await tw.run(agent, "Go", approve=approve)
    assert asked == [{"n": 1}, {"n": 2}]
    assert [each.result.result for each in result.calls if each.result is not None] == ["read 1", "read 2"]
