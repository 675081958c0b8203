"""Prompts of servers: listed with their arguments wherever a server is shown, and fetched by code."""

import base64
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.client.rig import client_of
from tests.client.rig import served as gateway
from tests.kit import ran
from tests.mcp.peers.peer import Asked, JSONObject, Peer, Revision, tool
from tests.mcp.peers.serving import Served, down, started
from tests.mcp.test_runs import REVISIONS, agent
from toolwright.core.errors import InvalidRequest, NotFound, Unreachable
from toolwright.core.mcp.listing import MAX_LISTED, McpPrompt, McpPromptArgument

pytestmark = pytest.mark.anyio

REVIEW: JSONObject = {
    "name": "review",
    "description": "Review a change. k-12345678",
    "arguments": [{"name": "diff", "description": "The change.", "required": True}, {"name": "tone"}],
}
GREET: JSONObject = {"name": "greet", "title": "Greet somebody"}
PNG = base64.b64encode(b"\x89PNG").decode()


async def pages(asked: Asked) -> JSONObject:
    if asked.params.get("cursor") is None:
        return {"prompts": [REVIEW], "nextCursor": "2"}
    return {"prompts": [GREET]}


async def get(asked: Asked) -> JSONObject:
    if asked.params["name"] != "review":
        raise MCPError(types.INVALID_PARAMS, "Unknown prompt")
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    words = {"type": "text", "text": f"Review {asked.arguments['diff']}, k-12345678."}
    return {
        "description": "A review",
        "messages": [
            {"role": "user", "content": words},
            {"role": "user", "content": image},
            {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
        ],
    }


@contextmanager
def offering(revision: Revision | None = None, **more: Any) -> Generator[Served]:  # options of Peer
    given: dict[str, Any] = {"capabilities": {"prompts": {}}, **more}
    answers: dict[str, Any] = {"prompts/list": pages, "prompts/get": get, **given.pop("answers", {})}
    with started(Served(Peer(tools=[tool("plain")], answers=answers, revision=revision, **given))) as served:
        yield served


@pytest.mark.parametrize("revision", REVISIONS)
async def test_prompts_are_listed_with_their_arguments(revision: Revision) -> None:
    key: dict[str, Any] = {"env": {"KEY": "k-12345678"}, "headers": {"X-Key": "${env.KEY}"}}
    with offering(revision) as served:
        async with agent(served.url, **key) as (rt, _):
            [state] = await rt.mcp.of("a")
            async with gateway(rt) as port, client_of(port) as client:
                [shown] = await client.agents.mcp("a")
    assert state.prompts == (
        McpPrompt(
            name="review",
            description="Review a change. [redacted:KEY]",
            arguments=(
                McpPromptArgument(name="diff", description="The change.", required=True),
                McpPromptArgument(name="tone"),
            ),
        ),
        McpPrompt(name="greet", description="Greet somebody"),
    )
    assert [(each.name, [arg.name for arg in each.arguments]) for each in shown.prompts] == [
        ("review", ["diff", "tone"]),
        ("greet", []),
    ]
    assert [arg.required for arg in shown.prompts[0].arguments] == [True, False]
    assert [each.name for each in state.tools] == ["plain"]


async def test_a_server_that_declares_no_prompts_is_not_asked_for_them() -> None:
    with offering(capabilities={}) as served:
        async with agent(served.url) as (rt, _):
            [state] = await rt.mcp.of("a")
        assert (state.status, state.prompts, state.faults) == ("ready", (), ())
        assert served.hearing.of("prompts/list") == []


async def test_runs_do_not_ask_for_prompts() -> None:
    with offering() as served:
        async with agent(served.url) as (rt, model):
            await ran(rt, "a")
        assert model.offered == [["plain"]]
        assert served.hearing.of("prompts/list") == []


async def refused(_: Asked) -> JSONObject:
    raise MCPError(types.INTERNAL_ERROR, "No prompts today")


async def nonsense(_: Asked) -> JSONObject:
    return {"prompts": [{"title": "no name"}]}


async def endless(asked: Asked) -> JSONObject:
    number = int(asked.params.get("cursor") or 0)
    return {
        "prompts": [{"name": f"p{number}_{each}"} for each in range(300)],
        "nextCursor": str(number + 1),
    }


async def odd(_: Asked) -> JSONObject:
    return {"prompts": [{"name": "a\nb"}, {"name": "same"}, {"name": "same"}, {"name": "ok"}]}


@pytest.mark.parametrize(
    ("listed", "names", "fault"),
    [
        (refused, [], "Its prompts cannot be listed: No prompts today."),
        (nonsense, [], "Its prompts cannot be listed: it is not a message of the protocol."),
        (odd, ["same", "ok"], "A prompt has no name on one line, or one that is listed before."),
    ],
)
async def test_what_is_wrong_with_prompts_is_an_error_of_the_server(
    listed: Any, names: list[str], fault: str
) -> None:
    with offering(answers={"prompts/list": listed}) as served:
        async with agent(served.url) as (rt, _):
            [state] = await rt.mcp.of("a")
    assert state.status == "ready"
    assert [each.name for each in state.tools] == ["plain"]
    assert [each.name for each in state.prompts] == names
    assert [each.message for each in state.faults] == [fault]


async def test_a_list_of_prompts_without_end_is_read_so_far() -> None:
    with offering(answers={"prompts/list": endless}) as served:
        async with agent(served.url) as (rt, _):
            [state] = await rt.mcp.of("a")
    assert len(state.prompts) == MAX_LISTED
    assert [each.message for each in state.faults] == [f"The server lists more than {MAX_LISTED} prompts."]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_code_fetches_a_prompt_and_sends_it(revision: Revision) -> None:
    with offering(revision) as served:
        async with agent(served.url) as (rt, model):
            made = await rt.mcp.prompt("a", "peer", "review", {"diff": "+1"})
            assert made.description == "A review"
            assert [(each.role, each.content) for each in made.messages] == [
                ("user", "Review +1, k-12345678."),
                ("user", ""),
                ("assistant", "Gladly."),
            ]
            [image] = made.messages[1].attachments
            assert (image.mime_type, image.read()) == ("image/png", b"\x89PNG")
            thread = await rt.threads.create("a")
            sent = await rt.threads.send(thread.id, made.messages[0].content, [image])
            await rt.runs.wait(sent.id, 30)
    assert model.asked[0].messages[-1].content.startswith("Review +1")


async def test_secrets_of_a_connection_are_in_no_prompt() -> None:
    key: dict[str, Any] = {"env": {"KEY": "k-12345678"}, "headers": {"X-Key": "${env.KEY}"}}
    with offering() as served:
        async with agent(served.url, **key) as (rt, _):
            made = await rt.mcp.prompt("a", "peer", "review", {"diff": "+1"})
    assert made.messages[0].content == "Review +1, [redacted:KEY]."


async def test_what_cannot_be_fetched_says_why() -> None:
    with offering() as served, down() as nowhere:
        async with agent(served.url) as (rt, _):
            with pytest.raises(InvalidRequest, match="'peer' refused the prompt 'nope': Unknown prompt"):
                await rt.mcp.prompt("a", "peer", "nope")
            with pytest.raises(NotFound, match="no MCP server 'other'"):
                await rt.mcp.prompt("a", "other", "review")
            with pytest.raises(InvalidRequest, match="arguments of a prompt must be texts by name"):
                await rt.mcp.prompt("a", "peer", "review", {"diff": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]  # as users may
        async with agent(nowhere) as (rt, _):
            with pytest.raises(Unreachable, match="cannot be reached"):
                await rt.mcp.prompt("a", "peer", "review")
