"""Every route called with the client, against a served runtime."""

import asyncio
import base64
import inspect
import re
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import httpx2
import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.api.documented import document
from tests.api.rig import asking, serving
from tests.client.rig import client_of
from tests.conformance.test_spaces import act
from toolwright.client import Client, Goal, GoalChange, Memory, MemoryChange, Plan, PlanChange
from toolwright.core.agents import mind
from toolwright.core.errors import (
    AlreadyExists,
    CallCancelled,
    CallClaimed,
    CallResolved,
    Forbidden,
    InvalidJSON,
    InvalidRequest,
    NotFailed,
    NotFound,
    StoreError,
    TenvsRequired,
    ThreadBusy,
    TooLarge,
    Unauthorized,
)
from toolwright.core.journal.agent_effects import SetPlan
from toolwright.core.journal.rows import Put
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def hello() -> ScriptedModel:
    return ScriptedModel([{"text": "Hi."}])


async def test_a_text_in_place_of_a_list_is_rejected_and_not_split() -> None:
    wrong: Any = "guide"
    async with serving(hello()) as api, client_of(api.port) as client:
        for attempt in (
            client.threads.create("tester", tags=wrong),
            client.blocks.write("tester", "notes", "Text", wrong),
            client.passages.add("tester", "Text", wrong),
        ):
            with pytest.raises(InvalidRequest, match=r"(tags|readers) must be a list"):
                await attempt


async def test_a_thread_continues_the_messages_of_another_and_is_found_by_its_key() -> None:
    async with serving(hello()) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        sent = await client.threads.send(
            thread.id, "Go", [tw.Attachment(name="a.txt", mime_type="text/plain", data=b"a")]
        )
        await client.runs.wait(sent.run_id, 10)
        messages = await client.threads.messages(thread.id)
        copy = await client.threads.create("tester", messages=messages, key="copy")
        assert (copy.created, copy.key) == (True, "copy")
        assert not (await client.threads.create("tester", messages=messages, key="copy")).created
        said = await client.threads.messages(copy.id)
        assert [(each.role, each.content) for each in said] == [
            ("user", "Go\n[file: a.txt]"),
            ("assistant", "Hi."),
        ]
        assert [each.source_id for each in said] == [each.id for each in messages]
        assert all(each.imported for each in said)
        with pytest.raises(InvalidRequest, match=r"messages\.0\.role is missing"):
            await client.threads.create("tester", messages=[{"content": "Hi"}])


async def test_one_tool_or_status_can_be_given_as_text() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        await client.threads.send(thread.id, "Go")
        async with asyncio.timeout(20), aclosing(client.calls.offers("ask_outside")) as offers:
            offer = await anext(offers)
        [call] = await client.calls.list("waiting")
        assert (call.id, call.name) == (offer.call_id, "ask_outside")


