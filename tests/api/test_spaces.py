"""Spaces over HTTP: answers, streams, and who receives them (API §3, §4)."""

from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import JSON, Api, outside, read, serving
from tests.api.town import ADA, BOB, SERVICE, Town, town
from tests.kit import call
from toolwright.core.threads.event import Topic
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def change(
    made: Town, method: str, path: str, headers: dict[str, str], body: Any, status: int = 200
) -> Any:
    """Return the JSON answer to a method other than GET and POST."""
    return read(await made.api.client.request(method, path, headers=headers, json=body), status)


async def space_of(api: Api, **fields: Any) -> str:
    return str((await api.post("/api/spaces", fields, 201))["space"]["id"])


async def test_a_space_is_made_shown_and_changed_under_both_names() -> None:
    async with serving() as api:
        body = {"name": "Tea", "kind": "public", "description": "For tea", "metadata": {"a": 1}, "id": "tea"}
        made = await api.post("/api/spaces", body, 201)
        assert made["space"] == made["smartSpace"]
        shown = {name: made["space"][name] for name in body}
        assert shown == body and made["space"]["seq"] == 0
        assert await api.get("/api/spaces/tea") == await api.get("/api/smart-spaces/tea") == made
        listed = await api.get("/api/spaces")
        assert listed == {"spaces": [made["space"]], "smartSpaces": [made["space"]]}
        changed = read(await api.client.patch("/api/smart-spaces/tea", json={"name": None}), 200)
        assert (changed["space"]["name"], changed["space"]["description"]) == (None, "For tea")
        assert (await api.post("/api/spaces", body, 409))["error"] == "The space 'tea' already exists."
        wrong: list[tuple[str, Any]] = [
            ("id", {"id": "a b"}),
            ("kind", {"kind": "secret"}),
            ("name", {"name": ""}),
            ("members", {"members": []}),
        ]
        for path, faulty in wrong:
            refused = await api.post("/api/spaces", faulty, 400)
            assert [detail["path"] for detail in refused["details"]] == [path]
        read(await api.client.delete("/api/spaces/tea"), 200)
        assert (await api.get("/api/spaces"))["spaces"] == []


async def test_a_space_says_in_which_order_its_agents_hear_people() -> None:
    async with serving() as api:
        made = await api.post("/api/spaces", {"id": "s0"}, 201)
        other = await api.post("/api/spaces", {"id": "s1", "delivery": "sequential"}, 201)
        assert (made["space"]["delivery"], other["space"]["delivery"]) == ("all", "sequential")
        changes: list[tuple[dict[str, Any], str]] = [
            ({"delivery": "sequential"}, "sequential"), ({"name": "Tea"}, "sequential"), ({"delivery": "all"}, "all"),
        ]  # fmt: skip
        for asked, shown in changes:
            changed = read(await api.client.patch("/api/spaces/s0", json=asked), 200)
            assert changed["space"]["delivery"] == shown
        refused = await api.post("/api/spaces", {"delivery": "random"}, 400)
        assert [detail["path"] for detail in refused["details"]] == ["delivery"]


async def test_a_dm_has_two_members() -> None:
    async with town() as made:
        dm = (await made.post("/api/spaces", SERVICE, {"kind": "dm"}, 201))["space"]["id"]
        members = f"/api/spaces/{dm}/members"
        for entity in (made.ids["ada"], "tester"):
            added = (await made.post(members, SERVICE, {"entityId": entity}, 200))["membership"]
            assert added["role"] == "member" and added["spaceId"] == added["smartSpaceId"] == dm
        refused = await made.post(members, SERVICE, {"entityId": made.ids["bob"]}, 409)
        assert refused["error"] == "A dm has exactly 2 members. Create another space for more."
        shown = (await made.get(members, ADA))["members"]
        assert [one["entity"]["displayName"] for one in shown] == [None, "tester"]
        role = await change(made, "PATCH", f"{members}/{made.ids['ada']}", SERVICE, {"role": "owner"})
        assert role["membership"]["role"] == "owner"
        await change(made, "DELETE", f"{members}/{made.ids['ada']}", SERVICE, None)
        await made.get(members, ADA, 404)


