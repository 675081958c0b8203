"""Pending calls and requests of a visitor, counted and read."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

import toolwright as tw
from tests.kit import ran, send_to
from toolwright import testing
from toolwright.core.json_value import JSON
from toolwright.core.threads.call import Call
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import SERVICE, Caller
from toolwright.web.auth.permits import Permits
from toolwright.web.console.pages.pending import (
    Filter,
    answerers,
    count_pending,
    open_requests,
    read_again,
    read_page,
)
from toolwright.web.console.runs.timeline import RunDetail
from toolwright.web.console.tool_ui.parts import facts_of_row
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import decision_text

pytestmark = pytest.mark.anyio


def asking(name: str, kind: str) -> tw.Tool:
    """Return a tool that people answer, or an invisible one of a worker."""
    config = {"name": name, "description": "Asks.", "inputSchema": {"type": "object"}, "executionType": kind}
    return tw.Tool.from_config({**config, "isAsync": True, "visible": kind == "space"})


@tw.tool(requires_approval=tw.Approval(by=["ada", "nobody"]), visible=True)
async def refund() -> str:
    """Pay money back."""
    return "Paid."


@tw.tool(variables=[tw.Variable("CITY"), tw.Variable("KEY", "secret", required=False)])
async def weather() -> str:
    """Look at the weather."""
    return "Sunny."


def visit_of(rt: Runtime, caller: Caller) -> Visit:
    """The part of a visit that reading needs."""
    is_service = caller.kind == "service"
    return cast(
        "Visit", SimpleNamespace(runtime=rt, caller=caller, is_service=is_service, permits=Permits(rt))
    )


async def waiting_call(rt: Runtime, run_id: str) -> None:
    """Wait until a call of the run is pending."""
    async with aclosing(rt.runs.stream(run_id)) as events:
        async for event in events:
            if isinstance(event, tw.CallWaiting):
                return


@asynccontextmanager
async def waiting() -> AsyncGenerator[tuple[Runtime, Visit, Visit]]:
    """A visible call, an invisible one, an approval and a run's value are pending; a service and Ada look."""
    names = ("confirmAction", "weigh", "refund")
    entered: list[Any] = [{"name": "enter_space", "args": {"spaceId": "trip"}}]
    model = testing.ScriptedModel(
        [{"calls": [*entered, *({"name": name} for name in names)]}, {"text": "That is all."}]
    )
    tools = [asking("confirmAction", "space"), asking("weigh", "external"), refund]
    agent = tw.Agent("guide", instructions="Guide.", model=model, tools=tools, toolkits=["spaces", "mind"])
    other = tw.Agent(
        "sky", instructions="Tell.", model=testing.ScriptedModel([{"text": "Sunny."}]), tools=[weather]
    )
    async with testing.runtime(tw.App(agents=[agent, other])) as rt:
        ada = await rt.entities.create(external_id="ada", display_name="Ada")
        await rt.spaces.create("Trip to Tokyo", id="trip", members=[ada.id, agent.id])
        spoken = await rt.spaces.say("trip", ada.id, "Go")
        await waiting_call(rt, next(iter(spoken.runs.values())))
        run = await send_to(rt, "sky", "Weather", user_id=ada.id)
        await rt.runs.wait_for_input(run.id)
        person = Caller(kind="person", entity_id=ada.id, external_id="ada")
        yield rt, visit_of(rt, SERVICE), visit_of(rt, person)


async def named(visit: Visit, name: str) -> Call:
    page = await read_page(visit, Filter())
    return next(call for call in page.calls if call.name == name)


async def test_a_service_counts_all_and_a_person_what_may_be_theirs() -> None:
    async with waiting() as (_, service, ada):
        assert await count_pending(service) == 4
        assert await count_pending(ada) == 3
        assert [call.name for call in (await read_page(ada, Filter())).calls] == ["confirmAction", "refund"]


async def test_pages_follow_one_another_without_a_gap() -> None:
    async with waiting() as (_, service, _):
        names, first = list[str](), 0
        while True:
            page = await read_page(service, Filter(), first, most=1)
            names += [call.name for call in page.calls]
            if page.next is None:
                break
            first = page.next
        assert names == ["confirmAction", "weigh", "refund"]


