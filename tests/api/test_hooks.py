"""Hooks over HTTP: verdicts of a run, who sent a message, agents that are configured, calls that wait, events."""

import json

import pytest

import toolwright as tw
from tests.api.town import ADA, SERVICE, town
from tests.kit import call
from toolwright.core.threads.decision import Decider
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

outside = tw.Tool(name="ask_outside", description="Ask.", kind="external", timeout=30.0)


class Guard(tw.Hooks):
    name = "guard"

    def __init__(self, approval: tw.Approval | None = None) -> None:
        self.callers: list[Decider | None] = []
        self._approval = approval or tw.Approval(by="service")

    def before_run(self, event: tw.BeforeRun, /) -> tw.Reject | None:
        self.callers.append(event.caller)
        return tw.Reject("Not here.") if "secret" in event.message.content else None

    def before_call(self, event: tw.BeforeCall, /) -> tw.Ask:
        return tw.Ask(self._approval, "Look first.")


async def test_verdicts_are_in_the_run_and_the_caller_is_from_the_checked_credential() -> None:
    guard, model = Guard(), ScriptedModel([call("ask_outside"), {"text": "Four."}])
    async with town(model=model, tools=[outside], agent_options={"hooks": [guard]}) as made:
        client, thread = made.api.client, made.ids["thread_id"]
        run = f"/api/runs/{made.ids['run_id']}"
        for headers in (SERVICE, ADA):
            answer = (await client.get(run, headers=headers)).json()["run"]
            [verdict] = answer["verdicts"]
            assert verdict.pop("createdAt")
            assert verdict == {
                "hook": "guard",
                "point": "before_call",
                "verdict": "asked",
                "reason": "Look first.",
                "toolCallId": answer["waiting"]["callIds"][0],
                "stepNumber": 1,
            }
        listed = (await client.get("/api/runs", headers=SERVICE)).json()["runs"]
        assert "verdicts" not in listed[0]
        async with made.api.stream(f"{run}/stream?after=0", **ADA) as stream:
            seen = json.dumps(await stream.until("run.waiting"))
        assert '"hook.verdict"' in seen
        call_id = verdict["toolCallId"]
        refused = await client.post(
            f"{run}/tool-results",
            json={"callId": call_id, "result": {"approved": True}},
            headers=ADA,
        )
        assert refused.status_code == 403
        cancelled = await client.post(f"{run}/cancel", headers=SERVICE)
        assert cancelled.status_code < 300
        sent = await client.post(f"/api/threads/{thread}/messages", json={"content": "A secret"}, headers=ADA)
        assert sent.status_code in (200, 201, 202)
        other = sent.json()["runId"] if "runId" in sent.json() else sent.json()["run"]["id"]
        over = await made.api.rig.rt.runs.wait(other)
        assert (over.status, over.stop_reason) == ("completed", "rejected")
        shown = (await client.get(f"/api/runs/{other}", headers=ADA)).json()["run"]
        assert (shown["stopReason"], shown["output"]) == ("rejected", "Not here.")
    caller = guard.callers[-1]
    assert caller is not None
    assert (caller.kind, caller.door) == ("person", "http")


async def test_an_agent_configured_over_http_cannot_name_code() -> None:
    async with town(model=ScriptedModel([call("ask_outside")]), tools=[outside]) as made:
        body = {"name": "clerk", "hooks": ["os:system"]}
        answer = await made.api.client.post("/api/agents", json=body, headers=SERVICE)
        assert answer.status_code == 400
        assert "hooks" in answer.text


async def test_who_has_asked_for_a_call_cannot_give_the_approval_that_a_hook_requires() -> None:
    guard = Guard(tw.Approval(by="anyone", not_by="requester"))
    model = ScriptedModel([call("ask_outside")])
    async with town(model=model, tools=[outside], agent_options={"hooks": [guard]}) as made:
        path = f"/api/runs/{made.ids['run_id']}/tool-results"
        body = {"callId": made.ids["call_id"], "result": {"approved": False}}
        waiting = (await made.api.client.get(f"/api/calls/{made.ids['call_id']}", headers=SERVICE)).json()[
            "call"
        ]
        assert waiting["approvalTerms"]["why"] == "Look first."
        assert (await made.api.client.post(path, json=body, headers=ADA)).status_code == 403
        assert (await made.api.client.post(path, json=body, headers=SERVICE)).status_code == 200