async def test_messages_have_places_and_pages() -> None:
    async with town() as made:
        messages = f"/api/spaces/{made.ids['space_id']}/messages"
        said: Any = None
        for text in "abc":
            said = await made.post(messages, ADA, {"content": text, "metadata": {"n": text}}, 201)
        assert said["runs"] == []
        assert {
            name: said["message"][name] for name in ("seq", "content", "role", "metadata", "reactions")
        } == {
            "seq": 4,
            "content": "c",
            "role": "user",
            "metadata": {"n": "c"},
            "reactions": [],
        }
        assert said["message"]["entity"]["externalId"] == "user-ada"

        async def places(**params: Any) -> list[int]:
            return [one["seq"] for one in (await made.get(messages, ADA, **params))["messages"]]

        assert await places() == [1, 2, 3, 4]
        assert await places(limit=2) == [3, 4]
        assert await places(afterSeq=1, limit=2) == [2, 3]
        assert await places(beforeSeq=3) == [1, 2]
        assert (await made.get(messages, ADA))["messages"][0]["reactions"] == [
            {"emoji": "+1", "entityId": made.ids["ada"]}
        ]
        for wrong in ({"limit": 201}, {"afterSeq": -1}, {"beforeSeq": "x"}):
            await made.get(messages, ADA, 400, **wrong)
        answer: Any = {"content": "Yes", "parentMessageId": said["message"]["id"]}
        assert (await made.post(messages, ADA, answer, 201))["message"]["parentMessageId"] == said["message"][
            "id"
        ]
        lost = await made.post(messages, ADA, {"content": "Yes", "parentMessageId": "msg_none"}, 400)
        assert lost["details"] == [{"path": "parentMessageId", "message": "names no message of this space"}]
        posing = await made.post(messages, ADA, {"content": "x", "metadata": {"type": "tool_call"}}, 400)
        assert posing["details"][0]["path"] == "metadata.type"


async def test_a_person_speaks_as_themselves_and_a_service_for_whom_it_names() -> None:
    async with town() as made:
        messages = f"/api/spaces/{made.ids['space_id']}/messages"
        said = await made.post(messages, ADA, {"content": "Hi", "entityId": made.ids["bob"]}, 201)
        assert said["message"]["entityId"] == made.ids["ada"]
        nobody = await made.post(messages, SERVICE, {"content": "Hi"}, 400)
        assert nobody["error"] == "entityId is required"
        outside = await made.post(messages, SERVICE, {"content": "Hi", "entityId": made.ids["bob"]}, 404)
        assert outside["error"] == f"There is no space '{made.ids['space_id']}'."


async def test_only_the_author_changes_a_message() -> None:
    async with town() as made:
        await made.post(
            f"/api/spaces/{made.ids['space_id']}/members", SERVICE, {"entityId": made.ids["bob"]}, 200
        )
        path = f"/api/messages/{made.ids['message_id']}"
        refused = await change(made, "PATCH", path, BOB, {"content": "No"}, 403)
        assert refused["error"] == "Only the author of this message may change it."
        await change(made, "DELETE", path, BOB, None, 403)
        edited = (await change(made, "PATCH", path, ADA, {"content": "Well"}))["message"]
        assert (edited["content"], edited["editedAt"] is not None) == ("Well", True)
        await change(made, "DELETE", path, SERVICE, None)
        await change(made, "PATCH", path, ADA, {"content": "Gone"}, 404)


async def test_reading_goes_forward_only() -> None:
    async with town() as made:
        path = f"/api/spaces/{made.ids['space_id']}/read"
        for seq, expected in ((1, 1), (0, 1), (99, 1)):
            shown = (await change(made, "PATCH", path, ADA, {"seq": seq}))["membership"]
            assert shown["readSeq"] == expected
        await change(made, "PATCH", path, ADA, {"seq": -1}, 400)


async def test_everyone_of_the_app_reads_a_public_space_and_joins_by_writing() -> None:
    async with town() as made:
        hall = (await made.post("/api/spaces", SERVICE, {"kind": "public", "name": "Hall"}, 201))["space"][
            "id"
        ]
        assert (await made.get(f"/api/spaces/{hall}/members", BOB))["members"] == []
        await made.post(f"/api/spaces/{hall}/messages", BOB, {"content": "Hi"}, 201)
        [member] = (await made.get(f"/api/spaces/{hall}/members", ADA))["members"]
        assert member["entityId"] == made.ids["bob"]


