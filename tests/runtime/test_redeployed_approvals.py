"""Approvals over a new deployment: one for another definition of the tool is asked for again."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from toolwright.core.threads.call import Call
from toolwright.core.threads.event import Topic
from toolwright.runtime.runtime import Runtime
from toolwright.testing import FunctionModel
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

YES: Any = {"approved": True}
DONE: list[str] = []


def answer(messages: Any) -> dict[str, Any]:
    if messages[-1].role == "tool":
        return {"text": messages[-1].content}
    return {"calls": [{"name": "act", "args": {"amount": 5}}]}


class Asking(tw.Hooks):
    """A hook that has a service approve each call."""

    def before_call(self, event: tw.BeforeCall, /) -> tw.Ask:
        return tw.Ask(tw.Approval(by="service", edit=False))


def app(
    description: str, requirement: Any = True, name: str = "clerk", *, is_hooked: bool = False, **options: Any
) -> tw.App:
    @tw.tool(name="act", description=description, requires_approval=requirement, **options)
    async def act(amount: int) -> str:
        DONE.append(description)
        return f"{description} {amount}"

    model = FunctionModel(answer)
    agent = tw.Agent(name, instructions="Act.", model=model, tools=[act])
    return tw.App(agents=[agent], hooks=[Asking()] if is_hooked else [])


@asynccontextmanager
async def deployed(folder: Path, made: tw.App, *, work: bool = True) -> AsyncGenerator[Runtime]:
    settings = Settings(database_url=f"sqlite:///{folder}/journal.db", work=work)
    async with made.runtime(settings, grace=1.0) as rt:
        yield rt


async def asked(rt: Runtime, run_id: str) -> Call:
    _, wait = await rt.runs.wait_for_input(run_id)
    assert wait is not None and wait.call is not None and wait.reason == "approval"
    return wait.call


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncGenerator[Call]:
    """A call of `Pay` that waits for its approval, in a database without a process."""
    DONE.clear()
    async with deployed(tmp_path, app("Pay", tw.Approval(expires_in=3_600))) as rt:
        thread = await rt.threads.create("clerk")
        run = await rt.threads.send(thread.id, "Go")
        call = await asked(rt, run.id)
    yield call


def never(arguments: Any) -> bool:
    return False


async def test_an_approval_of_pay_does_not_delete_everything(tmp_path: Path, waiting: Call) -> None:
    changed = app("Delete everything", tw.Approval(by="service", edit=False))
    async with deployed(tmp_path, changed) as rt:
        with pytest.raises(tw.errors.DefinitionChanged, match="has changed since the call asked"):
            await rt.calls.submit(waiting.run_id, waiting.id, YES)
        call = await asked(rt, waiting.run_id)
        assert (call.status, call.approval, call.decisions, DONE) == ("waiting", "asked", (), [])
        assert call.terms is not None and waiting.terms is not None
        assert (call.terms["by"], call.terms["edit"], call.expires_at) == ("service", False, None)
        assert call.terms["definition"] != waiting.terms["definition"]
        events = await rt.events.list(Topic(kind="run", id=call.run_id))
        waits = [each.payload for each in events if each.type == "tool.waiting"]
        assert [each.get("definitionChanged") for each in waits] == [None, True]
        await rt.calls.submit(call.run_id, call.id, YES)
        assert (await rt.runs.wait(call.run_id, 10)).output == "Delete everything 5"
        [decision] = (await rt.calls.get(call.id)).decisions
        assert decision["definitionHash"] == call.terms["definition"]


async def test_a_refusal_is_accepted_whatever_the_tool_is_now(tmp_path: Path, waiting: Call) -> None:
    async with deployed(tmp_path, app("Delete everything")) as rt:
        await rt.calls.submit(waiting.run_id, waiting.id, {"approved": False})
        assert "not approved" in str((await rt.runs.wait(waiting.run_id, 10)).output)
    assert DONE == []


@pytest.mark.parametrize("requirement", [True, None, never], ids=["all", "none", "when"])
async def test_an_approval_given_before_the_deployment_is_not_used_after_it(
    tmp_path: Path, waiting: Call, requirement: Any
) -> None:
    async with deployed(tmp_path, app("Pay"), work=False) as rt:
        await rt.calls.submit(waiting.run_id, waiting.id, YES, by="ann")
        assert (await rt.calls.get(waiting.id)).status == "created"
    async with deployed(tmp_path, app("Delete everything", requirement)) as rt:
        call = await asked(rt, waiting.run_id)
        assert DONE == [] and call.terms is not None
        assert call.expires_at is not None if requirement is None else call.expires_at is None
        await rt.calls.submit(call.run_id, call.id, YES, by="bob")
        assert (await rt.runs.wait(call.run_id, 10)).output == "Delete everything 5"
        decisions: list[Any] = [*(await rt.calls.get(call.id)).decisions]
        assert [each["by"]["id"] for each in decisions] == ["ann", "bob"]
        assert decisions[0]["definitionHash"] != decisions[1]["definitionHash"]


async def test_the_same_definition_with_other_code_needs_no_second_approval(
    tmp_path: Path, waiting: Call
) -> None:
    async with deployed(tmp_path, app("Pay", tw.Approval(by="person"), timeout=5.0)) as rt:
        await rt.calls.submit(waiting.run_id, waiting.id, YES)
        assert (await rt.runs.wait(waiting.run_id, 10)).output == "Pay 5"


async def test_processes_that_disagree_about_a_definition_ask_once_more_and_no_further(
    tmp_path: Path, waiting: Call
) -> None:
    """The executing process decides: an answering process of the other version cannot block the call."""
    async with deployed(tmp_path, app("Pay (in another process)"), work=False) as other:
        with pytest.raises(tw.errors.DefinitionChanged):
            await other.calls.submit(waiting.run_id, waiting.id, YES)
    async with deployed(tmp_path, app("Pay")) as rt:
        await asked(rt, waiting.run_id)
    async with deployed(tmp_path, app("Pay (in another process)"), work=False) as other:
        await other.calls.submit(waiting.run_id, waiting.id, YES)
    async with deployed(tmp_path, app("Pay")) as rt:
        assert (await rt.runs.wait(waiting.run_id, 10)).output == "Pay 5"


async def test_a_tool_that_is_gone_is_unknown_as_before(tmp_path: Path, waiting: Call) -> None:
    bare = tw.App(agents=[tw.Agent("clerk", instructions="Act.", model=FunctionModel(answer))])
    async with deployed(tmp_path, bare) as rt:
        await rt.calls.submit(waiting.run_id, waiting.id, YES)
        assert "act" in str((await rt.runs.wait(waiting.run_id, 10)).output)


def hash_of(config: dict[str, Any]) -> str:
    full = {"name": "act", "description": "Pay", "inputSchema": {"type": "object"}, **config}
    return tw.Tool.from_config(full).definition_hash


def test_what_a_definition_is() -> None:
    plain: dict[str, Any] = {"executionType": "gateway", "execution": {"url": "https://a.example/pay"}}
    assert hash_of(plain) == hash_of({**plain, "timeout": 1000, "requiresApproval": True})
    others: list[dict[str, Any]] = [
        {**plain, "execution": {"url": "https://b.example/pay"}},
        {**plain, "execution": {"url": "https://a.example/pay", "method": "PUT"}},
        {**plain, "description": "Refund"},
        {**plain, "inputSchema": {"type": "object", "properties": {"a": {}}}},
        {"executionType": "external"},
    ]
    hashes = [hash_of(plain), *map(hash_of, others)]
    assert len({*hashes}) == len(hashes) and all(len(each) == 32 for each in hashes)


async def test_a_call_that_a_hook_has_asked_about_keeps_its_terms_and_its_verdict(tmp_path: Path) -> None:
    DONE.clear()
    async with deployed(tmp_path, app("Pay", None, is_hooked=True)) as rt:
        thread = await rt.threads.create("clerk")
        waiting = await asked(rt, (await rt.threads.send(thread.id, "Go")).id)
    async with deployed(tmp_path, app("Delete everything", None, is_hooked=True)) as rt:
        with pytest.raises(tw.errors.DefinitionChanged):
            await rt.calls.submit(waiting.run_id, waiting.id, YES)
        call = await asked(rt, waiting.run_id)
        assert call.terms is not None
        assert (call.terms["by"], call.terms["edit"], DONE) == ("service", False, [])
        await rt.calls.submit(call.run_id, call.id, YES)
        assert (await rt.runs.wait(call.run_id, 10)).output == "Delete everything 5"
        assert [each.ruling for each in await rt.runs.verdicts(call.run_id)] == ["asked"]
