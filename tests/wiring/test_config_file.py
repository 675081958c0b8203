"""Apps as configuration files (API §2): read with every error, created at every start, written once."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from toolwright.core.errors import DefinitionError
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.config import ConfigApp

pytestmark = pytest.mark.anyio

CHECK: dict[str, Any] = {  # a configuration
    "name": "check",
    "description": "Check.",
    "inputSchema": {"type": "object"},
    "executionType": "gateway",
    "execution": {"url": "http://127.0.0.1:1/check"},
}
WHOLE: dict[str, Any] = {
    "agents": [
        {"name": "scout", "description": "Looks", "config": {"tools": [CHECK], "env": {"KEY": "s3cret"}}}
    ],
    "entities": [{"type": "human", "externalId": "husam", "displayName": "Husam"}],
    "spaces": [
        {"name": "Tea", "kind": "private", "members": ["husam", "scout"]},
        {"id": "hall", "name": "Hall", "kind": "public", "members": []},
    ],
}


def written(folder: Path, given: Any) -> Path:  # any JSON, including invalid ones
    path = folder / "config.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    return path


async def seen(runtime: Runtime) -> list[object]:
    spaces = await runtime.spaces.list()
    return [
        *[(one.id, one.revision) for one in await runtime.agents.list()],
        *await runtime.entities.list(),
        *spaces,
        *[await runtime.spaces.members(space.id) for space in spaces],
    ]


async def test_a_script_that_is_not_there_is_refused_when_the_app_starts(tmp_path: Path) -> None:
    config = {"model": f"scripted:{tmp_path}/none.yaml"}
    path = written(tmp_path, {"agents": [{"name": "scout", "config": config}]})
    app = ConfigApp(path)
    why = r"agents\.0: config\.model cannot be used: The script '.*none.yaml' cannot be read: No such file"
    with pytest.raises(DefinitionError, match=why):
        async with app.runtime(tw.Settings(database_url="memory://")):
            pass


def test_half_a_character_is_refused_by_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, {"agents": [{"name": "scout", "config": {"agent": {"system": "\ud800"}}}]})
    why = r"^config\.json: agents\.0\.config\.agent\.system must not hold halves of characters"
    with pytest.raises(DefinitionError, match=why):
        ConfigApp(path)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    ConfigApp(written(tmp_path, "\ufeff" + json.dumps(WHOLE)))


@pytest.mark.parametrize(
    ("toolkits", "why"),
    [
        (["clocks"], "names 'clocks', which is no toolkit: there are 'spaces', 'mind', 'channels', 'memory'"),
        (
            ["spaces", "channels"],
            "must not name both 'spaces' and 'channels': both have a tool 'send_message'",
        ),
        (["mind", "memory"], "must be 'spaces' and 'mind', or 'channels' and 'memory'"),
    ],
)
def test_an_error_of_toolkits_continues_after_its_path(tmp_path: Path, toolkits: list[str], why: str) -> None:
    path = written(tmp_path, {"agents": [{"name": "scout", "config": {"toolkits": toolkits}}]})
    with pytest.raises(DefinitionError) as caught:
        ConfigApp(path)
    assert str(caught.value).rstrip(".") == f"config.json: agents.0.config.toolkits {why}"


async def test_what_the_file_names_is_there_and_a_restart_writes_nothing(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    path = written(tmp_path, WHOLE)
    async with ConfigApp(path).runtime(settings) as rt:
        first = await seen(rt)
        scout = await rt.agents.get("scout")
        assert (scout.revision, scout.description) == (1, "Looks")
        [check] = (await rt.agents.active("scout")).tools
        assert check.execution is not None and check.execution.trusted
        hall, tea = sorted(await rt.spaces.list(), key=lambda space: space.name or "")
        assert (tea.name, tea.kind, hall.id, hall.kind) == ("Tea", "private", "hall", "public")
        husam = await rt.entities.get_by_external_id("husam")
        assert husam is not None and husam.display_name == "Husam"
        members = await rt.spaces.members(tea.id)
        assert {member.entity_id for member in members} == {husam.id, scout.entity_id}
    async with ConfigApp(path).runtime(settings) as rt:
        assert await seen(rt) == first
    changed = json.loads(json.dumps(WHOLE))
    changed["agents"][0]["config"]["env"]["KEY"] = "another"
    changed["entities"][0]["displayName"] = "H."
    changed["spaces"][1] |= {"name": "Great Hall", "members": ["scout"]}
    async with ConfigApp(written(tmp_path, changed)).runtime(settings) as rt:
        assert (await rt.agents.get("scout")).revision == 2
        again = await rt.entities.get_by_external_id("husam")
        assert again is not None and (again.id, again.display_name) == (husam.id, "H.")
        assert (await rt.spaces.get("hall")).name == "Great Hall"
        assert [member.entity_id for member in await rt.spaces.members("hall")] == [scout.entity_id]
        assert len(await rt.spaces.list()) == 2


FAULTY: list[tuple[Any, str]] = [
    ("{", "is not valid JSON"),
    ('{"agents": [], "agents": []}', "duplicate key"),
    ([], "The file must be an object."),
    ({}, "agents is required"),
    ({"agents": 5}, "agents must be a list"),
    (
        {"agents": [{"name": "", "config": []}]},
        "agents.0.name must not be empty; agents.0.config must be an object",
    ),
    ({"agents": [{"name": "a\nb", "config": {}}]}, "agents.0.name must not hold line breaks"),
    ({"agents": [], "spaces": [{"name": "a\nb"}]}, "spaces.0.name must not hold line breaks"),
    (
        {"agents": [], "entities": [{"type": "human", "externalId": "x", "displayName": "a\nb"}]},
        "entities.0.displayName must not hold line breaks",
    ),
    ({"agents": [{"name": "x", "config": {"tools": [5]}}]}, "agents.0.config.tools.0 must be an object"),
    (
        {"agents": [{"name": "x", "config": {"loop": {"maxSteps": "5"}}}]},
        "loop.maxSteps must be a whole number",
    ),
    ({"agents": [{"name": "x", "config": {"loop": {"maxSteps": 0}}}]}, "loop.maxSteps must be at least 1"),
    ({"agents": [{"name": "x", "config": {"model": ""}}]}, "agents.0.config.model must not be empty"),
    ({"agents": [{"name": "x", "config": {"model": {}}}]}, "config.model.provider is required"),
    (
        {"agents": [{"name": "x", "config": {"agent": {"system": "x" * 65_537}, "model": ""}}]},
        "agents.0.config.agent.system must have at most 65536 characters; agents.0.config.model must not be empty",
    ),
    (
        {"agents": [{"name": "x", "config": {"tools": [{**CHECK, "name": "x" * 201}]}}]},
        "agents.0.config.tools.0.name must have at most 200 characters",
    ),
    ({"agents": [], "foo": 1}, "foo is not a known field"),
    ({"agents": [{"name": "x", "config": {}, "foo": 1}]}, "agents.0.foo is not a known field"),
    ({"agents": [{"name": "x", "config": {"tools": [{**CHECK, "foo": 1}]}}]}, "agents.0.config.tools.0.foo"),
    ({"agents": [{"name": "x", "config": {"tools": ["a", "b"]}}]}, "agents.0.config.tools.1"),
    ({"agents": [{"name": "x", "config": {}}] * 2}, "agents.1.name is a duplicate: 'x'"),
    ({"agents": [], "entities": [{"type": "agent", "externalId": "x"}]}, "entities.0.type"),
    ({"agents": [], "spaces": [{"name": "x", "kind": "loud"}]}, "spaces.0.kind"),
    ({"agents": [], "spaces": [{"name": "x"}, {"name": "x"}]}, "spaces.1.id is a duplicate"),
    ({"agents": [], "spaces": [{"id": "a/b", "name": "x"}]}, "spaces.0.id must be 1 to 128 letters, digits"),
    ({"agents": [{"name": "x" * 201, "config": {}}]}, "agents.0.name must have at most 200 characters"),
    (
        {"agents": [], "spaces": [{"name": "x", "kind": "dm", "members": ["a", "b", "c"]}]},
        "spaces.0.members must have at most 2 members in a dm",
    ),
]


@pytest.mark.parametrize(("given", "said"), FAULTY, ids=lambda given: str(given)[:40])
async def test_an_invalid_file_is_refused_in_one_line_with_the_path(
    tmp_path: Path, given: Any, said: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        ConfigApp(written(tmp_path, given))
    assert said in caught.value.message
    assert "config.json" in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({"name": "x", "members": ["scout", "nobody"]}, "spaces.0: There is no entity 'nobody'."),
        (
            {"id": "hall", "name": "x", "kind": "dm"},
            "spaces.0: The space 'hall' is public and cannot become dm.",
        ),
    ],
    ids=["nobody", "kind"],
)
async def test_what_only_the_journal_can_tell_is_refused_at_the_start_and_nothing_is_written(
    tmp_path: Path, space: dict[str, Any], said: str
) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    async with ConfigApp(written(tmp_path, WHOLE)).runtime(settings) as rt:
        before = await seen(rt)
    people = [{"type": "human", "externalId": "new"}]
    agents: list[dict[str, Any]] = [{"name": "scout", "config": {}}, {"name": "other", "config": {}}]
    app = ConfigApp(written(tmp_path, {"agents": agents, "entities": people, "spaces": [space]}))
    with pytest.raises(DefinitionError) as caught:
        async with app.runtime(settings):
            pass
    assert caught.value.message == f"config.json: {said}"
    async with tw.App().runtime(settings) as rt:
        assert await seen(rt) == before


async def test_a_file_may_begin_with_a_byte_order_mark_and_must_be_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'\xef\xbb\xbf{"agents": []}')
    ConfigApp(path)
    path.write_bytes(b'{"agents": [], "x": "\xff"}')
    with pytest.raises(DefinitionError, match="is not valid JSON: it is not UTF-8"):
        ConfigApp(path)