async def test_a_space_is_followed_without_a_gap_and_resumed() -> None:
    async with serving() as api:
        people = api.rig.rt.entities
        ann = await people.create(external_id="ann", display_name="Ann")
        space_id = await space_of(api, name="Tea")
        await api.post(f"/api/spaces/{space_id}/members", {"entityId": ann.id})
        messages = f"/api/spaces/{space_id}/messages"

        async def say(text: str) -> str:
            said = await api.post(messages, {"content": text, "entityId": ann.id}, 201)
            return str(said["message"]["id"])

        async with api.stream(f"/api/spaces/{space_id}/stream") as stream:
            connected = await stream.event()
            assert connected["type"] == "connected" and connected["spaceId"] == space_id
            first = await say("One")
            [event] = await stream.until("space.message")
            assert event["spaceId"] == event["smartSpaceId"] == space_id
            assert event["data"]["message"] == (await api.get(messages))["messages"][0]
            await api.post(f"/api/messages/{first}/reactions", {"emoji": "+1", "entityId": ann.id})
            [reaction] = await stream.until("reaction_added")
            assert reaction["data"] == {"messageId": first, "entityId": ann.id, "emoji": "+1"}
        await say("Two")
        read(await api.client.patch(f"/api/messages/{first}", json={"content": "1"}), 200)
        read(await api.client.delete(f"/api/messages/{first}"), 200)
        async with api.stream(f"/api/spaces/{space_id}/stream", last_event_id=reaction["id"]) as stream:
            await stream.event()
            missed = await stream.until("message_deleted")
        assert [event["type"] for event in missed] == ["space.message", "message_updated", "message_deleted"]
        assert missed[1]["data"]["message"]["reactions"] == [{"emoji": "+1", "entityId": ann.id}]
        assert missed[2]["data"] == {"messageId": first}
        async with api.stream("/api/sse?after=0") as stream:
            await stream.event()
            everything = await stream.until("message_deleted")
        ids = [int(event["id"]) for event in everything]
        assert ids == sorted(ids) and len(set(ids)) == len(ids)


async def test_a_stream_may_have_the_names_of_channels() -> None:
    async with serving(ScriptedModel([{"text": "Noted."}])) as api:
        ann = await api.rig.rt.entities.create(external_id="ann")
        space_id = (await api.rig.rt.spaces.create("Tea", members=[ann.id, "tester"])).id
        agent = await api.get("/api/agents/tester")
        beside = {"channelId": space_id, "userId": ann.id}
        async with api.stream("/api/sse?names=s4") as named, api.stream("/api/sse") as plain:
            assert (await named.event())["type"] == (await plain.event())["type"] == "connected"
            body: JSON = {"content": "Hi", "entityId": ann.id}
            said = await api.post(f"/api/spaces/{space_id}/messages", body, 201)
            done = await named.until("agent_done")
            ours = await plain.until("agent.inactive")
            message_id = said["message"]["id"]
            reaction: JSON = {"emoji": "+1", "entityId": ann.id}
            await api.post(f"/api/messages/{message_id}/reactions", reaction)
            read(
                await api.client.request("DELETE", f"/api/messages/{message_id}/reactions", json=reaction),
                200,
            )
            read(await api.client.patch(f"/api/messages/{message_id}", json={"content": "Ho"}), 200)
            read(await api.client.delete(f"/api/messages/{message_id}"), 200)
            done += await named.until("message_deleted")
            ours += await plain.until("message_deleted")
        assert [event["type"] for event in done] == [
            *("message_created", "agent_typing", "agent_done"),
            *("reaction_added", "reaction_removed", "message_updated", "message_deleted"),
        ]
        assert done[0]["data"] == {"message": said["message"], **beside}
        at_work = {
            "agentEntityId": agent["entityId"],
            "runId": said["runs"][0]["runId"],
            "channelId": space_id,
            "userId": agent["entityId"],
            "agentId": agent["agentId"],
        }
        assert done[1]["data"] == done[2]["data"] == at_work
        reacted: JSON = {"messageId": message_id, **reaction}
        assert done[3]["data"] == {**reacted, **beside}
        assert (done[4]["data"], done[6]["data"]) == (reacted, {"messageId": message_id})
        assert {event["channelId"] for event in done} == {space_id}
        assert [event["id"] for event in done] == [event["id"] for event in ours]
        assert [event["type"] for event in ours[:3]] == ["space.message", "agent.active", "agent.inactive"]
        assert not any("channelId" in event for event in ours)
        async with api.stream("/api/sse?names=s4", last_event_id=done[0]["id"]) as stream:
            assert (await stream.event())["type"] == "connected"
            assert await stream.until("message_deleted") == done[1:]
        async with api.stream("/api/sse?names=s4&after=0") as stream:
            assert done[0] in await stream.until("message_deleted")


async def test_a_large_message_still_says_whose_it_is() -> None:
    async with serving() as api:
        ann = await api.rig.rt.entities.create(external_id="ann")
        space_id = (await api.rig.rt.spaces.create("Tea", members=[ann.id])).id
        await api.post(f"/api/spaces/{space_id}/messages", {"content": "x" * 9_000, "entityId": ann.id}, 201)
        async with api.stream("/api/sse?names=s4&after=0") as stream:
            told = (await stream.until("message_created"))[-1]["data"]
        assert told["truncated"] and told["message"]["entityId"] == told["userId"] == ann.id


