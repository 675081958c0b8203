"""Agents configured and spaces used with the client, against a served runtime."""

import asyncio
from contextlib import aclosing

import pytest

from tests.api.rig import serving
from tests.client.rig import client_of
from toolwright.core.errors import AlreadyExists, Forbidden, InvalidConfiguration, NotFound
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_an_agent_is_configured_triggered_looked_at_and_deleted() -> None:
    async with serving() as api, client_of(api.port) as client:
        made = await client.agents.create("scout", {"agent": {"system": "You scout."}}, "Looks")
        assert (made.name, made.description, made.config) == (
            "scout",
            "Looks",
            {"agent": {"system": "You scout."}},
        )
        changed = await client.agents.update("scout", description="Sees")
        assert (changed.id, changed.description, changed.config) == (made.id, "Sees", made.config)
        assert (await client.agents.update("scout", config={})).config == {}
        told = await client.agents.prompt("scout")
        assert told.prompt == "\n\n".join(section.text for section in told.sections)
        await client.agents.trigger("scout", "bell", {"a": 1})
        [event] = await client.inboxes.list("scout")
        assert (event.type, event.content) == ("service", {"serviceName": "bell", "payload": {"a": 1}})
        with pytest.raises(InvalidConfiguration) as caught:
            await client.agents.create("x", {"nonsense": 1})
        assert caught.value.details[0]["path"] == "config.nonsense"
        with pytest.raises(AlreadyExists):
            await client.agents.create("tester", {})
        with pytest.raises(Forbidden):
            await client.agents.delete("tester")
        await client.agents.delete("scout")
        with pytest.raises(NotFound):
            await client.agents.prompt("scout")


async def test_a_space_is_made_lived_in_and_deleted() -> None:
    async with serving(ScriptedModel([{"text": "Heard."}])) as api, client_of(api.port) as client:
        ada = await client.entities.create(external_id="ada")
        space = await client.spaces.create("Tea", id="tea")
        assert (space.id, space.name, space.kind, space.seq) == ("tea", "Tea", "private", 0)
        member = await client.spaces.add_member("tea", ada.id, "host")
        assert (member.entity_id, member.role, member.entity) == (ada.id, "host", ada)
        agent = await client.spaces.add_member("tea", "tester")
        assert [one.entity_id for one in await client.spaces.members("tea")] == [ada.id, agent.entity_id]
        spoken = await client.spaces.say("tea", "Hello", entity_id=ada.id, metadata={"a": 1})
        assert (spoken.message.content, spoken.message.seq, spoken.message.metadata) == ("Hello", 1, {"a": 1})
        assert [run.agent_entity_id for run in spoken.runs] == [agent.entity_id]
        again = await client.spaces.say("tea", "Well", entity_id=ada.id, parent_id=spoken.message.id)
        assert again.message.parent_message_id == spoken.message.id
        reaction = await client.spaces.react(spoken.message.id, "+1", entity_id=ada.id)
        assert (reaction.emoji, reaction.entity_id) == ("+1", ada.id)
        edited = await client.spaces.edit(spoken.message.id, "Hello!")
        assert (edited.content, edited.reactions) == ("Hello!", (reaction,))
        [second] = await client.spaces.messages("tea", after_seq=1)
        assert second.id == again.message.id
        await client.spaces.unreact(spoken.message.id, "+1", entity_id=ada.id)
        await client.spaces.erase(again.message.id)
        [left] = await client.spaces.messages("tea")
        assert (left.id, left.reactions) == (edited.id, ())
        with pytest.raises(Forbidden):
            await client.spaces.mark_read("tea", 1)
        async with asyncio.timeout(10), aclosing(client.spaces.follow("tea", after=0)) as events:
            async for event in events:
                if event.type == "message_deleted":
                    break
        assert (await client.spaces.update("tea", name="Cake")).name == "Cake"
        assert (await client.spaces.update("tea", delivery="sequential")).delivery == "sequential"
        assert [one.id for one in await client.spaces.list()] == ["tea"]
        await client.spaces.remove_member("tea", ada.id)
        await client.spaces.delete("tea")
        with pytest.raises(NotFound):
            await client.spaces.get("tea")
