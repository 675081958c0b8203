"""Memory and mind of agents over HTTP: blocks, passages, memories, goals and plans (API §3)."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.api.rig import Api, serving
from toolwright.core.threads.event import Topic
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

AGENT = "/api/agents/tester"


class Shop(BaseModel):
    """Values that `buy` requires."""

    store_id: str


@tw.tool(description="Buy.", tenvs=Shop)
async def buy() -> str:
    return "bought"


async def send(api: Api, method: str, path: str, body: Any = None, status: int = 200) -> Any:  # JSON
    answer = await api.client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def paths(refused: Any) -> list[str]:
    """Return the paths that a rejection names."""
    return [each["path"] for each in refused["details"]]


async def test_a_block_is_written_read_and_taken_away() -> None:
    async with serving() as api:
        agent_id = (await api.get(AGENT))["agentId"]
        written = (await send(api, "PUT", f"{AGENT}/memory/mood", {"content": "Calm."}))["block"]
        assert written == {
            "label": "mood",
            "content": "Calm.",
            "isShared": False,
            "ownerId": agent_id,
            "updatedAt": written["updatedAt"],
        }
        await send(api, "PUT", f"{AGENT}/memory/Jim", {"content": "Likes tea."})
        again = (await send(api, "PUT", f"{AGENT}/memory/mood", {"content": ""}))["block"]
        assert again["content"] == ""
        assert await api.get(f"{AGENT}/memory/mood") == {"block": again}
        assert [each["label"] for each in (await api.get(f"{AGENT}/memory"))["blocks"]] == ["Jim", "mood"]
        assert (await api.get(f"{AGENT}/memory?limit=1&offset=1"))["blocks"] == [again]
        assert await send(api, "DELETE", f"{AGENT}/memory/mood") == {"success": True}
        for method in ("GET", "DELETE"):
            await send(api, method, f"{AGENT}/memory/mood", status=404)
            await send(api, method, "/api/agents/nobody/memory/mood", status=404)


@pytest.mark.parametrize(
    "label",
    ["a b", "Jim/Ann", "/", "a//b", "a/readers/b", "ümlaut 🫖", "50%", "%2F", "a?b#c", "..", "+", "~"],
)
async def test_a_label_may_be_any_text_of_one_line(label: str) -> None:
    path = f"{AGENT}/memory/{quote(label, safe='').replace('.', '%2E')}"
    async with serving() as api:
        assert (await send(api, "PUT", path, {"content": "x"}))["block"]["label"] == label
        assert [each["label"] for each in (await api.get(f"{AGENT}/memory"))["blocks"]] == [label]
        assert (await api.get(path))["block"]["label"] == label
        await send(api, "DELETE", path)
        assert (await api.get(f"{AGENT}/memory"))["blocks"] == []


@pytest.mark.parametrize("label", ["", " ", "a\nb", "a\x00b", "\x1b"])
async def test_what_cannot_be_a_label_is_refused(label: str) -> None:
    async with serving() as api:
        linked = "/api/agents/tester/readers/friend/memory"
        await api.post("/api/agents", {"name": "friend", "config": {}}, 201)
        for method, path, body in (
            *(("GET", f"{AGENT}/memory", None), ("DELETE", f"{AGENT}/memory", None)),
            *(("PUT", f"{AGENT}/memory", {"content": "x"}), ("PUT", linked, None), ("DELETE", linked, None)),
        ):
            refused = await send(api, method, f"{path}/{quote(label)}", body, 400)
            assert paths(refused) == ["label"]


async def test_a_linked_block_is_read_by_others_and_changed_by_its_owner_alone() -> None:
    async with serving() as api:
        for name in ("friend", "third"):
            await api.post("/api/agents", {"name": name, "config": {}}, 201)
        owner_id = (await api.get("/api/agents/friend"))["agentId"]
        house = "/api/agents/friend/memory/the%2Fhouse"
        block = (await send(api, "PUT", house, {"content": "Ours.", "readers": ["tester"]}))["block"]
        assert (block["label"], block["isShared"], block["ownerId"]) == ("the/house", True, owner_id)
        assert (await api.get(f"{AGENT}/memory"))["blocks"] == [block]
        assert (await api.get(f"{AGENT}/memory/the%2Fhouse"))["block"] == block
        refused = await send(api, "PUT", f"{AGENT}/memory/the%2Fhouse", {"content": "Mine."}, 400)
        assert refused["details"] == [{"path": "label", "message": "is the label of another agent's block"}]
        await send(api, "DELETE", f"{AGENT}/memory/the%2Fhouse", status=404)

        link = "/api/agents/friend/readers/{}/memory/the%2Fhouse"
        assert await send(api, "PUT", link.format("third")) == {"success": True}
        assert (await api.get("/api/agents/third/memory"))["blocks"] == [block]
        for _ in range(2):
            assert await send(api, "DELETE", link.format("tester")) == {"success": True}
        assert (await api.get(f"{AGENT}/memory"))["blocks"] == []
        await send(api, "PUT", link.format("nobody"), status=404)
        await send(api, "PUT", f"{AGENT}/readers/third/memory/none", status=404)
        assert paths(await send(api, "PUT", link.format("friend"), status=400)) == ["reader"]
        refused = await send(api, "PUT", house, {"content": "x", "readers": ["tester", "friend"]}, 400)
        assert paths(refused) == ["readers.1"]
        assert (await api.get(house))["block"] == block


async def test_passages_are_stored_found_and_taken_away() -> None:
    async with serving() as api:
        stored = [
            (await api.post(f"{AGENT}/passages", body, 201))["passage"]
            for body in ({"content": "Jim likes GREEN tea.", "tags": ["Jim"]}, {"content": "Steam."})
        ]
        assert stored[0] == {
            "id": stored[0]["id"],
            "content": "Jim likes GREEN tea.",
            "tags": ["Jim"],
            "createdAt": stored[0]["createdAt"],
        }
        assert (await api.get(f"{AGENT}/passages"))["passages"] == stored[::-1]
        assert (await api.get(f"{AGENT}/passages?limit=1&offset=1"))["passages"] == stored[:1]
        assert (await api.get(f"{AGENT}/passages?q=jim%20green"))["passages"] == stored[:1]
        assert (await api.get(f"{AGENT}/passages?q=tea&limit=1&offset=1"))["passages"] == stored[1:]
        assert (await api.get(f"{AGENT}/passages?q=gr%25en"))["passages"] == []
        path = f"{AGENT}/passages/{stored[0]['id']}"
        assert await api.get(path) == {"passage": stored[0]}
        assert await send(api, "DELETE", path) == {"success": True}
        for method in ("GET", "DELETE"):
            await send(api, method, path, status=404)
        assert (await api.get(f"{AGENT}/passages"))["passages"] == stored[1:]
        for query in ("q=%20", "q=" + "a+" * 17, "q=" + "a" * 1_001, "p=x"):
            refused = await send(api, "GET", f"{AGENT}/passages?{query}", status=400)
            assert paths(refused) == [query[0]]


async def test_goals_are_set_changed_and_given_up() -> None:
    async with serving() as api:
        new = {
            "goals": [{"description": "Learn Go"}, {"id": "tea", "description": "Tea", "priority": "high"}]
        }
        first, second = (await api.post(f"{AGENT}/goals", new))["goals"]
        assert first == {**first, "description": "Learn Go", "status": "active", "priority": "medium"}
        changed = await api.post(f"{AGENT}/goals", {"id": "tea", "status": "done"})
        assert changed["goals"] == [first, {**second, "status": "done"}]
        assert await api.get(f"{AGENT}/goals") == changed
        assert await send(api, "DELETE", f"{AGENT}/goals/tea") == {"success": True}
        await send(api, "DELETE", f"{AGENT}/goals/tea", status=404)
        assert (await api.get(f"{AGENT}/goals"))["goals"] == [first]


async def test_memories_are_set_replaced_and_forgotten() -> None:
    async with serving() as api:
        new = {"memories": [{"key": "tea/green", "value": "yes"}, {"key": "Jim", "value": ""}]}
        assert await api.post(f"{AGENT}/memories", new) == {"memories": new["memories"][::-1]}
        answer = await api.post(f"{AGENT}/memories", {"key": "Jim", "value": "a friend"})
        assert answer["memories"][0] == {"key": "Jim", "value": "a friend"}
        assert await send(api, "DELETE", f"{AGENT}/memories/tea%2Fgreen") == {"success": True}
        await send(api, "DELETE", f"{AGENT}/memories/tea%2Fgreen", status=404)
        assert await api.get(f"{AGENT}/memories") == {"memories": answer["memories"][:1]}


@pytest.mark.parametrize("key", ["a\nb", "/", "ümlaut 🫖", "\x1b", " a", "50%", "a?b#c", "a" * 200])
async def test_a_key_may_be_any_text(key: str) -> None:
    async with serving() as api:
        new = {"key": key, "value": "x"}
        assert await api.post(f"{AGENT}/memories", new) == {"memories": [new]}
        await send(api, "DELETE", f"{AGENT}/memories/{quote(key, safe='')}")
        assert await api.get(f"{AGENT}/memories") == {"memories": []}


TEA = {"name": "Tea", "instruction": "Make tea."}


async def test_plans_are_set_changed_and_given_up() -> None:
    async with serving() as api:
        new = {"plans": [{"id": "news", "name": "News", "instruction": "Read.", "cron": "@daily"}]}
        [news] = (await api.post(f"{AGENT}/plans", new))["plans"]
        assert (news["id"], news["cron"]) == ("news", "@daily")
        plans = (await api.post(f"{AGENT}/plans", {**TEA, "runAfter": "1 hour", "id": "tea"}))["plans"]
        assert {plan["id"] for plan in plans} == {"news", "tea"}
        plans = (await api.post(f"{AGENT}/plans", {"id": "news", "timezone": "Asia/Tokyo"}))["plans"]
        assert [plan.get("timezone") for plan in plans if plan["id"] == "news"] == ["Asia/Tokyo"]
        for plan in ("news", "tea"):
            assert await send(api, "DELETE", f"{AGENT}/plans/{plan}") == {"success": True}
            await send(api, "DELETE", f"{AGENT}/plans/{plan}", status=404)
        assert await api.get(f"{AGENT}/plans") == {"plans": []}


async def test_a_plan_that_was_set_here_comes_to_the_inbox() -> None:
    async with serving(ScriptedModel([{"text": "Made."}])) as api:
        home = api.rig.rt.agents.declared[0].home_thread_id
        await api.post(f"{AGENT}/plans", {**TEA, "runAfter": 1})
        async with asyncio.timeout(10):
            async for event in api.rig.rt.events.follow(Topic(kind="thread", id=home), after=0):
                if event.type == "run.completed":
                    break
        [event] = (await api.get(f"{AGENT}/inbox"))["events"]
        assert (event["type"], event["data"]["instruction"]) == ("plan", "Make tea.")


async def test_plans_of_an_agent_that_can_have_no_home_are_refused() -> None:
    async with serving(tools=[buy]) as api:
        refused = await api.post(f"{AGENT}/plans", {**TEA, "cron": "@daily"}, 400)
        assert "home thread" in refused["error"]
        assert (await api.get(f"{AGENT}/plans"))["plans"] == []


@pytest.mark.parametrize(
    ("path", "body", "at"),
    [
        ("goals", {}, [""]),
        ("goals", {"goals": [], "description": "x"}, [""]),
        ("goals", {"goals": [{"description": "x"}, {"status": "x"}]}, ["goals.1.description"]),
        ("goals", {"status": "x"}, ["description"]),
        ("goals", {"goals": [{"description": "x", "colour": "red"}]}, ["goals.0.colour"]),
        ("goals", {"goals": [{"id": "a", "description": "x"}] * 2}, ["goals.1.id"]),
        ("goals", {"id": "a b", "description": "x"}, ["id"]),
        ("goals", {"id": "", "description": "x"}, ["id"]),
        ("goals", {"description": 5}, ["description"]),
        ("goals", {"description": "x" * 4_001}, ["description"]),
        ("goals", {"goals": [{"description": "x"}] * 101}, ["goals"]),
        ("memories", {}, [""]),
        ("memories", {"key": "x"}, [""]),
        ("memories", {"memories": [{"key": "x"}]}, ["memories.0.value"]),
        ("memories", {"memories": [{"key": " ", "value": "x"}]}, ["memories.0.key"]),
        ("memories", {"key": " ", "value": "x"}, ["key"]),
        ("memories", {"key": "a\x00", "value": "x"}, ["key"]),
        ("memories", {"memories": [{"key": "a", "value": "x"}] * 2}, ["memories.1.key"]),
        ("plans", {**TEA}, [""]),
        ("plans", {"plans": [{**TEA}]}, ["plans.0"]),
        ("plans", {**TEA, "runAfter": 1, "cron": "@daily"}, [""]),
        ("plans", {**TEA, "cron": "0 9 30 2 *"}, ["cron"]),
        (
            "plans",
            {"plans": [{**TEA, "runAfter": 1}, {**TEA, "name": "Nap", "cron": "@reboot"}]},
            ["plans.1.cron"],
        ),
        ("plans", {**TEA, "cron": "@daily", "timezone": "Mars"}, ["timezone"]),
        ("plans", {**TEA, "scheduledAt": "2001-01-01T00:00:00Z"}, ["scheduledAt"]),
        ("plans", {**TEA, "runAfter": 10**400}, ["runAfter"]),
        ("plans", {**TEA, "runAfter": -5}, ["runAfter"]),
        ("plans", {"name": "Tea", "runAfter": 5_000}, ["instruction"]),
        ("plans", {**TEA, "run_after": 5}, ["run_after"]),
        ("passages", {}, ["content"]),
        ("passages", {"content": " "}, ["content"]),
        ("passages", {"content": "ü" * 32_769}, ["content"]),
        ("passages", {"content": "x", "tags": ["a", " "]}, ["tags.1"]),
        ("passages", {"content": "x", "tags": "a"}, ["tags"]),
    ],
)
async def test_an_invalid_body_is_reported_by_its_paths_and_changes_nothing(
    path: str, body: Any, at: list[str]
) -> None:
    async with serving() as api:
        before = await api.get(f"{AGENT}/{path}")
        refused = await api.post(f"{AGENT}/{path}", body, 400)
        assert paths(refused) == at
        assert len(refused["error"]) < 500
        assert await api.get(f"{AGENT}/{path}") == before


async def test_a_block_that_is_too_large_or_one_too_many_is_refused() -> None:
    async with serving() as api:
        for n in range(20):
            await send(api, "PUT", f"{AGENT}/memory/{n}", {"content": "x"})
        before = await api.get(f"{AGENT}/memory")
        for label, body, at in (
            ("0", {"content": "ü" * 8_193}, "content"),
            ("0", {}, "content"),
            ("0", {"content": "x", "readers": "tester"}, "readers"),
            ("new", {"content": "x"}, "label"),
            ("x" * 101, {"content": "x"}, "label"),
        ):
            refused = await send(api, "PUT", f"{AGENT}/memory/{label}", body, 400)
            assert paths(refused) == [at]
        assert await api.get(f"{AGENT}/memory") == before


async def test_unknown_agents_have_neither_mind_nor_memory() -> None:
    async with serving() as api:
        for method, path, body in (
            *(("GET", "memory", None), ("PUT", "memory/x", {"content": "x"}), ("GET", "passages?q=x", None)),
            *(("POST", "passages", {"content": "x"}), ("DELETE", "passages/x", None)),
            *(("POST", "goals", {"description": "x"}), ("POST", "memories", {"key": "x", "value": "x"})),
            *(("POST", "plans", {**TEA, "cron": "@daily"}), ("DELETE", "plans/x", None)),
        ):
            await send(api, method, f"/api/agents/nobody/{path}", body, 404)