async def test_streams_have_names_that_are_known() -> None:
    async with serving() as api:
        for names in ("s5", "", "S4"):
            refused = read(await api.client.get(f"/api/sse?names={names}"), 400)
            assert [each["path"] for each in refused["details"]] == ["names"]


async def test_a_reaction_is_one_entity_s_with_one_emoji_and_stands_once() -> None:
    async with serving() as api:
        ann, bob = [await api.rig.rt.entities.create(external_id=name) for name in ("ann", "bob")]
        space_id = (await api.post("/api/spaces", {"name": "Tea", "kind": "public"}, 201))["space"]["id"]
        said = await api.post(f"/api/spaces/{space_id}/messages", {"content": "Hi", "entityId": ann.id}, 201)
        path = f"/api/messages/{said['message']['id']}/reactions"
        mine: JSON = {"emoji": "+1", "entityId": ann.id}
        added = await api.post(path, mine)
        assert await api.post(path, mine) == added
        for other in ({**mine, "emoji": "tea"}, {**mine, "entityId": bob.id}):
            await api.post(path, other)
        for status in (200, 404):
            taken = read(await api.client.request("DELETE", path, json=mine), status)
            assert status == 404 or taken == added
        left = (await api.get(f"/api/spaces/{space_id}/messages"))["messages"][0]["reactions"]
        assert left == [{"emoji": "tea", "entityId": ann.id}, {"emoji": "+1", "entityId": bob.id}]
        assert (await api.post(path, mine))["reaction"]["emoji"] == "+1"
        told = await api.rig.store.events(Topic(kind="space", id=space_id))
        reactions = [(event.type, event.payload["emoji"]) for event in told if "emoji" in event.payload]
        assert reactions == [
            *(("reaction_added", "+1"), ("reaction_added", "tea"), ("reaction_added", "+1")),
            *(("reaction_removed", "+1"), ("reaction_added", "+1")),
        ]


async def test_a_person_follows_all_of_their_spaces_as_long_as_they_are_theirs() -> None:
    async with town() as made:
        spaces = made.api.rig.rt.spaces
        other = await spaces.create("Cake", members=[made.ids["bob"]])
        token = await made.stream_token(BOB)
        async with made.api.stream(f"/api/sse?token={token}") as stream:
            await stream.event()
            await spaces.say(made.ids["space_id"], made.ids["ada"], "Not for Bob")
            await spaces.say(other.id, made.ids["bob"], "For Bob")
            await spaces.add_member(made.ids["space_id"], made.ids["bob"])
            await spaces.say(made.ids["space_id"], made.ids["ada"], "Now for Bob")
            await spaces.remove_member(made.ids["space_id"], made.ids["bob"])
            await spaces.say(made.ids["space_id"], made.ids["ada"], "Not for Bob again")
            await spaces.say(other.id, made.ids["bob"], "The end")
            said: list[str] = []
            while "The end" not in said:
                [*_, event] = await stream.until("space.message")
                said.append(event["data"]["message"]["content"])
        assert said == ["For Bob", "Now for Bob", "The end"]


async def test_the_stream_of_a_space_ends_for_a_removed_member() -> None:
    async with town() as made:
        space_id = made.ids["space_id"]
        token = await made.stream_token(ADA)
        async with made.api.stream(f"/api/spaces/{space_id}/stream?token={token}") as stream:
            await stream.event()
            await made.api.rig.rt.spaces.remove_member(space_id, made.ids["ada"])
            [told] = await stream.until("member_removed")
            assert told["data"] == {"entityId": made.ids["ada"]}
            assert await stream.chunk() == b""


CONFIRM = tw.Tool.from_config(
    {
        "name": "confirmAction",
        "description": "Ask them.",
        "inputSchema": {"type": "object"},
        "executionType": "space",
        "isAsync": True,
    }
)


def talking(name: str) -> ScriptedModel:
    """A model that calls that tool when it is addressed in a space."""
    return ScriptedModel(
        [
            {"when": "[Tool Result", "text": "Thanks."},
            {"when": "Hi there", **call(name)},
            call("ask_outside", user_name="Ada"),
            {"text": "Asked."},
        ]
    )


