"""Approvals over HTTP: how a call shows that it waits for one, and whose answer is accepted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import JSON, serving
from tests.api.town import ADA, BOB, SERVICE, Town, town
from tests.kit import call
from toolwright.client import Client
from toolwright.core.journal.store import CallScope, Store
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.threads.event import Topic
from toolwright.core.tools.approval import Requirement
from toolwright.testing import MemoryBus, MemoryStore, ScriptedModel

pytestmark = pytest.mark.anyio


def guarded(requirement: Requirement = True, **options: Any) -> tw.Tool:  # options of `tool`
    @tw.tool(name="ask_outside", requires_approval=requirement, **options)
    async def ask(user_name: str) -> str:
        """Ask."""
        return f"Asked {user_name}"

    return ask


def model() -> ScriptedModel:
    return ScriptedModel([call("ask_outside", user_name="Ada"), {"text": "Thanks."}])


async def test_a_call_shows_that_it_waits_and_is_answered_over_the_result_route() -> None:
    async with serving(model(), [guarded(tw.Approval(expires_in=60))]) as api:
        run_id, call_id = await api.waiting()
        run = (await api.get(f"/api/runs/{run_id}"))["run"]
        assert (run["status"], run["waiting"]) == ("waiting", {"reason": "approval", "callIds": [call_id]})
        [call] = (await api.get("/api/calls"))["calls"]
        assert (call["status"], call["approval"]) == ("waiting", True)
        assert call["approvalTerms"] == {"by": "anyone", "edit": True, "reason": True}
        assert call["expiresAt"] is not None
        place = f"/api/runs/{run_id}/tool-results"
        faulty = await api.post(place, {"callId": call_id, "result": {"approved": 1}}, 400)
        assert faulty["details"] == [{"path": "result.approved", "message": "must be true or false"}]
        await api.post(place, {"callId": call_id, "error": "No."}, 400)
        args = {"approved": True, "args": {"user_name": 7}}
        faulty = await api.post(place, {"callId": call_id, "result": args}, 400)
        [detail] = faulty["details"]
        assert detail == {"path": "result.args.user_name", "message": "must be a string, not a number"}
        answer = {"callId": call_id, "result": {"approved": True, "args": {"user_name": "Bob"}}}
        await api.post(place, answer)
        assert (await api.post(place, answer, 409))["error"] == "Tool call already approved"
        await api.rig.rt.runs.wait(run_id, 10)
        call = (await api.get(f"/api/calls/{call_id}"))["call"]
        assert (call["args"], call["result"], "approval" in call) == (
            {"user_name": "Bob"},
            "Asked Bob",
            False,
        )


async def test_edited_arguments_are_a_400_where_the_terms_say_so() -> None:
    async with serving(model(), [guarded(tw.Approval(edit=False))]) as api:
        run_id, call_id = await api.waiting()
        place = f"/api/runs/{run_id}/tool-results"
        answer = {"approved": True, "args": {"user_name": "Bob"}}
        faulty = await api.post(place, {"callId": call_id, "result": answer}, 400)
        assert [each["path"] for each in faulty["details"]] == ["result.args"]
        await api.post(f"/api/calls/{call_id}/claim", {"worker": "w", "leaseMs": 5_000}, 409)
        await api.post(place, {"callId": call_id, "result": {"approved": False, "reason": "no"}})
        await api.rig.rt.runs.wait(run_id, 10)
        call = (await api.get(f"/api/calls/{call_id}"))["call"]
        assert (call["status"], call["toolStatus"]) == ("resolved", "error")
        assert call["result"] == {"error": "The call was not approved: no", "error_code": "not_approved"}


async def test_the_client_reads_and_answers_it() -> None:
    async with serving(model(), [guarded()]) as api:
        run_id, call_id = await api.waiting()
        async with Client(f"http://127.0.0.1:{api.port}") as client:
            [call] = await client.calls.list(run_id=run_id)
            assert (call.approval, call.approval_terms) == (
                True,
                {"by": "anyone", "edit": True, "reason": True},
            )
            await client.calls.submit(run_id, call_id, {"approved": True})
            assert (await api.rig.rt.runs.wait(run_id, 10)).status == "completed"
            assert (await client.calls.get(call_id)).approval is None


async def statuses(made: Town, *callers: dict[str, str]) -> list[int]:
    """Return the status that each caller receives when it approves the call, one after another."""
    place = f"/api/runs/{made.ids['run_id']}/tool-results"
    body: JSON = {"callId": made.ids["call_id"], "result": {"approved": True}}
    answers = [await made.api.client.post(place, headers=each, json=body) for each in callers]
    return [each.status_code for each in answers]


@pytest.mark.parametrize(
    ("by", "callers", "told"),
    [
        ("anyone", [BOB, ADA, SERVICE], [404, 200, 409]),
        ("service", [BOB, ADA, SERVICE], [404, 403, 200]),
        ("person", [BOB, SERVICE, ADA], [404, 403, 200]),
        (["user-ada"], [BOB, SERVICE, ADA], [404, 403, 200]),
        (["user-bob"], [SERVICE, ADA, BOB], [403, 403, 404]),
    ],
)
async def test_who_may_approve_a_call_in_their_thread(
    by: Any, callers: list[dict[str, str]], told: list[int]
) -> None:
    async with town(model=model(), tools=[guarded(tw.Approval(by=by))]) as made:
        assert await statuses(made, *callers) == told
        assert (await made.api.rig.rt.calls.get(made.ids["call_id"])).awaits_approval == (200 not in told)


@pytest.mark.parametrize(
    ("by", "callers", "told"),
    [
        ("anyone", [BOB, ADA], [404, 200]),
        ("service", [ADA, SERVICE], [403, 200]),
        ("person", [SERVICE, BOB, ADA], [403, 404, 200]),
        (["user-ada"], [SERVICE, ADA], [403, 200]),
        (["user-bob"], [ADA], [403]),
    ],
)
async def test_who_may_approve_a_visible_call_in_a_space(
    by: Any, callers: list[dict[str, str]], told: list[int]
) -> None:
    turns = [
        call("enter_space", spaceId="den"),
        call("ask_outside", user_name="x"),
        {"text": "Thanks."},
    ]
    tools = [guarded(tw.Approval(by=by), visible=True)]
    async with serving_town(ScriptedModel(turns), tools) as made:
        rt = made.api.rig.rt
        [ada] = [each for each in await rt.entities.list() if each.external_id == "user-ada"]
        agent = await rt.agents.get("tester")
        await rt.spaces.create("Den", id="den", members=[ada.id, agent.entity_id])
        said = await rt.spaces.say("den", ada.id, "Go")
        run_id = next(iter(said.runs.values()))
        await made.api.until(run_id, "run.waiting")
        [each_call] = [each for each in await rt.calls.list(run_id=run_id) if each.awaits_approval]
        made.ids |= {"run_id": run_id, "call_id": each_call.id}
        assert each_call.space_id == "den"
        assert await statuses(made, *callers) == told


def serving_town(scripted: ScriptedModel, tools: list[tw.Tool]) -> Any:  # the same type as `town`
    return town(model=scripted, tools=tools, agent_options={"toolkits": ["spaces"]})


class Meanwhile:
    """A store that runs `happens` between the reading of a call and the next statement."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.happens: Callable[[Call], Awaitable[object]] | None = None

    async def call_scope(self, call_id: str) -> CallScope | None:
        scope = await self._inner.call_scope(call_id)
        happens, self.happens = self.happens, None
        if scope is not None and happens is not None:
            await happens(scope.call)
        return scope

    def __getattr__(self, name: str) -> object:  # all other attributes
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    ("result", "status"), [("forged", 400), ({"approved": True}, 409), ({"approved": False}, 409)]
)
async def test_who_may_approve_a_call_may_not_carry_it_out_when_it_was_approved_meanwhile(
    result: JSON, status: int
) -> None:
    """Only services can execute an invisible external call, although people can approve it."""
    stores = list[Meanwhile]()

    async def opened(bus: MemoryBus) -> Store:
        stores.append(Meanwhile(MemoryStore(bus.publish)))
        return stores[0]  # type: ignore[return-value]  # reads pass through

    tool = tw.Tool(
        name="ask_outside",
        description="Ask.",
        kind="external",
        is_async=True,
        parameters={"type": "object", "properties": {"user_name": {"type": "string"}}},
        requires_approval=tw.Approval(by="person"),
    )
    async with town(model=model(), tools=[tool], store=opened) as made:
        rt, call_id = made.api.rig.rt, made.ids["call_id"]

        async def approve(call: Call) -> None:
            await rt.calls.submit(call.run_id, call.id, {"approved": True})
            async with asyncio.timeout(10):
                async for _ in rt.events.follow(Topic(kind="run", id=call.run_id), after=0):
                    now = await rt.calls.get(call_id)
                    if now.status in OPEN and not now.awaits_approval:
                        return

        stores[0].happens = approve
        place = f"/api/runs/{made.ids['run_id']}/tool-results"
        answer = await made.api.client.post(place, headers=ADA, json={"callId": call_id, "result": result})
        assert answer.status_code == status
        assert (await rt.calls.get(call_id)).status in OPEN
