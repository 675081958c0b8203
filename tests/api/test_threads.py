"""Agents, threads and messages over HTTP."""

from pathlib import Path

import httpx2
import pytest

import toolwright as tw
from tests.api.rig import read, serving
from tests.kit import call
from toolwright.testing import ScriptedModel
from toolwright.wiring.gateway import gateway

pytestmark = pytest.mark.anyio


async def test_health_is_ok_and_needs_no_key() -> None:
    async with serving(secret_keys=("k",)) as api:
        shown = await api.get("/health")
        assert shown["status"] == "ok"
        assert shown["version"]


async def test_health_is_unavailable_when_the_journal_cannot_be_written() -> None:
    async with serving() as api:
        await api.rig.store.inner.close()
        response = await api.client.get("/health")
        shown = read(response, 503)
        assert shown["status"] == "unavailable"
        assert set(shown) == {"status", "version", "error"}
        response = await api.client.post("/api/threads", json={"agentId": "tester"})
        read(response, 503)
        assert response.headers["retry-after"] == "1"


async def test_health_is_unavailable_when_the_files_cannot_be_written(tmp_path: Path) -> None:
    files = tmp_path / "files"
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path}/t.db", files_url=str(files))
    application = gateway(tw.App(), settings)
    transport = httpx2.ASGITransport(application)
    async with (
        application.router.lifespan_context(application),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        files.write_text("a file where the folder should be")
        response = await client.get("/health")
        shown = read(response, 503)
        assert (shown["status"], response.headers["retry-after"]) == ("unavailable", "1")
        assert f"The files folder '{files}' cannot be written" in shown["error"]


async def test_agents_are_listed_and_found_by_name_and_id() -> None:
    async with serving() as api:
        [agent] = (await api.get("/api/agents"))["agents"]
        named = {"id", "agentId", "entityId", "name", "description", "type"}
        assert set(agent) == named | {"openTo", "homeTools", "sharedMemory"}
        assert (agent["name"], agent["type"]) == ("tester", "ai_human")
        by_name = await api.get("/api/agents/tester")
        assert by_name == await api.get(f"/api/agents/{agent['id']}")
        assert by_name == {"agent": agent, "agentId": agent["id"], "entityId": agent["entityId"]}
        assert read(await api.client.get("/api/agents/nobody"), 404)["error"].startswith("There is no agent")


async def test_a_permanently_terminated_thread_says_so() -> None:
    @tw.tool(description="Ends.")
    async def end(state: tw.ThreadState) -> str:
        await state.terminate()
        return "ended"

    async with serving(ScriptedModel([call("end")]), [end]) as api:
        thread_id = await api.thread()
        sent = await api.post(f"/api/threads/{thread_id}/messages", {"content": "Go"}, 202)
        await api.rig.rt.runs.wait(sent["runId"], 10)
        assert (await api.get(f"/api/threads/{thread_id}"))["thread"]["status"] == "terminated"
        [listed] = (await api.get("/api/threads"))["threads"]
        assert listed["status"] == "terminated"


async def test_a_thread_is_created_read_and_listed() -> None:
    async with serving() as api:
        body = {
            "agentId": "tester",
            "userId": "u1",
            "tags": ["snake_case", "Ü"],
            "arguments": {"snake_case": {"camelCase": None}},
        }
        made = await api.post("/api/threads", body, 201)
        thread = made["thread"]
        assert made["threadId"] == thread["id"]
        assert thread["tags"] == ["snake_case", "Ü"]
        assert (thread["status"], thread["userId"]) == ("idle", "u1")
        assert await api.get(f"/api/threads/{thread['id']}") == {"thread": thread}
        other = await api.thread()
        listed = (await api.get("/api/threads"))["threads"]
        assert [one["id"] for one in listed] == [thread["id"], other]
        assert (await api.get("/api/threads", params={"userId": "u1"}))["threads"] == [thread]
        page = await api.get("/api/threads", params={"limit": 1, "offset": 1})
        assert [one["id"] for one in page["threads"]] == [other]
        stored = await api.rig.rt.threads.get(thread["id"])
        assert stored.arguments == {"snake_case": {"camelCase": None}}


async def test_unknown_threads_are_not_there() -> None:
    async with serving() as api:
        for path in ("/api/threads/thr_x", "/api/threads/thr_x/messages", "/api/threads/thr_x/stream"):
            assert read(await api.client.get(path), 404) == {"error": "There is no thread 'thr_x'."}
        assert "thr_x" in (await api.post("/api/threads/thr_x/messages", {"content": "Go"}, 404))["error"]
        assert "nobody" in (await api.post("/api/threads", {"agentId": "nobody"}, 404))["error"]


SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


async def test_a_service_creates_a_thread_with_a_conversation_once_for_each_key() -> None:
    async with serving(ScriptedModel([{"text": "Bye."}])) as api:
        body = {"agentId": "tester", "messages": SAID, "format": "openai", "key": "ticket 7"}
        thread = (await api.post("/api/threads", body, 201))["thread"]
        assert (thread["key"], thread["created"]) == ("ticket 7", True)
        again = (await api.post("/api/threads", body, 201))["thread"]
        assert (again["id"], again["created"]) == (thread["id"], False)
        assert "created" not in (await api.get(f"/api/threads/{thread['id']}"))["thread"]
        run_id = await api.run(thread["id"], "Bye")
        await api.rig.rt.runs.wait(run_id, 10)
        messages = (await api.get(f"/api/threads/{thread['id']}/messages"))["messages"]
        assert [(each["content"], each.get("imported")) for each in messages] == [
            ("Hi", True),
            ("Hello", True),
            ("Bye", None),
            ("Bye.", None),
        ]


async def test_a_conversation_that_cannot_be_imported_names_the_message() -> None:
    async with serving() as api:
        for messages, path in (
            ([*SAID, {"role": "tool", "content": ""}], "messages.2.tool_call_id"),
            ([3], "messages.0"),
        ):
            refused = await api.post("/api/threads", {"agentId": "tester", "messages": messages}, 400)
            assert refused["details"][0]["path"] == path
        refused = await api.post(
            "/api/threads", {"agentId": "tester", "messages": SAID, "format": "gemini"}, 400
        )
        assert refused["details"][0]["path"] == "format"
        assert (await api.get("/api/threads"))["threads"] == []


async def test_a_key_of_another_agents_thread_is_a_conflict() -> None:
    other = tw.Agent("other", instructions="Talk.")
    app = tw.App(agents=[other, tw.Agent("tester", instructions="Talk.")])
    application = gateway(app, tw.Settings(database_url="memory://"))
    transport = httpx2.ASGITransport(application)
    async with (
        application.router.lifespan_context(application),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        read(await client.post("/api/threads", json={"agentId": "other", "key": "k"}), 201)
        refused = read(await client.post("/api/threads", json={"agentId": "tester", "key": "k"}), 409)
        assert refused["error"] == "The key 'k' is that of a thread of another agent. Choose another key."