async def test_a_conversation_from_beginning_to_end() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        [agent] = await client.agents.list()
        assert agent == await client.agents.get("tester")
        assert (agent.name, agent.type) == ("tester", "ai_human")
        thread = await client.threads.create(
            "tester", "u1", tags=["Ü"], arguments={"snake_case": {"camelCase": None}}
        )
        assert (thread.agent, thread.user_id, thread.tags) == (agent.id, "u1", ("Ü",))
        sent = await client.threads.send(thread.id, "Go \U0001f642")
        assert sent.message.content == "Go \U0001f642"
        await api.until(sent.run_id, "run.waiting")
        [call] = await client.calls.list(run_id=sent.run_id)
        assert (call.name, call.args, call.status) == ("ask_outside", {"user_name": "Ada"}, "waiting")
        assert (await client.runs.get(sent.run_id)).status == "waiting"
        await client.calls.submit(sent.run_id, call.id, {"snake_case": None})
        run = await client.runs.wait(sent.run_id, 10)
        assert (run.status, run.stop_reason, run.output) == ("completed", "end_turn", "Thanks.")
        assert [step.number for step in run.steps][-1] == 2
        prompts = await client.runs.prompts(run.id)
        assert [(each.step, each.compaction) for each in prompts] == [(1, None), (2, None)]
        assert [each.context for each in prompts] == [step.context for step in run.steps if step.context]
        assert [each.role for each in prompts[1].messages] == ["user", "assistant", "tool"]
        assert [tool.name for tool in prompts[0].tools or ()] == ["ask_outside"]
        assert await client.runs.prompts(run.id, limit=1, offset=1) == prompts[1:]
        [resolved] = await client.calls.list("resolved")
        assert (resolved.result, resolved.args) == ({"snake_case": None}, call.args)
        assert await client.calls.list(["waiting", "pending"]) == []
        said = await client.threads.messages(thread.id)
        assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"]
        assert (said[2].call_id, said[2].status, said[1].calls[0].id) == (call.id, "success", call.id)
        assert await client.threads.messages(thread.id, limit=1, offset=2) == [said[2]]
        assert [one.id for one in await client.threads.list("u1")] == [thread.id]
        assert await client.threads.get(thread.id) == thread
        [listed] = await client.runs.list(agent="tester", thread_id=thread.id, status="completed")
        assert (listed.id, listed.steps) == (run.id, ())
        events = await client.runs.events(run.id)
        assert events[-1].type == "run.completed"
        assert await client.runs.events(run.id, after=events[1].n or 0, limit=2) == events[2:4]
        assert (await client.health()).status == (await client.ready()).status == "ok"


@pytest.mark.parametrize("result", [None, False, 0, "", [], tw.ToolResult.ok("ä")])
async def test_any_value_is_a_result(result: tw.ToolResult | None) -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        run_id, call_id = await api.waiting()
        await client.calls.submit(run_id, call_id, result)
        [call] = await client.calls.list("resolved")
        assert call.result == (result.result if isinstance(result, tw.ToolResult) else result)


@pytest.mark.parametrize("by", ["error", "result"])
async def test_a_failure_is_submitted_as_text(by: str) -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        run_id, call_id = await api.waiting()
        if by == "error":
            await client.calls.submit(run_id, call_id, error="No luck.")
        else:
            await client.calls.submit(run_id, call_id, tw.ToolResult.fail("No luck."))
        [call] = await client.calls.list("resolved")
        assert call.result == {"error": "No luck."}


async def test_a_submission_that_cannot_be_taken_is_the_error_of_the_runtime() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        run_id, call_id = await api.waiting()
        other = await api.run(await api.thread())
        with pytest.raises(Forbidden, match="another run"):
            await client.calls.submit(other, call_id, 1)
        with pytest.raises(NotFound, match="Pending tool call not found"):
            await client.calls.submit(run_id, "call_x", 1)
        with pytest.raises(InvalidRequest, match="either"):
            await client.calls.submit(run_id, call_id, 1, error="x")
        with pytest.raises(InvalidRequest, match="a JSON value or an error message"):
            await client.calls.submit(run_id, call_id, tw.ToolResult.fail("x", error_code="y"))
        with pytest.raises(InvalidJSON):
            await client.calls.submit(run_id, call_id, float("nan"))
        await client.calls.submit(run_id, call_id, 1)
        with pytest.raises(CallResolved, match="Tool call already resolved"):
            await client.calls.submit(run_id, call_id, 2)


async def test_a_call_is_claimed_and_cancelled() -> None:
    async with serving() as api, client_of(api.port) as client:
        _, call_id = await api.waiting()
        for _ in range(2):
            claimed = await client.calls.claim(call_id, "ann", 1.5)
            assert (claimed.id, claimed.status, claimed.args) == (call_id, "waiting", {"user_name": "Ada"})
        with pytest.raises(CallClaimed):
            await client.calls.claim(call_id, "bob", 60)
        with pytest.raises(InvalidRequest) as caught:
            await client.calls.claim(call_id, "bob", 0.5)
        assert caught.value.details[0]["path"] == "leaseMs"
        assert (await client.calls.cancel(call_id)).status == "cancelled"
        with pytest.raises(CallCancelled):
            await client.calls.cancel(call_id)
        with pytest.raises(CallCancelled):
            await client.calls.claim(call_id, "ann", 1.5)
        with pytest.raises(NotFound):
            await client.calls.cancel("call_none")


