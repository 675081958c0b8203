"""Who is allowed to answer pending calls: people by the kinds of calls, their terms and where they are made (D24)."""

import asyncio
from typing import Any, Literal, TypeAlias

import pytest

import toolwright as tw
from tests.api.rig import JSON
from tests.api.test_people_and_agents import SERVICE, Crowd, crowd
from toolwright.core.threads.event import Topic
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

Where: TypeAlias = Literal["own thread", "a space"]
TERMS: dict[str, Any] = {
    "anyone": "anyone",
    "service": "service",
    "person": "person",
    "ada": ["user-ada"],
    "bob": ["user-bob"],
}
# the answer to a caller who is allowed to answer the call in its own run
OTHERS = "This tool call belongs to another run."


def asked_on(terms: str, *, visible: bool) -> tw.Tool:
    @tw.tool(name="pay", requires_approval=tw.Approval(by=TERMS[terms]), visible=visible)
    async def pay() -> str:
        """Pay money back."""
        return "Paid."

    return pay


def asking() -> tw.Tool:
    @tw.tool(name="pay")
    async def pay(state: tw.ThreadState) -> str:
        """Ask and pay."""
        return (await state.elicit("Really?")).action

    return pay


def outside(*, visible: bool) -> tw.Tool:
    return tw.Tool(
        name="pay",
        description="Pay.",
        kind="space" if visible else "external",
        visible=visible,
        timeout=60.0,
        parameters={"type": "object"},
    )


KINDS: dict[str, tw.Tool] = {
    **{f"approval, {terms}": asked_on(terms, visible=False) for terms in TERMS},
    **{f"visible approval, {terms}": asked_on(terms, visible=True) for terms in TERMS},
    "question": asking(),
    "outside": outside(visible=False),
    "visible outside": outside(visible=True),
}
_NAMED: dict[str, set[str]] = {
    "service": {"service"},
    "person": {"ada", "bob"},
    "ada": {"ada"},
    "bob": {"bob"},
}


def allowed(kind: str, where: Where) -> set[str]:
    """Return who can answer a call of that kind: in Ada's own thread, or of an agent in a space of hers.

    Bob sees neither.
    """
    shown = kind.startswith("visible") or (kind == "question" and where == "a space")
    sees = {"service", "ada"} if where == "own thread" or shown else {"service"}
    if named := _NAMED.get(kind.rpartition(", ")[2]):
        return sees & named
    if where == "own thread":
        return {"service"} if "outside" in kind else sees
    return sees


async def open_call(made: Crowd, where: Where) -> JSON:
    """Return the pending call, as a service reads it."""
    if where == "own thread":
        thread = (await made.open("ada", "clerk"))["thread"]["id"]
        sent = await made.ask("ada", f"/api/threads/{thread}/messages", {"content": "Go"}, 202)
        run_id = str(sent["runId"])
    else:
        await made.rt.spaces.create("Tea", id="tea", members=[made.ids["ada"], "clerk"])
        spoken = await made.rt.spaces.say("tea", made.ids["ada"], "Go")
        run_id = next(iter(spoken.runs.values()))
    async with asyncio.timeout(30):
        async for _ in made.rt.events.follow(Topic(kind="run", id=run_id), after=0):
            calls = (await made.ask(SERVICE, f"/api/calls?runId={run_id}"))["calls"]
            if calls:
                return calls[-1]
    raise AssertionError


def app(kind: str, where: Where) -> tw.App:
    enters: list[Any] = [{"name": "enter_space", "args": {"spaceId": "tea"}}] if where == "a space" else []
    model = ScriptedModel([{"calls": [*enters, {"name": "pay"}]}, {"text": "Done."}])
    toolkits = ["spaces"] if where == "a space" else []
    return tw.App(
        agents=[
            tw.Agent(
                "clerk",
                instructions="Pay.",
                model=model,
                tools=[KINDS[kind]],
                toolkits=toolkits,
                open_to="everyone",
            )
        ]
    )


@pytest.mark.parametrize("where", ["own thread", "a space"])
@pytest.mark.parametrize("kind", KINDS)
async def test_who_may_answer(kind: str, where: Where) -> None:
    async with crowd(app(kind, where)) as made:
        call = await open_call(made, where)
        may = set[str]()
        for who in ("service", "ada", "bob"):
            headers: Any = SERVICE if who == "service" else who
            status = 403 if (who in _sees(kind, where)) else 404
            answer = {"callId": call["callId"], "result": 1}
            shown = await made.ask(headers, "/api/runs/run_x/tool-results", answer, status)
            may |= {who} if shown["error"] == OTHERS else set()
        assert may == allowed(kind, where)


def _sees(kind: str, where: Where) -> set[str]:
    shown = kind.startswith("visible") or kind == "question"
    return {"service", "ada"} if where == "own thread" or shown else {"service"}


@pytest.mark.parametrize("kind", ["approval, anyone", "question"])
async def test_a_person_answers_in_their_own_thread(kind: str) -> None:
    async with crowd(app(kind, "own thread")) as made:
        call = await open_call(made, "own thread")
        run_id = str(call["runId"])
        answer: Any = (
            {"approved": True} if kind.startswith("approval") else {"action": "accept", "content": {}}
        )
        path, submission = f"/api/runs/{run_id}/tool-results", {"callId": call["callId"], "result": answer}
        await made.ask("bob", path, submission, 404)
        await made.ask("ada", path, submission)
        assert (await made.rt.runs.wait(run_id, 30)).status == "completed"