async def test_who_may_answer_is_said_in_words() -> None:
    async with waiting() as (_, service, _):
        told = [
            await answerers(service, await named(service, name), "Trip")
            for name in ("confirmAction", "weigh", "refund")
        ]
        assert told == ["anyone in Trip", "a service", "Ada, nobody"]


async def test_an_approval_in_a_persons_own_thread_is_counted_as_theirs_and_they_may_answer_it() -> None:
    @tw.tool(requires_approval=True)
    async def pay() -> str:
        """Pay money back."""
        return "Paid."

    model = testing.ScriptedModel([{"calls": [{"name": "pay"}]}, {"text": "Done."}])
    agent = tw.Agent("clerk", instructions="Pay.", model=model, tools=[pay])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        ada = await rt.entities.create(external_id="ada")
        run = await send_to(rt, "clerk", user_id="ada")
        await rt.runs.wait_for_input(run.id)
        visit = visit_of(rt, Caller(kind="person", entity_id=ada.id, external_id="ada"))
        assert await count_pending(visit) == 1
        [call] = (await read_page(visit, Filter())).calls
        assert (await facts_of_row(visit, call)).call.may_answer
        assert await answerers(visit_of(rt, SERVICE), call, None) == "the thread's user or a service"
        by = visit.caller.through("console")
        await rt.calls.submit(call.run_id, call.id, {"approved": True}, by=by)
        facts = await facts_of_row(visit, await rt.calls.get(call.id))
        assert [decision_text(each) for each in facts.decisions] == ["Approved by ada (console)"]


@pytest.mark.parametrize(
    ("by", "text"),
    [
        ({"kind": "service", "id": None, "name": None}, "Cancelled by the service (http)"),
        ({"kind": "service", "id": "deploy", "name": "deploy"}, "Cancelled by the service deploy (http)"),
        ({"kind": "person", "id": "ent_1", "name": None}, "Cancelled by ent_1 (http)"),
        (None, "Cancelled by the None (http)"),
    ],
)
def test_a_decision_is_shown_in_words(by: JSON, text: str) -> None:
    assert decision_text({"action": "cancelled", "by": by, "door": "http"}) == text


async def test_a_step_is_counted_from_when_its_model_was_asked() -> None:
    @tw.tool
    async def look() -> str:
        """Look."""
        return "Seen."

    model = testing.ScriptedModel([{"calls": [{"name": "look"}]}, {"text": "Done."}])
    agent = tw.Agent("clerk", instructions="Look.", model=model, tools=[look])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        run = await ran(rt, "clerk")
        course = RunDetail(visit_of(rt, SERVICE), run)
        await course.read()
        answers = [each for each in await rt.runs.messages(run.id) if each.role == "tool"]
        assert [each.step for each in answers] == [1]
        assert course.requested_at(2) == answers[0].created_at
        assert course.requested_at(2) != run.started_at


async def test_a_call_is_read_again_by_those_who_see_it() -> None:
    async with waiting() as (rt, service, ada):
        call, hidden = await named(service, "confirmAction"), await named(service, "weigh")
        await rt.calls.submit(call.run_id, call.id, {"confirmed": True})
        for visit in (service, ada):
            again = await read_again(visit, call)
            assert again is not None
            assert again.status == "resolved"
        assert await read_again(ada, hidden) is None


async def test_a_request_asks_for_what_is_missing_and_is_seen_by_whose_thread_it_is() -> None:
    async with waiting() as (_, service, ada):
        for visit in (service, ada):
            [request] = await open_requests(visit)
            assert request.request.missing == ("CITY",)
        stranger = Caller(kind="person", entity_id="ent_x", external_id="bob")
        assert await open_requests(visit_of(service.runtime, stranger)) == []


async def test_a_person_of_many_threads_sees_what_their_newest_one_waits_for() -> None:
    async with waiting() as (rt, _, ada):
        [request] = await open_requests(ada)
        *_, thread = [await rt.threads.create("sky", user_id="ada") for _ in range(200)]
        run = await rt.threads.send(thread.id, "Weather")
        await rt.runs.wait_for_input(run.id)
        assert [each.thread_id for each in await open_requests(ada)] == [thread.id]
        assert request.thread_id != thread.id