async def test_a_thread_is_deleted_with_what_runs_in_it() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        sent = await client.threads.send(thread.id, "Go")
        with pytest.raises(ThreadBusy):
            await client.threads.delete(thread.id)
        await client.threads.delete(thread.id, cancel=True)
        for gone in (
            client.threads.get(thread.id),
            client.runs.get(sent.run_id),
            client.threads.delete(thread.id),
        ):
            with pytest.raises(NotFound):
                await gone


async def test_files_are_sent_listed_and_read() -> None:
    async with serving(hello()) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        content = bytes(range(256))
        data = base64.b64encode(content).decode()
        files = [
            tw.Attachment(name="ä #?%.bin", mime_type="application/octet-stream", data=data),
            tw.Attachment(name="dot.png", mime_type="image/png", data=data, width=1, height=2),
        ]
        sent = await client.threads.send(thread.id, "See", files)
        found = await client.files.list(thread.id)
        assert sorted(ref.path for ref in sent.message.attachments) == [file.path for file in found]
        assert [(file.size, file.width) for file in found] == [(256, 1), (256, None)]
        for file in found:
            assert await client.files.read(thread.id, file.path) == content
        assert await client.files.list(thread.id, limit=1, offset=1) == found[1:]
        with pytest.raises(NotFound):
            await client.files.read(thread.id, "/attachments/none.png")


async def test_env_is_set_and_taken_away_and_only_names_come_back() -> None:
    async with serving(hello()) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester", env={"A": "one"})
        names = await client.threads.set_env(thread.id, {"B": {"value": "two", "type": "text"}, "C": "three"})
        assert names == {"A": "secret", "B": "text", "C": "secret"}
        assert await client.threads.set_env(thread.id, {"A": None, "C": None}) == {"B": "text"}
        with pytest.raises(InvalidRequest) as caught:
            await client.threads.set_env(thread.id, {"D": {"type": "text"}})
        assert caught.value.details[0]["path"] == "env.D"


class Needed(BaseModel):
    store: Annotated[str, tw.Secret]
    shelf: int


async def test_missing_tenvs_are_all_named() -> None:
    @tw.tool(description="Look.", tenvs=Needed)
    async def look() -> str:
        return "x"

    async with serving(hello(), [look]) as api, client_of(api.port) as client:
        with pytest.raises(TenvsRequired) as caught:
            await client.threads.create("tester", tenvs={"shelf": "three"})
        assert caught.value.missing == ["store"]
        assert [each["name"] for each in caught.value.invalid] == ["shelf"]
        assert (await client.threads.create("tester", tenvs={"store": "s", "shelf": 3})).status == "idle"


async def test_inboxes_are_read_and_retried() -> None:
    async with serving(hello()) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        sent = await client.threads.send(thread.id, "Hi")
        await client.runs.wait(sent.run_id, 10)
        [event] = await client.inboxes.list("tester", thread.id)
        assert (event.type, event.status) == ("message", "processed")
        assert event == (await client.inboxes.list("tester", thread.id, limit=5))[0]
        with pytest.raises(NotFailed):
            await client.inboxes.retry("tester", event.event_id, thread.id)
        with pytest.raises(NotFound):
            await client.inboxes.list("nobody")


async def test_a_key_is_needed_where_the_server_has_one() -> None:
    async with serving(hello(), secret_keys=("k",)) as api:
        async with client_of(api.port) as stranger:
            with pytest.raises(Unauthorized):
                await stranger.threads.list()
            with pytest.raises(Unauthorized):
                await anext(stranger.threads.follow("thr_x"))
            assert (await stranger.health()).status == "ok"
        async with client_of(api.port, secret_key="k") as client:
            thread = await client.threads.create("tester")
            made = await client.stream_token()
            assert made.expires_at.tzinfo is not None
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{api.port}") as browser:
            path = f"/api/threads/{thread.id}/stream?token={made.token}"
            async with browser.stream("GET", path) as opened:
                assert opened.status_code == 200