async def test_a_person_sees_what_they_caused_and_answers_what_is_shown_to_them() -> None:
    model = talking("confirmAction")
    async with town(model=model, tools=[outside, CONFIRM]) as made:
        space_id = made.ids["space_id"]
        await made.post(f"/api/spaces/{space_id}/members", SERVICE, {"entityId": "tester"}, 200)
        said = await made.post(f"/api/spaces/{space_id}/messages", ADA, {"content": "Hi there"}, 201)
        [told] = said["runs"]
        run_id, entity_id = told["runId"], told["agentEntityId"]
        await made.api.rig.rt.runs.wait(run_id, 10)

        shown = (await made.get(f"/api/runs/{run_id}", ADA))["run"]
        assert set(shown) == {"id", "status", "agentId", "startedAt", "completedAt"}
        assert shown["status"] == "completed"
        await made.get(f"/api/runs/{run_id}", BOB, 404)
        await made.get(f"/api/runs/{run_id}/events", ADA, 404)
        await made.post(f"/api/runs/{run_id}/cancel", ADA, None, 404)

        [call] = (await made.get("/api/calls", ADA, runId=run_id))["calls"]
        assert (call["visible"], call["spaceId"], call["agentEntityId"]) == (True, space_id, entity_id)
        assert (await made.get("/api/calls", SERVICE, spaceId=space_id))["calls"] == [call]
        assert (await made.get("/api/calls", SERVICE, smartSpaceId=space_id))["calls"] == [call]
        assert (await made.get("/api/calls", BOB, runId=run_id))["calls"] == []
        answer = {"callId": call["callId"], "result": {"confirmed": True}}
        place = f"/api/runs/{run_id}/tool-results"
        assert (await made.post(place, BOB, answer, 404))["error"] == "Pending tool call not found"
        assert await made.post(place, ADA, answer, 200) == {"success": True, "agentEntityId": entity_id}
        assert (await made.post(place, ADA, answer, 409))["error"] == "Tool call already resolved"
        [*_, message] = (await made.get(f"/api/spaces/{space_id}/messages", ADA))["messages"]
        assert message["metadata"]["status"] == "complete"
        assert message["metadata"]["result"] == {"confirmed": True}


async def test_a_call_whose_message_was_deleted_is_a_services_to_answer() -> None:
    async with town(model=talking("confirmAction"), tools=[outside, CONFIRM]) as made:
        space_id = made.ids["space_id"]
        await made.post(f"/api/spaces/{space_id}/members", SERVICE, {"entityId": "tester"}, 200)
        said = await made.post(f"/api/spaces/{space_id}/messages", ADA, {"content": "Hi there"}, 201)
        run_id = said["runs"][0]["runId"]
        await made.api.rig.rt.runs.wait(run_id, 10)
        [call] = (await made.get("/api/calls", ADA, runId=run_id))["calls"]
        [*_, message] = (await made.get(f"/api/spaces/{space_id}/messages", ADA))["messages"]
        read(await made.api.client.delete(f"/api/messages/{message['id']}", headers=SERVICE), 200)
        assert (await made.get("/api/calls", ADA, runId=run_id))["calls"] == []
        answer = {"callId": call["callId"], "result": {"confirmed": True}}
        place = f"/api/runs/{run_id}/tool-results"
        refused = await made.post(place, ADA, answer, 404)
        assert refused == await made.post(place, ADA, {**answer, "callId": "call_x"}, 404)
        assert [one["callId"] for one in (await made.get("/api/calls", SERVICE, runId=run_id))["calls"]] == [
            call["callId"]
        ]
        await made.post(place, SERVICE, answer, 200)


async def test_an_invisible_call_is_a_services_to_answer() -> None:
    hidden = tw.Tool.from_config(
        {
            "name": "fetchExternalData",
            "description": "Fetch.",
            "inputSchema": {"type": "object"},
            "executionType": "external",
            "visible": False,
            "isAsync": True,
        }
    )
    model = talking("fetchExternalData")
    async with town(model=model, tools=[outside, hidden]) as made:
        space_id = made.ids["space_id"]
        await made.post(f"/api/spaces/{space_id}/members", SERVICE, {"entityId": "tester"}, 200)
        said = await made.post(f"/api/spaces/{space_id}/messages", ADA, {"content": "Hi there"}, 201)
        run_id = said["runs"][0]["runId"]
        await made.api.rig.rt.runs.wait(run_id, 10)
        assert (await made.get("/api/calls", ADA, runId=run_id))["calls"] == []
        [call] = (await made.get("/api/calls", SERVICE, runId=run_id))["calls"]
        answer = {"callId": call["callId"], "result": 1}
        await made.post(f"/api/runs/{run_id}/tool-results", ADA, answer, 404)
        await made.post(f"/api/runs/{run_id}/tool-results", SERVICE, answer, 200)
