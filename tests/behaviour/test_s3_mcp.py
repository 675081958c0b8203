"""S3: tools of MCP servers, for agents that are configured as JSON, in their home threads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.behaviour.marks import requirement
from tests.mcp.peers.serving import served
from toolwright.core.errors import InvalidConfiguration
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio


def configured(url: str, **server: Any) -> JSONObject:  # any JSON
    """Return an agent with the configuration of the document, except for the address of the server."""
    github: JSONObject = {"name": "github-tools", "url": url, "transport": "http", **server}
    return {"agent": {"system": "You review."}, "mcp": {"servers": [github]}}


def settings(folder: Path, *calls: JSONObject) -> tw.Settings:
    """Return settings whose model makes these calls one after another; calls to this machine are allowed."""
    turns = [{"calls": [call]} for call in calls] + [{"text": "done"}]
    script = folder / "script.yaml"
    script.write_text(json.dumps(turns))  # JSON is valid YAML
    return tw.Settings(model=f"scripted:{script}", http_allow=("127.0.0.1",))


async def home(rt: Runtime, config: JSONObject) -> Sequence[Message]:
    """Return all messages in the home thread of an agent with that configuration, after it has been triggered."""
    saved = await rt.agents.save("reviewer", config)
    await rt.inboxes.trigger("reviewer", "ci", {"go": True})
    thread_id = saved.agent.home_thread_id
    async for event in rt.events.follow(Topic(kind="thread", id=thread_id), after=0):
        if event.type in ("run.completed", "run.failed"):
            break
    return await rt.threads.messages(thread_id)


def told(messages: Sequence[Message]) -> list[str]:
    """Return the results that the model has read."""
    return [message.content for message in messages if message.role == "tool"]


@requirement("S3-1-4", "S3-9-1", "S3-9-3", "S3-9.1-1")
async def test_the_tools_of_a_server_are_the_agents(tmp_path: Path) -> None:
    call: JSONObject = {"name": "add", "args": {"a": 2, "b": 3}}
    with served("plain") as server:
        async with journals.runtime(tw.App(), settings(tmp_path, call)) as rt:
            messages = await home(rt, configured(server.url, allowedTools=["add", "echo"]))
    assert told(messages) == ['{"sum":5}']


@requirement("S3-9.1-1")
async def test_a_tool_that_is_not_allowed_is_not_there(tmp_path: Path) -> None:
    call: JSONObject = {"name": "add", "args": {"a": 2, "b": 3}}
    with served("plain") as server:
        async with journals.runtime(tw.App(), settings(tmp_path, call)) as rt:
            messages = await home(rt, configured(server.url, allowedTools=["echo"]))
            [state] = await rt.mcp.of("reviewer")
    assert "There is no tool 'add'" in told(messages)[0]
    assert [tool.name for tool in state.tools] == ["echo"]


@requirement("S3-9-2")
@pytest.mark.parametrize("visible", [None, False, True])
async def test_its_tools_are_invisible_unless_configured_otherwise(
    tmp_path: Path, visible: bool | None
) -> None:
    call: JSONObject = {"name": "add", "args": {"a": 2, "b": 3}}
    more: JSONObject = {} if visible is None else {"visible": visible}
    with served("plain") as server:
        async with journals.runtime(tw.App(), settings(tmp_path, call)) as rt:
            [result] = told(await home(rt, configured(server.url, **more)))
    if visible:
        assert json.loads(result)["error"] == (
            'Tool "add" is visible but you are not in a space. Call enter_space first.'
        )
    else:
        assert result == '{"sum":5}'


@requirement("S3-9-3")
async def test_its_failures_are_errors_that_the_agent_reads(tmp_path: Path) -> None:
    call: JSONObject = {"name": "add", "args": {"a": "two"}}
    with served("plain") as server:
        async with journals.runtime(tw.App(), settings(tmp_path, call)) as rt:
            [result] = told(await home(rt, configured(server.url)))
        assert not server.hearing.of("tools/call")
    assert json.loads(result)["error_code"] == "invalid_arguments"


async def test_a_process_of_the_server_is_never_configured_over_http(tmp_path: Path) -> None:
    async with journals.runtime(tw.App(), settings(tmp_path)) as rt:
        servers: list[JSONObject] = [
            {"name": "x", "command": "sh"},
            {"name": "x", "url": "http://x", "transport": "stdio"},
        ]
        for server in servers:
            with pytest.raises(InvalidConfiguration, match="only taken from files and code"):
                await rt.agents.save("reviewer", {"mcp": {"servers": [server]}})


async def test_a_private_address_is_not_reached_unless_the_operator_allows_it(tmp_path: Path) -> None:
    with served("plain") as server:
        guarded = settings(tmp_path).model_copy(update={"http_allow": ()})
        async with journals.runtime(tw.App(), guarded) as rt:
            await home(rt, configured(server.url))
            [state] = await rt.mcp.of("reviewer")
        assert not server.hearing.heard
    assert state.status == "down"
    assert "not public" in state.faults[0].message