async def test_a_person_gives_a_public_key_and_a_fresh_token_for_each_request() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={"threads": []})

    tokens = iter("abcd")

    async def fresh() -> str:
        return next(tokens)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        for token in ("fixed", lambda: next(tokens), fresh):
            client = Client("https://example.org/base/", public_key="pk", token=token, http=http)
            await client.threads.list()
            await client.threads.list()
    assert [request.headers["authorization"] for request in asked] == [
        f"Bearer {token}" for token in ("fixed", "fixed", "a", "b", "c", "d")
    ]
    assert {request.headers["x-public-key"] for request in asked} == {"pk"}
    assert {str(request.url) for request in asked} == {
        "https://example.org/base/api/threads?limit=50&offset=0"
    }


async def test_a_journal_that_cannot_be_written_is_reported() -> None:
    async with serving(hello()) as api, client_of(api.port) as client:
        await api.rig.store.inner.close()
        health = await client.health()
        assert health.status == "unavailable"
        assert health.error
        with pytest.raises(StoreError) as caught:
            await client.threads.create("tester")
        assert caught.value.retry_after == 1.0


async def test_ids_are_never_more_than_one_part_of_a_path() -> None:
    async with serving(hello()) as api, client_of(api.port) as client:
        for odd in ("../agents", "..", ".", "a/b", "a?b=c", "a#b", "%2e%2e", "ü \n", "\x00"):
            with pytest.raises((NotFound, InvalidRequest)):
                await client.threads.get(odd)
        for none in ("", "\ud800"):
            with pytest.raises(InvalidRequest, match="id"):
                await client.threads.get(none)


async def test_a_body_that_is_too_large_is_reported_as_such() -> None:
    async with serving(hello(), max_body=1_000) as api, client_of(api.port) as client:
        thread = await client.threads.create("tester")
        with pytest.raises(TooLarge, match="limit of 1000 bytes"):
            await client.threads.send(thread.id, "x" * 2_000)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://x", "http://", "http://x?y", "http://x:port", "//x"]
)
def test_an_invalid_base_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidRequest, match="URL"):
        Client(url)


@pytest.mark.parametrize("bad", ["k\r\nx: y", "kü", " ", ""])
def test_keys_that_no_header_can_carry_are_refused_and_not_repeated(bad: str) -> None:
    attempts = (
        lambda: Client("http://localhost", secret_key=bad),
        lambda: Client("http://localhost", public_key=bad),
        lambda: Client("http://localhost", token=bad),
    )
    for attempt in attempts:
        with pytest.raises(InvalidRequest) as caught:
            attempt()
        assert not bad.strip() or bad not in caught.value.message


async def test_entities_are_made_changed_and_deleted() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        ada = await client.entities.create(external_id="user-ada", metadata={"a": [1]})
        assert (ada.type, ada.external_id, ada.display_name, ada.metadata) == (
            "human",
            "user-ada",
            None,
            {"a": [1]},
        )
        named = await client.entities.update(ada.id, display_name="Ada")
        assert (named.display_name, named.external_id) == ("Ada", "user-ada")
        assert await client.entities.create(external_id="user-ada") == named
        agent, human = await client.entities.list()
        assert (agent.type, human) == ("agent", named)
        assert await client.entities.get(ada.id) == named
        assert await client.entities.set_env(
            ada.id, {"A": "secret-of-ada", "B": {"value": "b", "type": "text"}}
        ) == {
            "A": "secret",
            "B": "text",
        }
        with pytest.raises(TypeError, match=r"An entity has no field 'type'\. Its fields are external_id"):
            await client.entities.create(type="human")  # type: ignore[call-arg]  # without the argument that the route requires
        other = await client.entities.create(external_id="user-bob")
        with pytest.raises(AlreadyExists):
            await client.entities.update(other.id, external_id="user-ada")
        with pytest.raises(Forbidden):
            await client.entities.delete(agent.id)
        await client.entities.delete(ada.id)
        with pytest.raises(NotFound):
            await client.entities.get(ada.id)


