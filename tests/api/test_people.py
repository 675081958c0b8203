"""Resources of a person (their threads, runs and calls), and entities over HTTP."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import Stream, read, serving
from tests.api.town import ADA, BOB, SERVICE, person, town
from tests.play import post
from tests.web.signing import SECRET, claims, jwk, provider, rsa_key, signed
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import DefinitionError, Forbidden
from toolwright.core.journal.units import SaveEntity, Unit
from toolwright.core.threads.run import Run
from toolwright.testing import ManualClock
from toolwright.web.auth.permits import check_answer, sight_of_run
from toolwright.web.auth.person_tokens import (
    ExpectedClaims,
    ProviderKeys,
    SharedSecret,
    SignedByProvider,
    over_http,
)
from toolwright.web.options import GatewayOptions
from toolwright.web.routes.runs import FullRunAnswer
from toolwright.wire.run import RunProgress

pytestmark = pytest.mark.anyio

Security = dict[str, list[str]]


async def test_a_persons_thread_is_theirs_whatever_they_say() -> None:
    async with town() as made:
        for user in ({}, {"userId": made.ids["ada"]}, {"userId": "user-ada"}, {"userId": None}):
            body = {"agentId": "tester", **user}
            thread = (await made.post("/api/threads", ADA, body, 201))["thread"]
            assert thread["userId"] == made.ids["ada"]
            await made.get(f"/api/threads/{thread['id']}", BOB, 404)
        before = await made.journal()
        for user_id in (made.ids["bob"], "user-bob", "", "nobody"):
            body = {"agentId": "tester", "userId": user_id}
            shown = await made.post("/api/threads", ADA, body, 403)
            assert shown == {"error": "A thread that you create is your own: leave userId out."}
        assert await made.journal() == before


async def test_a_person_creates_no_thread_with_messages_and_finds_their_own_by_its_key() -> None:
    async with town() as made:
        body: dict[str, object] = {"agentId": "tester", "messages": []}
        shown = await made.post("/api/threads", ADA, body, 403)
        assert shown == {"error": "Only services can create a thread with messages. Leave messages out."}
        keyed = {"agentId": "tester", "key": "k"}
        threads = [(await made.post("/api/threads", who, keyed, 201))["thread"] for who in (ADA, ADA, BOB)]
        assert [each["created"] for each in threads] == [True, False, True]
        assert threads[0]["id"] == threads[1]["id"] != threads[2]["id"]


async def test_a_person_does_not_see_which_agents_there_are() -> None:
    async with town() as made:
        for name in ("teste", "nobody"):
            shown = await made.post("/api/threads", ADA, {"agentId": name}, 404)
            assert shown == {"error": f"There is no agent {name!r}."}
            assert "tester" in (await made.post("/api/threads", SERVICE, {"agentId": name}, 404))["error"]


async def test_a_person_begins_no_request_of_their_own_tools_and_model() -> None:
    async with town() as made:
        request = {"schema": {}, "context": "Go", "config": {"model": "test"}}
        body = {"agentId": "agt_requests", "arguments": request}
        assert await made.post("/api/threads", ADA, body, 404) == {
            "error": "There is no agent 'agt_requests'."
        }
        await made.post("/api/threads", SERVICE, body, 404)


async def test_threads_of_either_id_are_theirs_and_lists_show_no_others() -> None:
    async with town() as made:
        threads = made.api.rig.rt.threads
        theirs = [made.ids["thread_id"]]
        for number in range(6):
            user = (made.ids["bob"], "user-ada", None)[number % 3]
            thread = await threads.create("tester", user)
            theirs += [thread.id] if user == "user-ada" else []
        shown = [one["id"] for one in (await made.get("/api/threads", ADA))["threads"]]
        assert shown == theirs
        page = await made.get("/api/threads", ADA, limit=1, offset=1)
        assert [one["id"] for one in page["threads"]] == theirs[1:2]
        named = await made.get("/api/threads", ADA, userId="user-ada")
        assert [one["id"] for one in named["threads"]] == theirs[1:]
        for other in (made.ids["bob"], "user-bob", "nobody", ""):
            assert await made.get("/api/threads", ADA, userId=other) == {"threads": []}
        assert len((await made.get("/api/threads", SERVICE))["threads"]) == 7
        await made.get(f"/api/threads/{theirs[1]}", ADA)


async def test_a_person_reads_the_calls_of_their_own_threads_and_answers_none() -> None:
    async with town() as made:
        bobs = await made.api.rig.rt.threads.create("tester", "user-bob")
        run = await made.api.rig.rt.threads.send(bobs.id, "Go")
        await made.api.until(run.id, "run.waiting")
        [call] = (await made.get("/api/calls", ADA))["calls"]
        assert (call["callId"], call["args"]) == (made.ids["call_id"], {"user_name": "Ada"})
        [other] = (await made.get("/api/calls", BOB))["calls"]
        assert other["runId"] == run.id
        assert len((await made.get("/api/calls", SERVICE))["calls"]) == 2
        foreign = await made.get("/api/calls", ADA, runId=run.id)
        assert foreign == await made.get("/api/calls", ADA, runId="run_x") == {"calls": []}
        place = f"/api/runs/{made.ids['run_id']}/tool-results"
        shown = await made.post(place, ADA, {"callId": call["callId"], "result": 1}, 403)
        assert shown == {"error": "This call is invisible: only a service may hand in its result."}
        for run_id in (run.id, made.ids["run_id"], "run_x"):
            answer = {"callId": other["callId"], "result": 1}
            shown = await made.post(f"/api/runs/{run_id}/tool-results", ADA, answer, 404)
            assert shown == {"error": "Pending tool call not found"}
        await made.post(place, SERVICE, {"callId": call["callId"], "result": "Ada"}, 200)
        assert (await made.api.rig.rt.runs.wait(made.ids["run_id"], 10)).status == "completed"


async def test_the_messages_of_a_run_do_not_tell_whether_another_persons_run_exists() -> None:
    async with town() as made:
        bobs = await made.api.rig.rt.threads.create("tester", "user-bob")
        run = await made.api.rig.rt.threads.send(bobs.id, "Go")
        place = f"/api/threads/{made.ids['thread_id']}/messages"
        foreign = await made.get(place, ADA, 404, runId=run.id)
        unknown = await made.get(place, ADA, 404, runId="run_x")
        assert foreign["error"].replace(run.id, "run_x") == unknown["error"]


async def test_a_visible_call_outside_any_space_is_a_services_to_answer() -> None:
    shown_one = tw.Tool(
        name="ask_outside",
        description="Ask.",
        kind="external",
        timeout=30.0,
        parameters={"type": "object", "properties": {"user_name": {"type": "string"}}},
    )
    async with town(tools=[shown_one]) as made:
        place = f"/api/runs/{made.ids['run_id']}/tool-results"
        shown = await made.post(place, ADA, {"callId": made.ids["call_id"], "result": 1}, 403)
        assert shown == {
            "error": "This call is not shown in a space of yours: only a service may hand in its result."
        }


def test_what_a_person_sees_of_a_run_and_may_answer() -> None:
    assert sight_of_run(owns=True, caused=False) == sight_of_run(owns=True, caused=True) == "whole"
    assert sight_of_run(owns=False, caused=True) == "status"
    assert sight_of_run(owns=False, caused=False) is None
    check_answer(visible=True, in_their_space=True)
    for visible, in_their_space in ((True, False), (False, True), (False, False)):
        with pytest.raises(Forbidden):
            check_answer(visible=visible, in_their_space=in_their_space)
    run: Run = post("th_1").run
    shown = RunProgress.of(run)
    assert set(shown) == {"id", "status", "agentId", "startedAt", "completedAt"}
    FullRunAnswer.model_validate({"run": shown})


async def test_a_persons_run_is_shown_whole_and_can_be_cancelled() -> None:
    async with town() as made:
        place = f"/api/runs/{made.ids['run_id']}"
        assert await made.get(place, ADA) == await made.get(place, SERVICE)
        assert await made.get(f"{place}/events", ADA) == await made.get(f"{place}/events", SERVICE)
        await made.post(f"{place}/cancel", BOB, None, 404)
        await made.post(f"{place}/cancel", ADA, None, 200)
        assert (await made.api.rig.rt.runs.wait(made.ids["run_id"], 10)).status == "cancelled"
        await made.post(f"{place}/cancel", ADA, None, 409)
        await made.post(f"{place}/cancel", BOB, None, 404)


async def test_a_stream_token_acts_for_the_person_who_asked_for_it() -> None:
    async with town() as made:
        path = f"/api/threads/{made.ids['thread_id']}/stream?after=0"
        token = await made.stream_token(ADA)
        async with made.api.stream(f"{path}&token={token}") as stream:
            await stream.until("run.waiting")
        async with made.api.stream(path, x_public_key="pk", authorization=ADA["authorization"]) as stream:
            await stream.until("run.waiting")
        theirs = await made.get(f"{path}&token={await made.stream_token(BOB)}", {}, 404)
        gone = made.ids["thread_id"].replace("thr_", "thr_x")
        absent = await made.get(f"/api/threads/{gone}/stream?token={await made.stream_token(BOB)}", {}, 404)
        assert absent["error"].replace(gone, made.ids["thread_id"]) == theirs["error"]


async def test_a_stream_ends_when_its_persons_token_does() -> None:
    """A stream that was opened with a stream token continues: the token is checked only when the stream is opened."""
    clock = ManualClock(datetime.now(UTC))
    verify = SharedSecret(SECRET, ExpectedClaims(claim="sub"), clock)
    async with town(clock=clock, verify_token=verify, keep_alive=0.05) as made:
        path = f"/api/threads/{made.ids['thread_id']}/stream"
        soon = person("user-ada", exp=clock.now().timestamp() + 30)
        token = await made.stream_token(soon)
        async with (
            made.api.stream(path, **asked(soon)) as ending,
            made.api.stream(f"/api/runs/{made.ids['run_id']}/stream", **asked(soon)) as ending_too,
            made.api.stream(f"{path}?token={token}") as going_on,
            made.api.stream(path, **asked(ADA)) as longer,
            made.api.stream(path, x_secret_key="sk") as service,
        ):
            for stream in (ending, ending_too, going_on, longer, service):
                assert (await stream.event())["type"] == "connected"
            clock.advance(29)
            assert (await ending.chunk()).startswith(b":")
            clock.advance(1)
            for stream in (ending, ending_too):
                await end_of(stream)
            await made.get(f"/api/threads/{made.ids['thread_id']}", soon, 401)
            await made.post(f"/api/runs/{made.ids['run_id']}/cancel", SERVICE, None, 200)
            for stream in (going_on, longer, service):
                await stream.until("run.cancelled")


async def test_all_streams_of_a_person_end_soon_after_their_entity_is_deleted() -> None:
    async with town(keep_alive=0.05) as made:
        path = f"/api/threads/{made.ids['thread_id']}/stream"
        token, other = await made.stream_token(ADA), await made.stream_token(ADA)
        async with (
            made.api.stream(f"{path}?token={token}") as by_token,
            made.api.stream(path, **asked(ADA)) as by_headers,
            made.api.stream(path, x_secret_key="sk") as service,
        ):
            for stream in (by_token, by_headers, service):
                assert (await stream.event())["type"] == "connected"
            await made.api.rig.rt.entities.delete(made.ids["ada"])
            for stream in (by_token, by_headers):
                await end_of(stream)
            assert "no entity for your token" in (await made.get(f"{path}?token={other}", {}, 403))["error"]
            await made.post(f"/api/runs/{made.ids['run_id']}/cancel", SERVICE, None, 200)
            await service.until("run.cancelled")
        await made.get(f"/api/threads/{made.ids['thread_id']}", SERVICE)


async def end_of(stream: Stream) -> None:
    """Only comments arrive, then the answer ends."""
    while chunk := await stream.chunk():
        assert chunk.startswith(b":")


def asked(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


async def test_keys_and_schemes_are_read_as_they_are_sent() -> None:
    async with town() as made:
        token = ADA["authorization"].split(" ")[1]
        key = "zweiter-ü".encode()
        for scheme in ("Bearer ", "bearer ", "BEARER   "):
            headers = [(b"x-public-key", key), (b"authorization", (scheme + token).encode())]
            assert (await made.api.client.get("/api/threads", headers=headers)).status_code == 200
        both = {**SERVICE, **person("user-nobody")}
        assert "agents" in await made.get("/api/agents", both)


async def test_the_document_says_how_a_service_and_a_person_show_who_they_are() -> None:
    async with town() as made:
        for _ in range(2):
            document = (await made.api.client.get("/openapi.json", headers=SERVICE)).json()
            schemes = document["components"]["securitySchemes"]
            assert set(schemes) == {"secretKey", "publicKey", "personToken", "streamToken"}
            assert schemes["personToken"]["scheme"] == "bearer"
            assert schemes["publicKey"]["name"] == "x-public-key"
            paths = document["paths"]
            service: Security = {"secretKey": []}
            both: Security = {"publicKey": [], "personToken": []}
            assert paths["/api/agents"]["get"]["security"] == [service]
            assert paths["/api/threads"]["get"]["security"] == [service, both]
            stream = paths["/api/threads/{thread_id}/stream"]["get"]["security"]
            assert sorted(map(str, stream)) == sorted(map(str, [service, both, {"streamToken": []}]))
            assert "security" not in paths["/health"]["get"]


async def test_an_entity_is_registered_read_changed_and_deleted() -> None:
    async with serving() as api:
        body = {"type": "human", "externalId": "u1", "displayName": "Ü", "metadata": {"snake_case": [None]}}
        entity = (await api.post("/api/entities", body, 201))["entity"]
        assert set(entity) == {
            "id", "type", "externalId", "displayName", "metadata", "createdAt", "updatedAt"
        }  # fmt: skip
        assert {name: entity[name] for name in body} == body
        assert (await api.post("/api/entities", body))["entity"] == entity
        again = (await api.post("/api/entities", {"type": "human", "externalId": "u1", "displayName": None}))[
            "entity"
        ]
        assert (again["id"], again["displayName"], again["metadata"]) == (
            entity["id"],
            None,
            body["metadata"],
        )
        place = f"/api/entities/{entity['id']}"
        assert await api.get(place) == {"entity": again}
        changed = read(await api.client.patch(place, json={"metadata": {}, "externalId": "u2"}), 200)[
            "entity"
        ]
        assert (changed["externalId"], changed["metadata"], changed["displayName"]) == ("u2", {}, None)
        assert read(await api.client.patch(place, json={}), 200)["entity"] == changed
        other = (await api.post("/api/entities", {"type": "human"}, 201))["entity"]
        taken = await api.client.patch(f"/api/entities/{other['id']}", json={"externalId": "u2"})
        assert "'u2'" in read(taken, 409)["error"]
        listed = (await api.get("/api/entities"))["entities"]
        assert [one["type"] for one in listed] == ["agent", "human", "human"]
        assert listed[1:] == [changed, other]
        assert (await api.get("/api/entities", params={"limit": 1, "offset": 2}))["entities"] == [other]
        assert read(await api.client.delete(place), 200) == {"success": True}
        for method in ("GET", "DELETE"):
            read(await api.client.request(method, place), 404)
        read(await api.client.patch(place, json={}), 404)
        assert (await api.post("/api/entities", body, 201))["entity"]["id"] != entity["id"]


async def test_an_agent_is_an_entity_that_cannot_be_changed() -> None:
    async with serving() as api:
        agent = api.rig.rt.agents.declared[0]
        place = f"/api/entities/{agent.entity_id}"
        shown = (await api.get(place))["entity"]
        assert (shown["type"], shown["displayName"], shown["createdAt"]) == ("agent", "tester", None)
        for response in (
            await api.client.patch(place, json={"metadata": {}}),
            await api.client.delete(place),
        ):
            assert "is the agent 'tester'" in read(response, 403)["error"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "type"),
        ({"type": "agent"}, "type"),
        ({"type": "human", "externalId": 5}, "externalId"),
        ({"type": "human", "externalId": ""}, "externalId"),
        ({"type": "human", "externalId": "ent_x"}, "externalId"),
        ({"type": "human", "externalId": "x" * 513}, "externalId"),
        ({"type": "human", "externalId": "a\x00"}, "externalId"),
        ({"type": "human", "displayName": "\ud800"}, "displayName"),
        ({"type": "human", "metadata": [1]}, "metadata"),
        ({"type": "human", "metadata": None}, "metadata"),
        ({"type": "human", "id": "ent_1"}, "id"),
    ],
)
async def test_an_invalid_entity_is_refused_with_its_path(body: dict[str, Any], path: str) -> None:
    async with serving() as api:
        response = await api.client.post("/api/entities", content=json.dumps(body).encode())
        assert read(response, 400)["details"][0]["path"] == path
        assert len((await api.get("/api/entities"))["entities"]) == 1


async def test_racing_registrations_over_http_make_one_entity() -> None:
    async with serving() as api:
        bodies = [{"type": "human", "externalId": "u1", "metadata": {"n": n}} for n in range(20)]
        answers = await asyncio.gather(*(api.client.post("/api/entities", json=body) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
        assert len({answer.json()["entity"]["id"] for answer in answers}) == 1


async def test_a_registration_that_the_journal_cannot_write_is_answered_once_more_later() -> None:
    async def closed(_: int, unit: Unit) -> None:
        if isinstance(unit, SaveEntity):
            await api.rig.store.inner.close()

    async with serving() as api:
        api.rig.store.before = closed
        response = await api.client.post("/api/entities", json={"type": "human"})
        read(response, 503)
        assert response.headers["retry-after"] == "1"


async def test_people_of_an_identity_provider_come_with_its_tokens() -> None:
    clock = SystemClock()
    async with provider(jwk(rsa_key())) as idp:
        verify = SignedByProvider(ProviderKeys(over_http(idp.url), clock), ExpectedClaims(claim="sub"), clock)
        async with town(verify_token=verify) as made:
            token = signed(claims("user-ada"), rsa_key(), "RS256", kid="k1")
            ada = {"x-public-key": "pk", "authorization": f"Bearer {token}"}
            assert len((await made.get("/api/threads", ada))["threads"]) == 1
            await made.get("/api/threads", ADA, 401)
            await made.get("/api/threads", {**ada, "x-public-key": "wrong"}, 401)
            assert idp.asked == 1


async def test_without_the_providers_keys_people_are_asked_to_come_again() -> None:
    clock = SystemClock()
    async with provider() as idp:
        idp.status = 500
        verify = SignedByProvider(ProviderKeys(over_http(idp.url), clock), ExpectedClaims(claim="sub"), clock)
        async with town(verify_token=verify) as made:
            token = signed(claims("user-ada"), rsa_key(), "RS256", kid="k1")
            for path in ("/api/threads", "/api/agents"):
                headers = {"x-public-key": "pk", "authorization": f"Bearer {token}"}
                response = await made.api.client.get(path, headers=headers)
                assert "cannot be fetched" in read(response, 503)["error"]
                assert "127.0.0.1" not in response.text
                assert response.headers["retry-after"] == "1"
            await made.get("/api/threads", {**ADA, "x-public-key": "wrong"}, 401)
            await made.get("/api/agents", SERVICE)


async def test_pages_may_send_what_people_need() -> None:
    async with town(cors_origins=("https://app.example",)) as made:
        asks = {
            "Origin": "https://app.example",
            "Access-Control-Request-Method": "DELETE",
            "Access-Control-Request-Headers": "authorization, x-public-key, content-type",
        }
        response = await made.api.client.options("/api/threads", headers=asks)
        assert response.status_code == 200
        allowed = response.headers["access-control-allow-headers"].lower()
        assert "authorization" in allowed
        assert "x-public-key" in allowed


async def test_a_gateway_with_public_keys_needs_a_way_to_verify_tokens() -> None:
    assert GatewayOptions(clock=SystemClock(), public_keys=("pk",)).verify_token is None
    with pytest.raises(DefinitionError, match="verify"):
        async with serving(public_keys=("pk",)):
            pass


async def test_a_thread_of_a_deleted_person_is_there_for_who_has_its_id() -> None:
    """When the person returns, a thread with the external id is theirs again; a thread of the old entity is not."""
    async with town() as made:
        kept = await made.api.rig.rt.threads.create("tester", "user-ada")
        await made.api.rig.rt.entities.delete(made.ids["ada"])
        again = await made.api.rig.rt.entities.create(external_id="user-ada")
        assert again.id != made.ids["ada"]
        assert [one["id"] for one in (await made.get("/api/threads", ADA))["threads"]] == [kept.id]
        await made.get(f"/api/threads/{made.ids['thread_id']}", ADA, 404)
