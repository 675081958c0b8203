"""Rows of the journal with invalid values: lists show the valid rows."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from sqlalchemy import Text

import toolwright as tw
from tests.api.columns import junk_of, plain_columns
from tests.api.documented import document
from tests.api.rig import JSON, Api, calling, read, serving
from tests.client.rig import client_of
from tests.databases import sqlite_journal
from toolwright.adapters.store.opening import inspect_sqlite
from toolwright.adapters.store.sql.readers import all_tables
from toolwright.client import BrokenItem
from toolwright.core.errors import RowBroken
from toolwright.core.journal.store import Store
from toolwright.core.threads.event import Topic
from toolwright.testing import MemoryBus, ScriptedModel

pytestmark = pytest.mark.anyio

JUNK = ("no json", "5", '["a"]', '{"status": 7, "tools": 5}')
SEALED = {"env", "thread_values", "commits", "asked", "wakes", "counters"}
"""Tables that contain no JSON, or that no list shows."""


@tw.tool(description="Draw.")
async def draw(state: tw.ThreadState) -> tw.ToolResult:
    picture = tw.Attachment(name="a.txt", mime_type="text/plain", data="YQ==")
    return tw.ToolResult.ok("drawn", attachments=(picture,))


GOALS = {"goals": [{"description": "Win"}, {"description": "Rest"}]}
MEMORIES = {"memories": [{"key": "a", "value": "A"}, {"key": "b", "value": "B"}]}
PLANS = {"plans": [{"name": each, "instruction": "Go", "runAfter": 10**9} for each in ("one", "two")]}
TURN: dict[str, object] = {
    "calls": [
        {"name": "draw", "args": {}},
        {"name": "set_goals", "args": GOALS},
        {"name": "set_memories", "args": MEMORIES},
        {"name": "set_plans", "args": PLANS},
    ]
}


@dataclass
class Journal:
    """A journal with at least two rows in each list, and the paths of all lists."""

    api: Api
    path: Path
    lists: dict[str, str]
    """The field of a list's items, by path."""
    direct: httpx2.AsyncClient
    """A client without a socket. Takes half the time, for tests that read all lists a thousand times."""

    def execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:  # rows of any table
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")
            return connection.execute(sql, values).fetchall()

    async def counts(self, broken: str = "none") -> dict[str, int]:
        """Return the number of items of each list, broken ones included.

        Skips lists below a row of the table `broken`.
        """
        found: dict[str, int] = {}
        for path, plural in self.lists.items():
            if path.startswith(f"/api/{broken}/") or (broken == "threads" and "threadId=" in path):
                continue
            answer = read(await self.direct.get(path), 200)
            found[path] = len(answer[plural]) + len(answer.get("broken", ()))
        return found