async def test_what_an_agent_keeps_in_mind_is_read() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        agent = await client.agents.get("tester")
        for nothing in (client.agents.goals, client.agents.memories, client.agents.plans):
            assert await nothing("tester") == []
            with pytest.raises(NotFound, match="no agent"):
                await nothing("nobody")
        at = datetime(2030, 1, 1, 12, tzinfo=UTC)
        goal = mind.Goal(
            agent_id=agent.id, id="g", description="Tea", status="active", priority="", created_at=at
        )
        memories = [mind.Memory(agent_id=agent.id, key=key, value="\u2028", updated_at=at) for key in "ab"]
        once = mind.Plan(
            agent_id=agent.id, id="once", name="Tea", instruction="Make it.", next_run_at=at, created_at=at
        )
        daily = replace(
            once, id="daily", next_run_at=at + timedelta(days=1), cron="@daily", timezone="Asia/Tokyo"
        )
        effects = [Put(record=goal), *(Put(record=memory) for memory in memories)]
        await api.rig.store.commit(act(*effects, SetPlan(plan=daily), SetPlan(plan=once)))
        assert await client.agents.goals(agent.id) == [
            Goal(id="g", description="Tea", status="active", priority="")
        ]
        assert await client.agents.memories("tester", limit=1, offset=1) == [Memory(key="b", value="\u2028")]
        plans = await client.agents.plans("tester")
        assert plans == [
            Plan(id="once", name="Tea", instruction="Make it.", next_run_at=at),
            plans[0].model_copy(
                update={
                    "id": "daily",
                    "next_run_at": daily.next_run_at,
                    "cron": "@daily",
                    "timezone": "Asia/Tokyo",
                }
            ),
        ]
        shown = (await api.get("/api/agents/tester/plans"))["plans"][0]
        assert shown == {
            "id": "once", "name": "Tea", "instruction": "Make it.", "nextRunAt": "2030-01-01T12:00:00+00:00",
        }  # fmt: skip


async def test_what_an_agent_keeps_in_mind_is_set_and_given_up() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        agents = client.agents
        [goal] = await agents.set_goals("tester", [GoalChange(description="Tea")])
        assert (goal.description, goal.status) == ("Tea", "active")
        [done] = await agents.set_goals("tester", [GoalChange(id=goal.id, status="done")])
        assert done == goal.model_copy(update={"status": "done"})
        key = "a/b \n\u2028"
        assert await agents.set_memories("tester", [MemoryChange(key=key, value="x")]) == [
            Memory(key=key, value="x")
        ]
        [plan] = await agents.set_plans(
            "tester", [PlanChange(name="Tea", instruction="Make it.", run_after="1 hour")]
        )
        await agents.drop_goal("tester", goal.id)
        await agents.drop_memory("tester", key)
        await agents.drop_plan("tester", plan.id)
        for nothing in (agents.goals, agents.memories, agents.plans):
            assert await nothing("tester") == []
        for gone in (
            *(agents.drop_goal("tester", goal.id), agents.drop_memory("tester", key)),
            agents.drop_plan("tester", plan.id),
        ):
            with pytest.raises(NotFound):
                await gone
        with pytest.raises(InvalidRequest) as refused:
            await agents.set_goals("tester", [GoalChange(status="done")])
        assert refused.value.details == [{"path": "goals.0.description", "message": "is needed"}]


