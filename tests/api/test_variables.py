"""Requests for values over HTTP and by the client (S0 §6, D24)."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import Api, read, serving
from tests.api.town import ADA, BOB, SERVICE, town
from tests.behaviour.marks import requirement
from tests.client.rig import client_of
from tests.kit import call
from tests.web.signing import SECRET
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import InvalidRequest, NotFound, VariablesRequired
from toolwright.testing import ScriptedModel
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret

pytestmark = pytest.mark.anyio

KEY = "sk-0123456789"


@tw.tool(
    description="Search.",
    variables=[
        tw.Variable("API_KEY", type="secret", description="The key"),
        tw.Variable("REGION", description="Where"),
    ],
)
async def search(state: tw.ThreadState) -> str:
    return f"{await state.env_type('REGION')} {await state.env('API_KEY')}"


def model() -> ScriptedModel:
    return ScriptedModel([call("search"), {"text": "Done."}])


@asynccontextmanager
async def asking(owner: str | None = None, **options: Any) -> AsyncGenerator[tuple[Api, str, str, str]]:
    """Yield a thread, its suspended run, and the request."""
    async with serving(model(), [search], **options) as api:
        user = None if owner is None else (await api.rig.rt.entities.create(external_id=owner)).id
        thread = await api.rig.rt.threads.create("tester", user)
        run = await api.rig.rt.threads.send(thread.id, "Go")
        await api.until(run.id, "variables.required")
        [request] = await api.rig.rt.requests.list(thread.id)
        yield api, thread.id, run.id, request.id


@requirement("S0-6-6")
@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_a_request_is_read_and_answered(prefix: str) -> None:
    async with asking() as (api, thread_id, run_id, request_id):
        path = f"{prefix}/threads/{thread_id}/variables/{request_id}"
        waiting = (await api.get(f"/api/runs/{run_id}"))["run"]["waiting"]
        assert waiting == {
            "reason": "variables",
            "requestId": request_id,
            "missing": ["API_KEY", "REGION"],
            "variablesEndpoint": f"/threads/{thread_id}/variables/{request_id}",
        }
        assert await api.get(path) == {
            "requestId": request_id,
            "agentName": "tester",
            "required": [
                {"name": "API_KEY", "type": "secret", "description": "The key"},
                {"name": "REGION", "type": "text", "description": "Where"},
            ],
            "missing": ["API_KEY", "REGION"],
        }
        lacking = await api.post(path, {"env": {"API_KEY": KEY}}, 422)
        assert lacking == {"error": "Values are still missing: 'REGION'.", "missing": ["REGION"]}
        done = await api.post(path, {"env": {"REGION": "eu"}})
        assert done == {"requestId": request_id, "status": "success"}
        run = await api.rig.rt.runs.wait(run_id, 10)
        assert run.status == "completed"
        result = (await api.rig.transcript(thread_id))[2]
        assert result.content == "text [redacted:API_KEY]"
        gone = await api.post(path, {"env": {"REGION": "eu"}}, 404)
        assert gone == {"error": f"There is no open request {request_id!r}."}
        assert "waiting" not in (await api.get(f"/api/runs/{run_id}"))["run"]


@pytest.mark.parametrize(
    "body", [{}, {"env": []}, {"env": {"OTHER": "x"}}, {"env": {"API_KEY": 1}}, {"ENV": {}}]
)
async def test_an_invalid_answer_is_a_400_and_keeps_nothing(body: dict[str, Any]) -> None:
    async with asking() as (api, thread_id, _, request_id):
        said = await api.post(f"/threads/{thread_id}/variables/{request_id}", body, 400)
        assert said["details"]
        assert await api.rig.rt.threads.env(thread_id) == {}


async def test_a_value_is_in_no_answer() -> None:
    async with asking() as (api, thread_id, _, request_id):
        path = f"/api/threads/{thread_id}/variables/{request_id}"
        for env in (
            {"OTHER": KEY},
            {"API_KEY": [KEY]},
            {"API_KEY": {"value": KEY, "type": "text"}},
            {"API_KEY": KEY},
        ):
            said = json.dumps((await api.client.post(path, json={"env": env})).json())
            assert KEY not in said
        assert KEY not in json.dumps(await api.get(path))


async def test_only_the_paths_of_requests_are_taken_without_api() -> None:
    async with asking() as (api, thread_id, _, request_id):
        for path in (f"/threads/{thread_id}", f"/threads/{thread_id}/variables/{request_id}/", "/threads"):
            assert (await api.client.get(path)).status_code == 404
        assert (await api.client.delete(f"/threads/{thread_id}/variables/{request_id}")).status_code == 405


async def test_a_person_answers_in_their_own_threads_what_was_asked_for() -> None:
    keys: dict[str, Any] = {
        "secret_keys": ("sk",),
        "public_keys": ("pk", "zweiter-ü"),
        "verify_token": SharedSecret(SECRET, ExpectedClaims(claim="sub"), SystemClock()),
    }
    async with asking("user-ada", **keys) as (api, thread_id, run_id, request_id):
        await api.rig.rt.entities.create(external_id="user-bob")
        path = f"/threads/{thread_id}/variables/{request_id}"
        env = f"/api/threads/{thread_id}/env"

        async def asked(method: str, url: str, who: dict[str, str], body: Any, status: int) -> dict[str, Any]:
            return read(await api.client.request(method, url, headers=who, json=body), status)

        for method in ("GET", "POST"):
            said = await asked(method, path, BOB, {"env": {"API_KEY": KEY}}, 404)
            assert said == {"error": f"There is no open request {request_id!r}."}
        await asked("PATCH", env, BOB, {"env": {"REGION": "eu"}}, 404)
        await asked("PATCH", env, ADA, {"env": {"REGION": "eu", "OTHER": "x"}}, 403)
        assert await asked("PATCH", env, ADA, {"env": {"REGION": "eu"}}, 200) == {
            "env": {"REGION": {"type": "text"}}
        }
        await asked("POST", path, ADA, {"env": {"OTHER": KEY}}, 400)
        shown = await asked("GET", f"/api/runs/{run_id}", ADA, None, 200)
        assert shown["run"]["waiting"]["requestId"] == request_id
        await asked("POST", path, ADA, {"env": {"API_KEY": KEY}}, 200)
        assert (await api.rig.rt.runs.wait(run_id, 10)).status == "completed"
        await asked("PATCH", env, ADA, {"env": {"REGION": "us"}}, 403)  # no longer requested
        await asked("PATCH", env, SERVICE, {"env": {"OTHER": "x"}}, 200)


async def test_the_client_answers_requests() -> None:
    async with asking() as (api, thread_id, run_id, request_id), client_of(api.port) as client:
        run = await client.runs.get(run_id)
        assert run.waiting is not None
        assert run.waiting["requestId"] == request_id
        wanted = await client.requests.get(thread_id, request_id)
        assert (wanted.agent_name, wanted.missing) == ("tester", ("API_KEY", "REGION"))
        assert [(each.name, each.type) for each in wanted.required] == [
            ("API_KEY", "secret"),
            ("REGION", "text"),
        ]
        with pytest.raises(InvalidRequest):
            await client.requests.answer(thread_id, request_id, {"OTHER": "x"})
        with pytest.raises(VariablesRequired) as lacking:
            await client.requests.answer(thread_id, request_id, {"API_KEY": KEY})
        assert lacking.value.missing == ["REGION"]
        done = await client.requests.answer(thread_id, request_id, {"REGION": "eu"})
        assert (done.request_id, done.child_thread_id) == (request_id, None)
        with pytest.raises(NotFound):
            await client.requests.get(thread_id, request_id)
        assert (await client.runs.wait(run_id, 10)).status == "completed"
        assert await client.threads.children(thread_id) == []


async def test_a_person_begins_the_child_of_their_thread_and_sees_it_among_its_children() -> None:
    async with town() as made:
        thread_id, request_id = made.ids["thread_id"], made.ids["request_id"]
        path = f"/threads/{thread_id}/variables/{request_id}"
        done = await made.post(path, ADA, {"env": {}}, 200)
        assert done == {"requestId": request_id, "status": "success", "childThreadId": "thr_child"}
        [child] = (await made.get(f"/api/threads/{thread_id}/children", ADA))["children"]
        assert (child["id"], child["reference"], child["name"]) == ("thr_child", "thr_child", "Ann")
        assert (child["parentThreadId"], child["childStatus"]) == (thread_id, "running")
        assert (await made.get("/api/threads/thr_child", SERVICE))["thread"]["parentThreadId"] == thread_id
        async with client_of(made.api.port, secret_key="sk") as client:
            [seen] = await client.threads.children(thread_id)
            assert (seen.id, seen.reference, seen.name, seen.child_status) == (
                child["id"],
                child["id"],
                "Ann",
                "running",
            )
        await made.get(f"/api/threads/{thread_id}/children", BOB, 404)
