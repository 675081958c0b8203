"""Prompts and fixed resources of an app for MCP hosts: listed, fetched, read, with the same permissions as tools."""

from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent
from pydantic import BaseModel, Field

import toolwright as tw
from tests.mcp.server_rig import REVISIONS, Revision, hosting
from toolwright.core.errors import DefinitionError
from toolwright.web.auth.access import TokenIdentity

pytestmark = pytest.mark.anyio
each_revision = pytest.mark.parametrize("revision", REVISIONS)


class Review(BaseModel):
    diff: str = Field(description="The changes.")
    most: int | None = None


review = tw.Prompt(
    "review", "You review changes.", tool_description="Review changes.", required_schema=Review
)
greet = tw.Prompt("greet", "Greet the user.")
secret = tw.Prompt("secret", "Nobody is told.")


def app(**offered: Any) -> tw.App:  # arguments of `mcp_server`
    return tw.App(prompts=[review, greet, secret], mcp_server=offered)


def texts(got: mcp_types.GetPromptResult) -> list[str]:
    return [each.content.text for each in got.messages if isinstance(each.content, TextContent)]


@each_revision
async def test_prompts_that_are_offered_are_listed_and_fetched(revision: Revision) -> None:
    async with hosting(app(prompts=["review", "greet"])) as host, host.client(revision) as client:
        listed = (await client.list_prompts()).prompts
        assert [each.name for each in listed] == ["review", "greet"]
        assert listed[0].description == "Review changes."
        described = [(each.name, each.description, each.required) for each in listed[0].arguments or ()]
        assert described == [("diff", "The changes.", True), ("most", None, False)]
        got = await client.get_prompt("review", {"diff": "+1", "most": "3"})
        assert texts(got) == ["You review changes.", '{"diff":"+1","most":3}']
        assert texts(await client.get_prompt("greet")) == ["Greet the user."]
        assert texts(await client.get_prompt("greet", {"message": "Ada"})) == ["Greet the user.", "Ada"]


@each_revision
async def test_unknown_prompts_and_invalid_arguments_are_errors_of_the_protocol(revision: Revision) -> None:
    async with hosting(app(prompts=["review"])) as host, host.client(revision) as client:
        wrong: list[tuple[str, dict[str, str], str]] = [
            ("secret", {}, ""),
            ("nope", {}, ""),
            ("review", {}, "Invalid arguments: diff: is missing."),
            (
                "review",
                {"diff": "+1", "most": "many"},
                "Invalid arguments: most: must be an integer or null, not a string.",
            ),
        ]
        for name, arguments, said in wrong:
            with pytest.raises(MCPError) as refused:
                await client.get_prompt(name, arguments)
            assert refused.value.code == mcp_types.INVALID_PARAMS
            assert said in ("", str(refused.value))


@each_revision
async def test_fixed_resources_are_listed_and_read(revision: Revision, tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text("# Grüße")
    declared = {
        "docs://guide": guide,
        "terms": "Be kind.",
        "logo.png": {"content": b"\x89PNG", "description": "The logo."},
    }
    async with hosting(app(resources=declared)) as host, host.client(revision) as client:
        listed = (await client.list_resources()).resources
        assert [(each.name, each.uri, each.mime_type) for each in listed] == [
            ("docs://guide", "docs://guide", "text/markdown"),
            ("terms", "toolwright://resources/terms", "text/plain"),
            ("logo.png", "toolwright://resources/logo.png", "image/png"),
        ]
        assert listed[2].description == "The logo."
        [read] = (await client.read_resource("docs://guide")).contents
        assert isinstance(read, mcp_types.TextResourceContents)
        assert read.text == "# Grüße"
        [logo] = (await client.read_resource(listed[2].uri)).contents
        assert isinstance(logo, mcp_types.BlobResourceContents)
        guide.unlink()
        with pytest.raises(MCPError, match="cannot be read"):
            await client.read_resource("docs://guide")


@each_revision
async def test_prompts_and_resources_are_permitted_as_read_only_tools_are(revision: Revision) -> None:
    async def verify(token: str) -> TokenIdentity:
        return TokenIdentity(external_id=token, until=None)

    cases: list[tuple[Any, list[str], list[str]]] = [
        ("read_only", ["review", "greet", "secret"], ["terms"]),
        ("none", [], []),
        (["greet"], ["greet"], []),
    ]
    for people, prompts, resources in cases:
        made = app(people=people, prompts=True, resources={"terms": "Be kind."})
        options: dict[str, Any] = {"public_keys": ("pk",), "verify_token": verify}
        async with hosting(made, **options) as host:
            await host.rt.entities.create(external_id="ada")
            headers = {"x-public-key": "pk", "authorization": "Bearer ada"}
            async with host.client(revision, headers) as client:
                assert [each.name for each in (await client.list_prompts()).prompts] == prompts
                assert [each.name for each in (await client.list_resources()).resources] == resources
                if not resources:
                    with pytest.raises(MCPError):
                        await client.read_resource("toolwright://resources/terms")


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        ({"prompts": ["nope"]}, "names the prompt 'nope'"),
        ({"prompts": "review"}, "prompts must be True or a list of names"),
        ({"resources": ["a"]}, "resources must be a dict"),
        ({"resources": {"a": 5}}, "must be a text, bytes or a path, not 5"),
        ({"resources": {"a": Path("/nowhere/x")}}, "there is no file"),
        ({"resources": {"toolwright://threads/a": "x"}}, "not beginning with toolwright://"),
        ({"resources": {"a": {"content": "x", "mime": "y"}}}, "has no key 'mime'"),
        ({"people": ["nope"]}, "names the tool 'nope'"),
    ],
)
def test_a_wrong_declaration_is_refused(offered: dict[str, Any], why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        app(**offered)