async def test_the_memory_of_an_agent_is_written_read_and_searched() -> None:
    async with serving(asking()) as api, client_of(api.port) as client:
        await client.agents.create("friend", {})
        block = await client.blocks.write("friend", "the/house ..", "Ours.", ["tester"])
        assert (block.content, block.is_shared) == ("Ours.", True)
        assert block.owner_id == (await client.agents.get("friend")).id
        assert await client.blocks.get("tester", "the/house ..") == block
        assert await client.blocks.list("tester") == [block]
        await client.blocks.unlink("friend", "the/house ..", "tester")
        assert await client.blocks.list("tester") == []
        await client.blocks.link("friend", "the/house ..", "tester")
        await client.blocks.drop("friend", "the/house ..")
        with pytest.raises(NotFound):
            await client.blocks.get("tester", "the/house ..")
        passages = [await client.passages.add("tester", text, ["t"]) for text in ("Tea.", "Steam.")]
        assert await client.passages.list("tester") == passages[::-1]
        assert await client.passages.search("tester", "tea") == passages
        assert await client.passages.get("tester", passages[0].id) == passages[0]
        await client.passages.drop("tester", passages[0].id)
        assert await client.passages.search("tester", "tea", limit=1) == passages[1:]


def _argument(parameter: inspect.Parameter) -> Any:
    """Return a value for a required parameter."""
    kind = str(parameter.annotation)
    if "Mapping" in kind:
        return {}
    if "Sequence" in kind:
        return []
    return 1 if parameter.annotation in (int, float) else "x"


async def _call(method: Any) -> None:
    """Call a method of the client, which is answered 404, with a value for each required parameter."""
    required = [each for each in inspect.signature(method).parameters.values() if each.default is each.empty]
    named = {each.name: _argument(each) for each in required if each.kind is each.KEYWORD_ONLY}
    placed = [_argument(each) for each in required if each.kind is each.POSITIONAL_OR_KEYWORD]
    with suppress(NotFound):
        called = method(*placed, **named)
        await (anext(called) if inspect.isasyncgen(called) else called)


async def test_the_client_has_a_method_for_every_route() -> None:
    """Except for routes that another method calls as well, and those for browsers and Prometheus."""
    left_out = {
        ("GET", "/api/sse"),
        ("GET", "/metrics"),
        ("PATCH", "/api/spaces/{space_id}/members/{entity_id}"),  # `spaces.add_member` sets the role
        ("DELETE", "/api/threads/{thread_id}/messages/{message_id}/pin"),  # `threads.pin` with False
        (
            "DELETE",
            "/api/threads/{thread_id}/messages/{message_id}/hidden",
        ),  # `threads.hide_message` with False
    }
    asked: set[tuple[str, str]] = set()

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.add((request.method, request.url.path))
        return httpx2.Response(404, json={"error": "Not found", "code": "not_found"})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        client = Client("https://example.org", http=http)
        nouns = [each for name, each in vars(client).items() if not name.startswith("_")]
        for noun in (client, *nouns):
            for name, method in inspect.getmembers(noun, inspect.ismethod):
                if not name.startswith("_") and name != "aclose":
                    await _call(method)
    missing = {
        (method.upper(), path)
        for path, item in document().whole["paths"].items()
        for method in item
        if not any(
            (verb, bool(re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), used))) == (method.upper(), True)
            for verb, used in asked
        )
    }
    assert missing == left_out


async def test_a_thread_is_renamed_until_its_name_is_removed() -> None:
    async with serving() as api, client_of(api.port) as client:
        thread_id = await api.thread()
        for name in ("Trip to Oslo", "\U0001f469\u200d\U0001f4bb \u05e9\u05dc\u05d5\u05dd", None):
            assert (await client.threads.rename(thread_id, name)).name == name
            assert (await client.threads.get(thread_id)).name == name
            assert (await api.rig.rt.threads.get(thread_id)).name == name
        for name in (
            "",
            "  ",
            "two\nlines",
            "x" * 201,
            "\u202eoslO",
            "\u2066x",
            "\u200b",
            "\u3164",
            "\U000e0041",
        ):
            with pytest.raises(InvalidRequest) as caught:
                await client.threads.rename(thread_id, name)
            assert caught.value.details[0]["path"] == "name"
        with pytest.raises(NotFound):
            await client.threads.rename("nope", "x")
        await api.client.patch(f"/api/threads/{thread_id}", json={})
        assert (await client.threads.get(thread_id)).name is None
