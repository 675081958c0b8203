"""Who has decided: recorded with calls and runs from the checked credential, whatever the door and the body say."""

import asyncio
from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import JSON, Api, asking, outside, serving
from tests.api.test_approvals import guarded, model
from tests.api.test_variables import KEY
from tests.api.test_variables import asking as missing
from tests.api.town import ADA, BOB, Town, town
from tests.kit import call
from tests.web.signing import SECRET
from toolwright.adapters.system import SystemClock
from toolwright.client import Client
from toolwright.core.threads.event import Topic
from toolwright.testing import FunctionModel
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret

pytestmark = pytest.mark.anyio

DEPLOYER = {"x-secret-key": "sk-deploy"}
KEYS = {"secret_keys": ("sk", "deploy(all)=sk-deploy")}


async def answered(made: Town, headers: dict[str, str], result: Any, status: int = 200) -> JSON:
    """Submit the result, with a body that claims to be somebody else."""
    body = {"callId": made.ids["call_id"], "result": result}
    return await made.post(f"/api/runs/{made.ids['run_id']}/tool-results", headers, body, status)


async def call_of(made: Town, call_id: str | None = None) -> JSON:
    call: JSON = (await made.get(f"/api/calls/{call_id or made.ids['call_id']}", DEPLOYER))["call"]
    return call


async def events_of(api: Api, run_id: str, event_type: str) -> list[JSON]:
    listed = await api.rig.rt.events.list(Topic(kind="run", id=run_id))
    payloads: list[JSON] = [each.payload for each in listed if each.type == event_type]
    return payloads


@pytest.mark.parametrize(
    ("who", "by"),
    [
        (ADA, {"kind": "person", "id": "ada", "name": "user-ada"}),
        (DEPLOYER, {"kind": "service", "id": "deploy", "name": "deploy"}),
        ({"x-secret-key": "sk"}, {"kind": "service", "id": None, "name": None}),
    ],
)
async def test_an_approval_is_recorded_with_the_credential_of_its_caller(
    who: dict[str, str], by: JSON
) -> None:
    async with town(model=model(), tools=[guarded()], **KEYS) as made:
        by = by | {"id": made.ids["ada"]} if by["id"] == "ada" else by
        assert "decision" not in await call_of(made)
        await answered(made, who, {"approved": True, "args": {"user_name": "Bob"}})
        decision = (await call_of(made))["decision"]
        assert decision["by"] == by and decision["action"] == "approved" and decision["door"] == "http"
        assert decision["args"] == {"user_name": "Bob"} and len(decision["termsHash"]) == 32
        [told] = await events_of(made.api, made.ids["run_id"], "tool.approved")
        assert told["decision"] == decision and told["args"] == {"user_name": "Bob"}


async def test_a_refusal_names_who_has_refused_on_which_arguments() -> None:
    async with town(model=model(), tools=[guarded()], **KEYS) as made:
        await answered(made, ADA, {"approved": False, "reason": "no"})
        decision = (await call_of(made))["decision"]
        assert (decision["action"], decision["by"]["id"]) == ("rejected", made.ids["ada"])
        assert decision["args"] == {"user_name": "Ada"}


async def test_of_two_answers_at_once_the_call_has_the_decision_of_the_accepted_one() -> None:
    async with town(model=model(), tools=[guarded()], **KEYS) as made:
        body = {"callId": made.ids["call_id"], "result": {"approved": True}}
        place = f"/api/runs/{made.ids['run_id']}/tool-results"
        posts = [made.api.client.post(place, headers=each, json=body) for each in (ADA, DEPLOYER) * 3]
        statuses = [each.status_code for each in await asyncio.gather(*posts)]
        assert statuses.count(200) == 1 and {*statuses} <= {200, 403, 409}
        call = await call_of(made)
        winner = "person" if statuses.index(200) % 2 == 0 else "service"
        assert call["decision"]["by"]["kind"] == winner and "decisions" not in call


async def test_a_result_after_an_approval_is_a_second_decision() -> None:
    tool = tw.Tool(
        name="ask_outside",
        description="Ask.",
        kind="external",
        visible=False,
        timeout=600.0,
        requires_approval=True,
        parameters={"type": "object", "properties": {"user_name": {"type": "string"}}},
    )
    async with town(model=asking(), tools=[tool], **KEYS) as made:
        await answered(made, ADA, {"approved": True})
        await made.api.until(made.ids["run_id"], "tool.started")
        await answered(made, DEPLOYER, "Fine")
        call = await call_of(made)
        assert [(each["action"], each["by"]["kind"]) for each in call["decisions"]] == [
            ("approved", "person"),
            ("submitted", "service"),
        ]
        assert call["decision"] == call["decisions"][1] and call["decision"]["args"] == {"user_name": "Ada"}
        assert "termsHash" not in call["decision"]


async def test_a_cancelled_call_names_the_service() -> None:
    async with town(model=asking(), tools=[outside], **KEYS) as made:
        await made.post(f"/api/calls/{made.ids['call_id']}/cancel", DEPLOYER, None, 200)
        decision = (await call_of(made))["decision"]
        assert (decision["action"], decision["by"]["name"]) == ("cancelled", "deploy")


