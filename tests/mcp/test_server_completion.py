"""Completion for hosts: values that the schemas of prompts declare, and paths of the caller's own files."""

import base64
from enum import Enum
from typing import Any, Literal

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference
from pydantic import BaseModel, Field

import toolwright as tw
from tests.mcp.server_rig import REVISIONS, Revision, hosting
from toolwright.web.auth.access import TokenIdentity
from toolwright.web.mcp.resources import TEMPLATE

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("revision", REVISIONS)]


class Tone(Enum):
    FRIENDLY = "friendly"
    UNFRIENDLY = "unfriendly"
    FORMAL = "formal"


class Letter(BaseModel):
    tone: Tone
    language: Literal["de", "en"] | None = None
    pages: Literal[1, 2] = 1
    signed: bool = True
    place: str = Field(default="", examples=["Bonn", "Köln"])
    number: int = Field(default=0, json_schema_extra={"enum": [*range(150)]})
    text: str = ""


letter = tw.Prompt("letter", "Write a letter.", required_schema=Letter)
secret = tw.Prompt("secret", "Nobody is told.", required_schema=Letter)


@tw.tool(description="Hand over files.")
def report() -> tw.ToolResult:
    data = base64.b64encode(b"x").decode()
    return tw.ToolResult.ok(
        "See.", tuple([tw.Attachment(name=name, mime_type="text/plain", data=data) for name in ("a", "b")])
    )


APP = tw.App(tools=[report], prompts=[letter, secret], mcp_server={"people": "all", "prompts": ["letter"]})


@pytest.mark.parametrize(
    ("name", "typed", "values"),
    [
        ("tone", "", ["friendly", "unfriendly", "formal"]),
        ("tone", "FR", ["friendly", "unfriendly"]),
        ("tone", "x", []),
        ("language", "", ["de", "en"]),
        ("pages", "2", ["2"]),
        ("signed", "t", ["true"]),
        ("place", "kö", ["Köln"]),
        ("text", "anything", []),
    ],
)
async def test_the_values_that_a_prompt_declares_are_completed(
    revision: Revision, name: str, typed: str, values: list[str]
) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        reference = PromptReference(name="letter")
        answer = (await client.complete(reference, {"name": name, "value": typed})).completion
        assert (answer.values, answer.total, answer.has_more) == (values, len(values), False)


async def test_an_answer_has_no_more_than_a_hundred_values(revision: Revision) -> None:
    async with hosting(APP) as host, host.client(revision) as client:
        answer = await client.complete(PromptReference(name="letter"), {"name": "number", "value": ""})
        assert len(answer.completion.values) == 100
        assert (answer.completion.total, answer.completion.has_more) == (150, True)


async def test_what_is_not_offered_is_not_completed(revision: Revision) -> None:
    wrong: list[tuple[PromptReference | ResourceTemplateReference, str]] = [
        (PromptReference(name="secret"), "tone"),
        (PromptReference(name="nope"), "tone"),
        (PromptReference(name="letter"), "nope"),
        (ResourceTemplateReference(uri="file:///{path}"), "path"),
        (ResourceTemplateReference(uri=TEMPLATE), "nope"),
    ]
    async with hosting(APP) as host, host.client(revision) as client:
        for reference, name in wrong:
            with pytest.raises(MCPError) as refused:
                await client.complete(reference, {"name": name, "value": ""})
            assert refused.value.code == mcp_types.INVALID_PARAMS


async def test_only_the_callers_own_files_are_completed(revision: Revision) -> None:
    async def verify(token: str) -> TokenIdentity:
        return TokenIdentity(external_id=token, until=None)

    options: dict[str, Any] = {"public_keys": ("pk",), "verify_token": verify}
    async with hosting(APP, **options) as host:
        for name in ("ada", "bob"):
            await host.rt.entities.create(external_id=name)
        thread_id = ""
        for name, paths in (("ada", ["attachments/a", "attachments/b"]), ("bob", [])):
            headers = {"x-public-key": "pk", "authorization": f"Bearer {name}"}
            async with host.client(revision, headers) as client:
                if not thread_id:
                    _, file, _ = (await client.call_tool("report", {})).content
                    assert isinstance(file, mcp_types.EmbeddedResource)
                    thread_id = file.resource.uri.split("/")[3]
                reference = ResourceTemplateReference(uri=TEMPLATE)
                asked = {"name": "path", "value": "att"}
                answer = await client.complete(reference, asked, {"threadId": thread_id})
                assert answer.completion.values == paths
                for chosen in ({}, {"threadId": "nope"}, {"threadId": "\0"}):
                    assert not (await client.complete(reference, asked, chosen)).completion.values
                asked = {"name": "threadId", "value": ""}
                assert not (await client.complete(reference, asked)).completion.values
