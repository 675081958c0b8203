"""`tw.run(…, approve=…)`: whoever begins a run answers about its calls; and runs that wait for nobody."""

import asyncio
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
    return tw.Agent("clerk", model=ScriptedModel([*turns, {"text": "Well."}]), tools=[tool])


def result_of(result: tw.RunResult) -> object:
    [call] = result.calls
    assert call.result is not None
    return call.result.error or call.result.result


async def later(call: tw.CallWaiting) -> bool:
    await asyncio.sleep(0)
    return call.arguments == {"to": "Ann", "euros": 5}


async def yes(_: tw.CallWaiting) -> bool:
    return True


def answering(answer: Any) -> Callable[[tw.CallWaiting], Any]:
    """A function that is asked, and has this answer."""

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
        ("yes", InvalidRequest, "approve= answers about 'pay' with true, false or"),
        ({"approved": True, "args": {"to": 7}}, InvalidRequest, "to: must be a string"),
        ({"approved": True, "sure": 1}, InvalidRequest, "sure is not known"),
        (LookupError("No idea."), LookupError, "No idea"),
    ],
)
async def test_an_answer_that_is_none_ends_the_run_in_words(
    answer: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await tw.run(clerk(PAYS), "Pay.", approve=answering(answer))


async def test_what_cannot_be_asked_is_refused_before_anything_runs() -> None:
    wrong: Any = "yes"
    with pytest.raises(InvalidRequest, match="approve= is a function of a call that waits, not 'yes'"):
        await tw.run(clerk(PAYS), "Pay.", approve=wrong)


async def test_in_memory_a_run_that_nobody_can_approve_ends_in_words() -> None:
    with pytest.raises(
        InvalidRequest, match="waits for an approval, which nobody can give here: pass approve="
    ):
        await tw.run(clerk(PAYS), "Pay.")


@pytest.mark.parametrize("approve", [None, yes])
async def test_in_memory_a_run_whose_values_nobody_gives_ends_in_words(approve: Any) -> None:
    with pytest.raises(
        InvalidRequest, match=r"waits for values that nobody has given: pass env=\{…\} with KEY"
    ):
        await tw.run(clerk({"calls": [{"name": "look", "args": {}}]}, tool=look), "Look.", approve=approve)


async def test_values_that_are_given_are_waited_for_by_nobody() -> None:
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


async def test_a_run_that_fails_while_somebody_is_asked_is_not_waited_for() -> None:
    async def never(_: tw.CallWaiting) -> bool:
        await asyncio.Event().wait()
        return True

    with pytest.raises(TimeoutError):
        await tw.run(clerk(PAYS), "Pay.", approve=never, timeout=0.2)
    failing = tw.Agent("failing", model=ScriptedModel([]), tools=[pay])
    with pytest.raises(RunFailed):
        await tw.run(failing, "Pay.", approve=never)