async def test_an_answer_to_a_question_names_the_person() -> None:
    @tw.tool(name="ask_outside")
    async def ask(state: tw.ThreadState, user_name: str) -> str:
        """Ask."""
        return (await state.elicit("Sure?", {"type": "object", "properties": {}})).action

    verify = SharedSecret(SECRET, ExpectedClaims(claim="sub"), SystemClock())
    people: dict[str, Any] = {**KEYS, "public_keys": ("pk",), "verify_token": verify}
    async with serving(asking(), [ask], **people) as api:
        ada = await api.rig.rt.entities.create(external_id="user-ada", display_name="Ada L.")
        thread = await api.rig.rt.threads.create("tester", ada.id)
        run = await api.rig.rt.threads.send(thread.id, "Go")
        _, wait = await api.rig.rt.runs.wait_for_input(run.id)
        assert wait is not None and wait.call is not None
        made = Town(api, {"run_id": run.id, "call_id": wait.call.id})
        await answered(made, ADA, {"action": "accept", "content": {}})
        decision = (await call_of(made))["decision"]
        assert (decision["action"], decision["by"]) == (
            "submitted",
            {"kind": "person", "id": ada.id, "name": "Ada L."},
        )


async def test_an_expired_call_has_no_decision() -> None:
    async with town(model=model(), tools=[guarded(tw.Approval(expires_in=0.001))], **KEYS) as made:
        await made.api.rig.rt.runs.wait(made.ids["run_id"], 10)
        assert "decision" not in await call_of(made)


async def test_a_run_names_who_has_cancelled_it() -> None:
    async with town(model=model(), tools=[guarded()], **KEYS) as made:
        run_id = made.ids["run_id"]
        await made.post(f"/api/runs/{run_id}/cancel", BOB, None, 404)
        await made.post(f"/api/runs/{run_id}/cancel", ADA, None, 200)
        await made.api.rig.rt.runs.wait(run_id, 10)
        run = (await made.get(f"/api/runs/{run_id}", ADA))["run"]
        assert run["decision"]["action"] == "cancelled" and run["decision"]["door"] == "http"
        assert run["decision"]["by"] == {"kind": "person", "id": made.ids["ada"], "name": "user-ada"}
        [told] = await events_of(made.api, run_id, "run.cancelled")
        assert told["decision"] == run["decision"]


async def test_a_run_names_who_has_retried_and_then_cancelled_it() -> None:
    asked: list[int] = []

    def answer(_: object) -> JSON:
        asked.append(1)
        refused = {"fail": "refused", "message": "No credit."}
        return refused if len(asked) == 1 else call("ask_outside", user_name="Ada")

    async with serving(FunctionModel(answer), [guarded()]) as api:
        run_id = await api.run(await api.thread())
        assert (await api.rig.rt.runs.wait(run_id, 10)).status == "failed"
        await api.rig.rt.runs.retry(run_id, by="user-7")
        await api.until(run_id, "tool.waiting")
        [_, queued] = await events_of(api, run_id, "run.queued")
        assert queued["decision"]["by"] == {"kind": "app", "id": "user-7", "name": None}
        await api.post(f"/api/runs/{run_id}/cancel")
        await api.rig.rt.runs.wait(run_id, 10)
        async with Client(f"http://127.0.0.1:{api.port}") as client:
            run = await client.runs.get(run_id)
        assert [(each.action, each.by.kind, each.door) for each in run.decisions] == [
            ("retried", "app", "app"),
            ("cancelled", "service", "http"),
        ]
        assert run.decision == run.decisions[-1]


async def test_an_event_tells_who_has_set_variables_and_no_value() -> None:
    async with missing() as (api, thread_id, run_id, request_id):
        path = f"/api/threads/{thread_id}/variables/{request_id}"
        await api.post(path, {"env": {"API_KEY": KEY, "REGION": "eu"}})
        await api.rig.rt.runs.wait(run_id, 10)
        [told] = await events_of(api, run_id, "variables.set")
        assert (told["requestId"], told["names"]) == (request_id, ["API_KEY", "REGION"])
        assert told["decision"]["by"]["kind"] == "service" and told["decision"]["action"] == "set"
        await api.rig.rt.threads.set_env(thread_id, {"REGION": "us"}, by="user-7")
        listed = await api.rig.rt.events.list(Topic(kind="thread", id=thread_id))
        assert listed[-1].type == "variables.set" and KEY not in str([each.payload for each in listed])
        last: JSON = listed[-1].payload
        assert last["decision"]["by"]["id"] == "user-7"


async def test_what_an_app_says_is_marked_as_such_and_read_by_the_client() -> None:
    async with serving(model(), [guarded()]) as api:
        run_id, call_id = await api.waiting()
        for wrong in ("", " ", "x" * 201, 7, "\ud800"):
            with pytest.raises(tw.errors.InvalidRequest, match="by "):
                await api.rig.rt.calls.submit(run_id, call_id, {"approved": True}, by=wrong)  # type: ignore[arg-type]
        await api.rig.rt.calls.submit(run_id, call_id, {"approved": True}, by="user-7")
        async with Client(f"http://127.0.0.1:{api.port}") as client:
            decision = (await client.calls.get(call_id)).decision
        assert decision is not None
        assert (decision.by.kind, decision.by.id, decision.door) == ("app", "user-7", "app")
        assert decision.args == {"user_name": "Ada"}


async def test_arguments_that_are_too_large_for_an_event_are_left_out_of_its_decision() -> None:
    async with serving(model(), [guarded()]) as api:
        run_id, call_id = await api.waiting()
        answer: Any = {"approved": True, "args": {"user_name": "x" * 9_000}, "reason": "fits"}
        await api.rig.rt.calls.submit(run_id, call_id, answer)
        await api.rig.rt.runs.wait(run_id, 10)
        [told] = await events_of(api, run_id, "tool.approved")
        assert "args" not in told["decision"] and told["truncated"] is True
        assert told["decision"]["by"]["kind"] == "app" and told["toolCallId"] == call_id
        assert (await api.get(f"/api/calls/{call_id}"))["call"]["decision"]["args"] == answer["args"]
