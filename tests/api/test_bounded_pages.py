"""Pages of lists end early if their rows are large, and the next pages contain every remaining row."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from fastapi.routing import APIRoute

import toolwright as tw
from tests.api.rig import Api, serving
from tests.journals import is_in_memory
from toolwright.core.limits import PAGE_BYTES, PageLimit
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.web.answers import ListShape

pytestmark = pytest.mark.anyio
JSON = dict[str, Any]
ROWS, LARGE = 5, PAGE_BYTES * 3 // 4  # two rows fill a page
TEXT = "x" * LARGE
MAX_PAGE = 3 * PAGE_BYTES  # bytes of a page: the bound plus the row that exceeds it, each rendered once


@tw.tool(description="Take it.")
async def take(text: str) -> str:
    return "taken"


class Talkative:
    """A model that calls the tool with a large text, then answers with a large text."""

    name = "talkative"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if request.step % 2:
            yield ModelResponse(calls=(ModelCall(id="c", name="take", arguments=json.dumps({"text": TEXT})),))
        else:
            yield ModelResponse(text=TEXT)


async def runs(api: Api) -> str:
    """Return the id of a thread with large messages, runs, calls and events."""
    thread_id = await api.thread()
    for n in range(ROWS):
        run_id = await api.run(thread_id, f"{n}{TEXT}")
        await api.rig.rt.runs.wait(run_id, 30)
    return thread_id


async def messages(api: Api) -> tuple[str, str, JSON]:
    return f"/api/threads/{await runs(api)}/messages", "messages", {}


async def messages_of_run(api: Api) -> tuple[str, str, JSON]:
    thread_id = await runs(api)
    [run, *_] = (await api.get("/api/runs", params={"threadId": thread_id}))["runs"]
    return f"/api/threads/{thread_id}/messages", "messages", {"runId": run["id"]}


async def calls(api: Api) -> tuple[str, str, JSON]:
    await runs(api)
    return "/api/calls", "calls", {"status": "done"}


async def all_runs(api: Api) -> tuple[str, str, JSON]:
    await runs(api)
    return "/api/runs", "runs", {}


async def threads(api: Api) -> tuple[str, str, JSON]:
    for _ in range(ROWS):
        await api.post("/api/threads", {"agentId": "tester", "arguments": {"text": TEXT}}, 201)
    return "/api/threads", "threads", {}


async def spaces(api: Api) -> tuple[str, str, JSON]:
    for n in range(ROWS):
        await api.post("/api/spaces", {"name": f"s{n}", "metadata": {"text": TEXT}}, 201)
    return "/api/spaces", "spaces", {}


async def entities(api: Api) -> tuple[str, str, JSON]:
    for n in range(ROWS):
        body = {"displayName": f"e{n}", "type": "human", "metadata": {"text": TEXT}}
        await api.post("/api/entities", body, 201)
    return "/api/entities", "entities", {}


async def members(api: Api) -> tuple[str, str, JSON]:
    await api.post("/api/spaces", {"name": "Tea", "kind": "public", "id": "tea"}, 201)
    for n in range(ROWS):
        body = {"displayName": f"e{n}", "type": "human", "metadata": {"text": TEXT}}
        entity = (await api.post("/api/entities", body, 201))["entity"]
        await api.post("/api/spaces/tea/members", {"entityId": entity["id"]}, 200)
    return "/api/spaces/tea/members", "members", {}


async def passages(api: Api) -> tuple[str, str, JSON]:
    for n in range(2 * PAGE_BYTES // 60_000):
        await api.rig.rt.passages.add("tester", f"{n}" + "x" * 60_000)
    return "/api/agents/tester/passages", "passages", {"limit": 1_000}


LISTS: list[Callable[[Api], Awaitable[tuple[str, str, JSON]]]] = [
    messages,
    messages_of_run,
    calls,
    all_runs,
    threads,
    spaces,
    entities,
    members,
    passages,
]


@pytest.mark.parametrize("made", LISTS)
async def test_pages_of_large_rows_end_early_and_those_behind_them_have_the_rest(
    made: Callable[[Api], Awaitable[tuple[str, str, JSON]]],
) -> None:
    async with serving(Talkative(), [take]) as api:
        path, plural, query = await made(api)
        seen: list[str] = []
        sizes: list[int] = []
        while True:
            page = await api.client.get(path, params={**query, "offset": len(seen)}, timeout=60)
            assert page.status_code == 200, page.text[:1_000]
            assert len(page.content) <= MAX_PAGE * (2 if plural in ("spaces", "runs") else 1)
            found = page.json()
            assert found[plural], "a page has one row at least"
            seen += [each.get("id") or each.get("callId") or each["entityId"] for each in found[plural]]
            sizes.append(len(page.content))
            if "more" not in found:
                break
        # a journal in memory is not limited, since its rows are in memory already
        assert len(sizes) > 1 or sum(sizes) < MAX_PAGE
        assert len(seen) == len({*seen})
        whole = await api.client.get(path, params={**query, "offset": len(seen)}, timeout=60)
        assert whole.json()[plural] == []


async def space_with_messages(api: Api) -> str:
    await api.post("/api/spaces", {"name": "Tea", "kind": "public", "id": "tea"}, 201)
    entity = await api.post("/api/entities", {"displayName": "Ada", "type": "human"}, 201)
    for n in range(ROWS):
        body = {"content": str(n), "entityId": entity["entity"]["id"], "metadata": {"text": TEXT}}
        await api.post("/api/spaces/tea/messages", body, 201)
    return "/api/spaces/tea/messages"


async def test_messages_of_a_space_are_read_forwards_and_backwards_without_a_gap() -> None:
    async with serving() as api:
        path = await space_with_messages(api)
        behind: list[str] = []
        after = 0
        while True:
            page = await api.get(path, params={"afterSeq": after})
            behind += [each["content"] for each in page["messages"]]
            after = page["messages"][-1]["seq"]
            if "more" not in page:
                break
        assert behind == [str(n) for n in range(ROWS)]
        page = await api.get(path)
        assert "more" in page
        before = [each["content"] for each in page["messages"]]
        while "more" in page:
            page = await api.get(path, params={"beforeSeq": page["messages"][0]["seq"]})
            before = [*[each["content"] for each in page["messages"]], *before]
        assert before == behind


async def test_a_run_says_that_not_all_of_its_messages_are_shown() -> None:
    async with serving(Talkative(), [take]) as api:
        thread_id = await api.thread()
        run_id = await api.run(thread_id, f"0{TEXT}")
        await api.rig.rt.runs.wait(run_id, 30)
        shown = await api.get(f"/api/runs/{run_id}")
        assert shown.get("more", False) is not is_in_memory()  # a journal in memory is not limited
        assert len(await api.rig.rt.runs.messages(run_id)) == 4  # the Python API returns all messages


async def test_every_list_has_a_limit_that_is_bounded_in_bytes() -> None:
    async with serving() as api:
        unbounded = [
            route.path
            for route in api.application.routes
            if isinstance(route, APIRoute)
            for field in route.dependant.query_params
            if field.name == "limit" and not isinstance(field.default, PageLimit)
        ]
        assert unbounded == []
        shapes = {
            route.path: {field.name for field in route.dependant.query_params}
            for route in api.application.routes
            if isinstance(route, APIRoute) and "GET" in (route.methods or ()) and _is_list(route)
        }
        assert [path for path, parameters in shapes.items() if "limit" not in parameters] == []
        assert len(shapes) > 15


def _is_list(route: APIRoute) -> bool:
    shape = route.responses.get(200, {}).get("model")
    return isinstance(shape, type) and issubclass(shape, ListShape)
