"""Questions of handlers that the host's user answers: in a session, by a retry, in a task."""

import asyncio
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from cryptography.fernet import Fernet
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

import toolwright as tw
from tests.mcp.server_rig import REVISIONS, Revision, hosting
from toolwright import testing
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio


class UserName(BaseModel):
    """What the user is called."""

    name: str


@tw.tool(description="Ask for a name.")
async def hello(state: tw.ThreadState) -> str:
    answer = await state.elicit("What is your name?", UserName)
    said = (answer.content or {}).get("name")
    return f"{answer.action}: {said or answer.reason}"


@tw.tool(description="Ask twice.")
async def twice(state: tw.ThreadState) -> str:
    first = await state.elicit("Who are you?", UserName)
    second = await state.elicit("And who else?", UserName)
    return f"{first.content} {second.content}"


@tw.tool(description="Send the user away.")
async def elsewhere(state: tw.ThreadState) -> str:
    return (await state.elicit("Please sign in.", url="https://example.org/in")).action


@tw.tool(description="Ask the host's model.")
async def think(state: tw.ThreadState) -> str:
    answer = await state.sample([("user", "Six by nine?")], system="Be brief.", max_tokens=50)
    return f"{answer.model}: {answer.text}"


@tw.tool(description="Pay.", requires_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


@tw.tool(description="Pay more.", requires_approval=tw.Approval(by="person"))
def pay_more(amount: int) -> str:
    return f"paid {amount}"


APP = tw.App(tools=[hello, twice, elsewhere, think, pay, pay_more])
ABLE: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
META: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", **ABLE}


def answering(*answers: dict[str, Any] | str, seen: list[Any] | None = None) -> Any:  # the SDK's callback
    left = list(answers)

    async def answer(_: Any, params: Any) -> mcp_types.ElicitResult:
        if seen is not None:
            seen.append(params)
        given = left.pop(0)
        if isinstance(given, str):
            return mcp_types.ElicitResult(action=given)  # type: ignore[arg-type]  # one of the three
        return mcp_types.ElicitResult(action="accept", content=given)

    return answer


def text_of(result: Any) -> str:
    [block] = result.content
    return str(block.text)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_hosts_user_is_asked_and_the_handler_goes_on(revision: Revision) -> None:
    seen: list[Any] = []
    async with hosting(APP) as host:
        callback = answering({"name": "Ada"}, seen=seen)
        async with host.client(revision, elicitation_callback=callback) as client:
            assert text_of(await client.call_tool("hello", {})) == "accept: Ada"
        assert seen[0].message == "What is your name?"
        assert seen[0].requested_schema["required"] == ["name"]
        assert len(await host.rt.runs.list()) == 1


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_decline(revision: Revision, action: str) -> None:
    async with hosting(APP) as host, host.client(revision, elicitation_callback=answering(action)) as client:
        assert text_of(await client.call_tool("hello", {})).startswith(f"{action}: ")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_several_questions_are_asked_one_after_another(revision: Revision) -> None:
    async with hosting(APP) as host:
        callback = answering({"name": "Ada"}, {"name": "Bob"})
        async with host.client(revision, elicitation_callback=callback) as client:
            result = text_of(await client.call_tool("twice", {}))
    assert result == "{'name': 'Ada'} {'name': 'Bob'}"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_no_one_is_asked_where_the_host_cannot(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        assert (
            text_of(await client.call_tool("hello", {})) == "cancel: The host does not support elicitation."
        )
        assert text_of(await client.call_tool("elsewhere", {})) == "cancel"


async def test_an_answer_that_is_not_what_was_asked_for_is_no_answer_in_a_session() -> None:
    async with (
        hosting(APP) as host,
        host.client("legacy", elicitation_callback=answering({"name": 1})) as client,
    ):
        assert "not what was asked for" in text_of(await client.call_tool("hello", {}))


async def test_an_answer_that_is_not_what_was_asked_for_is_asked_for_again() -> None:
    async with hosting(APP) as host:
        callback = answering({"name": 1}, {"name": "Ada"})
        async with host.client("2026-07-28", elicitation_callback=callback) as client:
            assert text_of(await client.call_tool("hello", {})) == "accept: Ada"


async def test_the_retry_may_come_to_another_process(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/journal.db")
    async with APP.runtime(settings) as rt:
        async with hosting(APP, rt) as host, host.wire("2026-07-28") as wire:
            asked = (await wire.call("hello", _meta=META))["result"]
        assert asked["resultType"] == "input_required"
        [(key, request)] = asked["inputRequests"].items()
        assert (key, request["method"]) == ("user_name", "elicitation/create")
        answers: dict[str, Any] = {key: {"action": "accept", "content": {"name": "Ada"}}}
        async with hosting(APP, rt) as other, other.wire("2026-07-28") as wire:
            retried = await wire.call(
                "hello", _meta=META, inputResponses=answers, requestState=asked["requestState"]
            )
            assert retried["result"]["content"] == [{"type": "text", "text": "accept: Ada"}]
            over = await wire.call(
                "hello", _meta=META, inputResponses=answers, requestState=asked["requestState"]
            )
            assert over["result"]["content"] == [{"type": "text", "text": "accept: Ada"}]
        assert len(await rt.runs.list()) == 1


async def test_a_state_that_was_changed_or_moved_is_refused() -> None:
    async with hosting(APP) as host, host.wire("2026-07-28") as wire:
        state = (await wire.call("hello", _meta=META))["result"]["requestState"]
        for changed in (f"{state[:-4]}AAAA", "", "call_x", "é", "p." + state):
            refused = await wire.call("hello", _meta=META, requestState=changed)
            assert refused["error"]["code"] == mcp_types.INVALID_PARAMS
        moved = await wire.call("twice", _meta=META, requestState=state)
        assert moved["error"]["code"] == mcp_types.INVALID_PARAMS
        other = await wire.call("hello", {"x": 1}, _meta=META, requestState=state)
        assert other["error"]["code"] == mcp_types.INVALID_PARAMS


@pytest.mark.parametrize("keys", [True, False], ids=["keys", "no keys"])
async def test_a_forged_state_is_not_logged_as_a_key_that_is_missing(
    keys: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(encryption_keys=(Fernet.generate_key().decode(),) if keys else ())
    async with (
        testing.runtime(APP, settings) as rt,
        hosting(APP, rt) as host,
        host.wire("2026-07-28") as wire,
    ):
        refused = await wire.call("hello", _meta=META, requestState="forged")
    assert refused["error"]["code"] == mcp_types.INVALID_PARAMS
    assert [line for line in caplog.messages if "requestState" in line], "it is logged that it was refused"
    assert [line for line in caplog.messages if "key" in line] == []


async def test_a_retry_without_an_answer_is_asked_again() -> None:
    async with hosting(APP) as host, host.wire("2026-07-28") as wire:
        state = (await wire.call("hello", _meta=META))["result"]["requestState"]
        empty: dict[str, Any] = {}
        for answers in (empty, {"other": {"action": "accept", "content": empty}}):
            again = await wire.call("hello", _meta=META, inputResponses=answers, requestState=state)
            assert again["result"]["resultType"] == "input_required"
            assert list(again["result"]["inputRequests"]) == ["user_name"]


async def test_a_task_asks_by_its_state_and_is_answered_by_an_update() -> None:
    begun = asyncio.Event()

    @tw.tool(description="Ask later.")
    async def later(state: tw.ThreadState) -> str:
        await begun.wait()
        return str((await state.elicit("What is your name?", UserName)).content)

    tasks: dict[str, Any] = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    meta: dict[str, Any] = {**META, "io.modelcontextprotocol/clientCapabilities": tasks}
    async with hosting(tw.App(tools=[later])) as host, host.wire("2026-07-28") as wire:
        task_id = (await wire.call("later", _meta=meta))["result"]["taskId"]
        call = await host.rt.calls.get(task_id)
        begun.set()
        async with asyncio.timeout(10):
            while not (questions := await host.rt.calls.list(run_id=call.run_id)):
                await asyncio.wait([asyncio.create_task(host.rt.health.check())])
        assert questions[0].name == "elicit"
        task = (await wire.request("tasks/get", {"_meta": meta, "taskId": task_id}, task_id))["result"]
        assert (task["status"], list(task["inputRequests"])) == ("input_required", ["user_name"])
        answers = {"user_name": {"action": "accept", "content": {"name": "Ada"}}}
        await wire.request(
            "tasks/update", {"_meta": meta, "taskId": task_id, "inputResponses": answers}, task_id
        )
        assert (await host.rt.runs.wait(call.run_id, 10)).status == "completed"
        task = (await wire.request("tasks/get", {"_meta": meta, "taskId": task_id}, task_id))["result"]
        assert task["result"]["content"] == [{"type": "text", "text": "{'name': 'Ada'}"}]


async def _model(_: Any, params: mcp_types.CreateMessageRequestParams) -> mcp_types.CreateMessageResult:
    [message] = params.messages
    assert (message.role, params.system_prompt, params.max_tokens) == ("user", "Be brief.", 50)
    content = mcp_types.TextContent(text="42")
    return mcp_types.CreateMessageResult(role="assistant", content=content, model="deep")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_hosts_model_is_asked(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision, sampling_callback=_model) as client:
        assert text_of(await client.call_tool("think", {})) == "deep: 42"
        [run] = await host.rt.runs.list()
        [asked] = [each for each in await host.rt.calls.list(status=None, run_id=run.id) if each.parent_id]
        assert [each["by"] for each in asked.decisions] == [{"kind": "host", "id": None, "name": None}]
        assert run.usage.input_tokens == 0


async def test_a_call_that_needs_the_model_of_a_host_without_one_says_so() -> None:
    async with hosting(APP) as host:
        async with host.client("legacy") as client:
            result = await client.call_tool("think", {})
            assert result.is_error
            assert "The host does not support sampling." in text_of(result)
        async with host.client("2026-07-28") as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("think", {})
        assert refused.value.code == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert refused.value.data == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"approved": True}, "paid 5"),
        ({"approved": False}, "The call was not approved."),
        ("decline", "The call was not approved."),
    ],
)
async def test_an_approval_is_asked_of_the_hosts_user(
    revision: Revision, answer: dict[str, Any] | str, text: str
) -> None:
    seen: list[Any] = []
    callback = answering(answer, seen=seen)
    async with hosting(APP) as host, host.client(revision, elicitation_callback=callback) as client:
        assert text in text_of(await client.call_tool("pay", {"amount": 5}))
        [call] = await host.rt.app_calls.list(None, 10, 0)
        [decision] = call.decisions
        assert decision["door"] == "mcp" and decision["by"] == {"kind": "service", "id": None, "name": None}
    assert "'pay'" in seen[0].message and '"amount":5' in seen[0].message.replace(" ", "")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_approval_that_the_host_cannot_give_is_reported_at_once(revision: Revision) -> None:
    async with hosting(APP) as host:
        async with host.client(revision) as client:
            told = text_of(await client.call_tool("pay", {"amount": 5}))
        async with host.client(
            revision, elicitation_callback=answering()
        ) as client:  # a service's, which may not
            other = text_of(await client.call_tool("pay_more", {"amount": 6}))
        calls = await host.rt.app_calls.list(None, 10, 0)
        assert [each.status for each in calls] == ["waiting", "waiting"]
        for each, text in zip(calls, (told, other), strict=True):
            assert f"The call '{each.id}' waits for it" in text
            assert f"POST /api/runs/{each.run_id}/tool-results" in text
