"""A card has the whole result of a call whose message has the beginning, for those who may see the call."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

import toolwright as tw
from tests.api.test_people_and_agents import Crowd, crowd
from tests.api.test_whole_results import ORDERS, SHORT, in_a_space, orders, shown_call
from toolwright.web.auth.access import Caller, person
from toolwright.web.auth.permits import Permits
from toolwright.web.console.tool_ui.parts import facts_of_message, facts_of_row
from toolwright.web.console.visit import Visit

pytestmark = pytest.mark.anyio


async def visit_of(made: Crowd, name: str) -> Visit:
    """Return the parts of a visit that the facts of a call need."""
    entity = await made.rt.entities.get(made.ids[name])
    caller: Caller = person(entity)
    return cast("Visit", SimpleNamespace(runtime=made.rt, permits=Permits(made.rt), caller=caller))


async def test_a_member_sees_the_whole_result_and_a_forged_message_shows_nobody_more() -> None:
    async with crowd(in_a_space(orders), settings=SHORT) as made:
        call = await shown_call(made, "function")
        messages = await made.rt.spaces.messages("tea", limit=10)
        [metadata] = [
            each.message.metadata
            for each in messages
            if each.message.metadata.get("toolCallId") == call["callId"]
        ]
        ada, bob = await visit_of(made, "ada"), await visit_of(made, "bob")
        facts = (await facts_of_message(ada, metadata)).call
        assert (facts.result, facts.status) == (ORDERS, "complete")
        assert [each.path for each in facts.attachments] == ["/attachments/orders-success.json"]
        forged: Any = {**metadata, "result": "forged"}
        other = (await facts_of_message(bob, forged)).call
        assert (other.result, other.attachments, other.thread_id) == ("forged", (), None)


async def test_a_long_error_is_shown_whole() -> None:
    message = "No. " * 1_000

    @tw.tool(name="orders", description="Fail.", visible=True)
    async def failing() -> tw.ToolResult:
        return tw.ToolResult.fail(message)

    async with crowd(in_a_space(failing), settings=SHORT) as made:
        await made.rt.spaces.create("Tea", id="tea", members=[made.ids["ada"], "clerk"])
        spoken = await made.rt.spaces.say("tea", made.ids["ada"], "Go")
        run_id = next(iter(spoken.runs.values()))
        await made.rt.runs.wait(run_id, 60)
        [row] = [each for each in await made.rt.calls.list(run_id=run_id, status=None) if each.visible]
        messages = await made.rt.spaces.messages("tea", limit=10)
        [metadata] = [
            each.message.metadata for each in messages if each.message.metadata.get("toolCallId") == row.id
        ]
        assert metadata["resultTruncated"] is True
        ada = await visit_of(made, "ada")
        for facts in (await facts_of_message(ada, metadata), await facts_of_row(ada, row)):
            assert (facts.call.status, facts.call.error) == ("error", message)