Filled: TypeAlias = tuple[Path, dict[str, str]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A prepared journal, copied by each test, and the paths of its lists."""
    path = tmp_path_factory.mktemp("filled") / "journal.db"

    async def fill() -> dict[str, str]:
        async with _served(path) as api:
            return await _fill(api)

    return path, asyncio.run(fill())


@asynccontextmanager
async def journal(tmp_path: Path, filled: Filled) -> AsyncGenerator[Journal]:
    path = tmp_path / "journal.db"
    shutil.copy(filled[0], path)
    async with (
        _served(path) as api,
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(api.application),
            base_url=api.client.base_url,
            event_hooks={"response": [document().check]},
        ) as direct,
    ):
        yield Journal(api, path, filled[1], direct)


@asynccontextmanager
async def _served(path: Path) -> AsyncGenerator[Api]:
    async def opened(bus: MemoryBus) -> Store:
        return await sqlite_journal(path, bus.publish)

    model = ScriptedModel([TURN, {"text": "There."}])
    async with serving(model, [draw], store=opened, agent_options={"toolkits": ["mind"]}) as api:
        yield api


async def _fill(api: Api) -> dict[str, str]:
    for name in ("ada", "bob"):
        await api.post("/api/entities", {"type": "human", "externalId": name, "displayName": name}, 201)
        config: JSON = {"agent": {"system": "Be brief."}, "model": "openai:x"}
        await api.post("/api/agents", {"name": f"json {name}", "config": config}, 201)
    people = [each for each in (await api.get("/api/entities"))["entities"] if each["type"] == "human"]
    for space_id in ("s1", "s2"):
        await api.post("/api/spaces", {"id": space_id, "name": "Trip", "kind": "public"}, 201)
        for each in people:
            body: JSON = {"entityId": each["id"], "content": "Hi", "metadata": {"a": 1}}
            await api.post(f"/api/spaces/{space_id}/messages", body, 201)
            said = (await api.get(f"/api/spaces/{space_id}/messages"))["messages"][-1]
            reaction: JSON = {"entityId": each["id"], "emoji": "👍"}
            await api.post(f"/api/messages/{said['id']}/reactions", reaction)
            await api.post(f"/api/spaces/{space_id}/members", {"entityId": each["id"]})
            await api.post("/api/clients", {"entityId": each["id"], "name": "phone", "metadata": {}}, 201)
    thread_id, sent = "", dict[str, Any]()
    for _ in range(2):
        thread_id = await api.thread()
        for _ in range(2):
            sent = await api.post(f"/api/threads/{thread_id}/messages", {"content": "Draw"}, 202)
            await api.rig.rt.runs.wait(sent["runId"], 30)
    return {
        "/api/threads": "threads",
        f"/api/threads/{thread_id}/messages": "messages",
        f"/api/threads/{thread_id}/files": "files",
        "/api/runs": "runs",
        f"/api/runs/{sent['runId']}/events": "events",
        "/api/calls?status=done,error,waiting": "calls",
        f"/api/agents/tester/inbox?threadId={thread_id}": "events",
        "/api/agents": "agents",
        "/api/agents/tester/goals": "goals",
        "/api/agents/tester/memories": "memories",
        "/api/agents/tester/plans": "plans",
        "/api/entities": "entities",
        "/api/clients": "clients",
        "/api/spaces": "spaces",
        "/api/spaces/s2/members": "members",
        "/api/spaces/s2/messages": "messages",
    }


@pytest.mark.slow
async def test_whatever_stands_in_a_column_no_list_fails_and_none_loses_a_row(
    tmp_path: Path, filled: Filled
) -> None:
    async with journal(tmp_path, filled) as made:
        before = await made.counts()
        assert min(before.values()) >= 2, before
        tried = 0
        for table in all_tables().sorted_tables:
            if table.name in SEALED:
                continue
            keys = {*table.primary_key.columns.keys(), "id"}
            for column in [one.name for one in table.columns if isinstance(one.type, Text)]:
                if column in keys or column in _NAMES:
                    continue
                where = f"rowid = (SELECT max(rowid) FROM {table.name})"
                for (was,) in made.execute(f"SELECT {column} FROM {table.name} WHERE {where}"):
                    for junk in JUNK if _may_be_json(was) else ():
                        made.execute(f"UPDATE {table.name} SET {column} = ? WHERE {where}", junk)
                        found = await made.counts(table.name)
                        assert found == {path: before[path] for path in found}, (table.name, column, junk)
                        tried += 1
                    made.execute(f"UPDATE {table.name} SET {column} = ? WHERE {where}", was)
        assert tried >= 120
        assert inspect_sqlite(made.path) == []


def _may_be_json(text: str | None) -> bool:
    """Return whether such a column holds JSON, as opposed to a plain word by which rows are found."""
    try:
        return text is None or json.loads(text) is not None
    except ValueError:
        return False


_NAMES = frozenset(
    {"thread_id", "run_id", "agent_id", "space_id", "entity_id", "parent_id", "external_id", "within", "message_id"}
)  # fmt: skip
"""Columns by which rows are found. Another value there makes another row, and none is JSON."""


@pytest.mark.slow
@pytest.mark.parametrize("table", [name for name in all_tables().tables if name not in SEALED])
async def test_a_word_or_a_number_that_cannot_stand_there_breaks_its_row_alone(
    tmp_path: Path, filled: Filled, table: str
) -> None:
    async with journal(tmp_path, filled) as made:
        before = await made.counts()
        where = f"rowid = (SELECT max(rowid) FROM {table})"
        for column in plain_columns(all_tables().tables[table]):
            if (table, column.name) in _FILTERED:
                continue
            [(was,)] = made.execute(f"SELECT {column.name} FROM {table} WHERE {where}") or [(None,)]
            for junk in junk_of(column):
                made.execute(f"UPDATE {table} SET {column.name} = {junk} WHERE {where}")
                found = await made.counts(table)
                if table == "reactions":  # the message is shown without its reaction
                    found["/api/spaces/s2/messages"] -= 1
                assert found == {path: before[path] for path in found}, (table, column.name, junk)
            made.execute(f"UPDATE {table} SET {column.name} = ? WHERE {where}", was)
        assert inspect_sqlite(made.path) == []


_FILTERED = frozenset({("calls", "status"), ("events", "n")})
"""Columns by which a list filters. A row with an invalid value there is not found."""


async def test_junk_in_a_plain_column_is_named_as_junk_in_json_is(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made:
        first, *rest = (await made.api.get("/api/runs"))["runs"]
        made.execute("UPDATE runs SET cost = 'abc' WHERE id = ?", first["id"])
        shown = await made.api.get("/api/runs")
        sentence = f"The row of runs with id {first['id']!r} is broken: cost is not a number."
        assert shown["runs"] == rest
        assert shown["broken"] == [{"id": first["id"], "column": "cost", "error": sentence}]
        made.execute("UPDATE runs SET cost = NULL, status = 'weird' WHERE id = ?", first["id"])
        [broken] = (await made.api.get("/api/runs"))["broken"]
        assert broken["error"].endswith(
            "status is none of cancelled, completed, failed, queued, running, skipped, waiting."
        )
        assert [each.sentence for each in inspect_sqlite(made.path)] == [broken["error"]]


async def test_lists_below_a_broken_row_show_what_is_there_to_those_whose_rights_do_not_hang_on_it(
    tmp_path: Path,
    filled: Filled,
) -> None:
    async with journal(tmp_path, filled) as made:
        below = [path for path in made.lists if path.startswith(("/api/threads/", "/api/spaces/"))]
        assert len(below) == 4
        before = {path: await made.api.get(path) for path in below}
        made.execute("UPDATE threads SET tags = 'no json'")
        made.execute("UPDATE spaces SET kind = 'weird'")
        assert {path: await made.api.get(path) for path in below} == before
        for path in ("/api/threads/none/messages", "/api/threads/none/files", "/api/spaces/none/members"):
            assert (await made.api.client.get(path)).status_code == 404


async def test_a_broken_row_is_shown_with_its_id_and_what_is_wrong(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made:
        before = (await made.api.get("/api/threads"))["threads"]
        broken, *rest = before
        made.execute("UPDATE threads SET tags = 'no json' WHERE id = ?", broken["id"])
        sentence = f"The row of threads with id {broken['id']!r} is broken: tags is not JSON."
        assert await made.api.get("/api/threads") == {
            "threads": rest,
            "broken": [{"id": broken["id"], "column": "tags", "error": sentence}],
        }
        alone = await made.api.client.get(f"/api/threads/{broken['id']}")
        assert (alone.status_code, alone.json()) == (503, {"error": sentence, "code": "row_broken"})
        assert [each.sentence for each in inspect_sqlite(made.path)] == [sentence]


@pytest.mark.parametrize(
    ("path", "table", "column", "damage"),
    [
        ("/api/threads", "threads", "tags", "CAST(X'5b22ff225d' AS TEXT)"),
        ("/api/threads", "threads", "user_id", "CAST(X'ff' AS TEXT)"),
        ("/api/threads", "threads", "user_id", "X'00ff'"),
        ("/api/entities", "entities", "display_name", "CAST(X'22ff22' AS TEXT)"),
    ],
)
async def test_bytes_that_are_no_text_break_their_row_alone(
    tmp_path: Path, filled: Filled, path: str, table: str, column: str, damage: str
) -> None:
    """A damaged disk can leave bytes that are not even UTF-8."""
    async with journal(tmp_path, filled) as made:
        name = made.lists[path]
        before = await made.api.get(path)
        row_id = before[name][-1]["id"]  # the first entity is the agent's, which has no row
        made.execute(f"UPDATE {table} SET {column} = {damage} WHERE id = ?", row_id)
        shown = await made.api.get(path)
        assert [each["id"] for each in shown[name]] == [each["id"] for each in before[name][:-1]]
        [broken] = shown["broken"]
        assert (broken["id"], broken["column"]) == (row_id, column)
        assert broken["error"].endswith(f"is broken: {column} is not text in UTF-8.")
        assert [each.sentence for each in inspect_sqlite(made.path)] == [broken["error"]]


async def test_a_client_is_told_what_its_list_could_not_show(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made, client_of(made.api.port) as client:
        assert (await client.threads.list()).broken == ()
        broken, *rest = await client.threads.list()
        made.execute("UPDATE threads SET epoch = 'weird' WHERE id = ?", broken.id)
        shown = await client.threads.list()
        assert shown == rest
        sentence = f"The row of threads with id {broken.id!r} is broken: epoch is not a whole number."
        assert shown.broken == (BrokenItem(id=broken.id, column="epoch", error=sentence),)
        with pytest.raises(RowBroken, match="epoch is not a whole number"):
            await client.threads.get(broken.id)


async def test_a_run_with_a_broken_step_or_message_shows_the_others(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made:
        run_id = (await made.api.get("/api/runs"))["runs"][0]["id"]
        made.execute("UPDATE steps SET usage = '[1]' WHERE run_id = ? AND number = 1", run_id)
        made.execute("UPDATE messages SET body = '{}' WHERE run_id = ? AND role = 'user'", run_id)
        shown = await made.api.get(f"/api/runs/{run_id}")
        assert shown["run"]["steps"]
        assert [each["column"] for each in shown["broken"]] == ["usage", "body"]


async def test_a_client_is_told_what_a_run_could_not_show(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made, client_of(made.api.port) as client:
        run_id = (await client.runs.list())[0].id
        assert (await client.runs.get(run_id)).broken == ()
        made.execute("UPDATE steps SET usage = '[1]' WHERE run_id = ? AND number = 1", run_id)
        made.execute("UPDATE messages SET body = '{}' WHERE run_id = ? AND role = 'user'", run_id)
        shown, over = await client.runs.get(run_id), await client.runs.wait(run_id, 20)
        assert [each.column for each in shown.broken] == ["usage", "body"]
        assert shown.broken[0].error.endswith("is broken: usage is JSON of another shape.")
        assert over.broken == shown.broken


async def test_an_event_with_a_broken_payload_stays_in_its_place(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made:
        thread_id = (await made.api.get("/api/threads"))["threads"][0]["id"]
        made.execute("UPDATE events SET payload = '[]' WHERE thread_id = ? AND n = 2", thread_id)
        async with made.api.stream(f"/api/threads/{thread_id}/stream?after=0") as stream:
            events = [await stream.event() for _ in range(4)][1:]
        assert [event["seq"] for event in events] == [1, 2, 3]
        said = "payload is JSON of another shape"
        assert events[1]["data"] == {"broken": True, "error": said}


async def test_an_event_that_is_broken_elsewhere_stays_in_its_place_too(
    tmp_path: Path, filled: Filled
) -> None:
    async with journal(tmp_path, filled) as made:
        thread_id = (await made.api.get("/api/threads"))["threads"][0]["id"]
        made.execute("UPDATE events SET at = 'noon', type = X'ff' WHERE thread_id = ? AND n = 2", thread_id)
        made.execute("UPDATE events SET n = 'last' WHERE thread_id = ? AND n = 3", thread_id)
        async with made.api.stream(f"/api/threads/{thread_id}/stream?after=0") as stream:
            events = [await stream.event() for _ in range(4)][1:]
        assert [event["seq"] for event in events] == [1, 2, 4]
        said = "type is not text in UTF-8; at is not a whole number"
        assert events[1]["data"] == {"broken": True, "error": said}
        assert {each.column for each in inspect_sqlite(made.path)} == {"type", "n"}


async def test_calls_on_offer_are_not_held_up_by_a_broken_one(tmp_path: Path) -> None:
    ask = tw.Tool(name="ask", description="Ask.", kind="external", timeout=60.0)
    path = tmp_path / "journal.db"

    async def opened(bus: MemoryBus) -> Store:
        return await sqlite_journal(path, bus.publish)

    turn = calling("ask")
    async with serving(ScriptedModel([turn, {"text": "Hi."}]), [ask], store=opened) as api:
        for _ in range(2):
            sent = await api.post(f"/api/threads/{await api.thread()}/messages", {"content": "Ask"}, 202)
            async with api.rig.rt.events.following(Topic(kind="run", id=sent["runId"]), 0) as following:
                async for event in following.events:
                    if event.type == "tool.started":
                        break
        first, second = (each["callId"] for each in (await api.get("/api/calls"))["calls"])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE calls SET arguments = '[' WHERE id = ?", (first,))
        async with api.stream("/api/tools/stream") as stream:
            offered = await stream.until("tool.call")
        assert offered[-1]["data"]["toolCallId"] == second
