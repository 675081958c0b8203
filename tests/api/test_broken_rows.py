"""Rows of the journal with invalid values: a list that contains one is 503 with the row; background work continues."""

import asyncio
import json
import re
import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from sqlalchemy import Text

import toolwright as tw
from tests.api.columns import junk_of, plain_columns
from tests.api.documented import document
from tests.api.rig import JSON, Api, read, serving
from tests.client.rig import client_of
from tests.databases import sqlite_journal
from tests.kit import call
from toolwright.adapters.store.engine.mapping import ADVICE
from toolwright.adapters.store.opening import inspect_sqlite
from toolwright.adapters.store.sql.readers import all_tables
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

    async def counts(self) -> dict[str, int]:
        """Return the number of items of each list."""
        return {
            path: len(read(await self.direct.get(path), 200)[plural]) for path, plural in self.lists.items()
        }

    async def check(self, before: dict[str, int], table: str, *where: object) -> int:
        """Check that each list has all its items or names its broken row. Return the number of lists that name it.

        Skips lists below a row of the table.
        """
        refused = 0
        for path, plural in self.lists.items():
            if path.startswith(f"/api/{table}/") or (table == "threads" and "threadId=" in path):
                continue
            response = await self.direct.get(path)
            if response.status_code == 503:
                answer = response.json()
                assert answer["code"] == "row_broken", (answer, *where)
                assert re.match(
                    rf"The row of ({table}|agent_revisions) with .* is broken: .*{ADVICE}$", answer["error"]
                ), answer
                assert "retry-after" not in response.headers
                refused += 1
            else:
                assert len(read(response, 200)[plural]) == before[path], (path, *where)
        return refused


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
async def test_whatever_a_column_contains_a_list_has_all_its_rows_or_names_the_broken_one(
    tmp_path: Path, filled: Filled
) -> None:
    async with journal(tmp_path, filled) as made:
        before = await made.counts()
        assert min(before.values()) >= 2, before
        tried = refused = 0
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
                        refused += await made.check(before, table.name, column, junk)
                        tried += 1
                    made.execute(f"UPDATE {table.name} SET {column} = ? WHERE {where}", was)
        assert tried >= 120
        assert refused >= 60
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
async def test_an_invalid_word_or_number_breaks_the_lists_that_contain_its_row(
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
                await made.check(before, table, column.name, junk)
            made.execute(f"UPDATE {table} SET {column.name} = ? WHERE {where}", was)
        assert inspect_sqlite(made.path) == []


_FILTERED = frozenset({("calls", "status"), ("events", "n")})
"""Columns by which a list filters. A row with an invalid value there is not found."""


async def refused(made: Journal, path: str) -> str:
    """Return the error of a list that contains a broken row."""
    response = await made.api.client.get(path)
    assert (response.status_code, response.json()["code"]) == (503, "row_broken")
    return str(response.json()["error"])


async def test_junk_in_a_plain_column_is_named_as_junk_in_json_is(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made:
        first = (await made.api.get("/api/runs"))["runs"][0]["id"]
        made.execute("UPDATE runs SET cost = 'abc' WHERE id = ?", first)
        sentence = f"The row of runs with id {first!r} is broken: cost is not a number."
        assert await refused(made, "/api/runs") == f"{sentence} {ADVICE}"
        made.execute("UPDATE runs SET cost = NULL, status = 'weird' WHERE id = ?", first)
        [named] = [each.sentence for each in inspect_sqlite(made.path)]
        assert named.endswith(
            "status is none of cancelled, completed, failed, queued, running, skipped, waiting."
        )
        assert await refused(made, "/api/runs") == f"{named} {ADVICE}"


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


async def test_a_list_names_its_broken_row_as_a_request_for_the_row_does(
    tmp_path: Path, filled: Filled
) -> None:
    async with journal(tmp_path, filled) as made:
        broken, other = [each["id"] for each in (await made.api.get("/api/threads"))["threads"]]
        made.execute("UPDATE threads SET tags = 'no json' WHERE id = ?", broken)
        sentence = f"The row of threads with id {broken!r} is broken: tags is not JSON."
        assert await refused(made, "/api/threads") == f"{sentence} {ADVICE}"
        assert await refused(made, f"/api/threads/{broken}") == f"{sentence} {ADVICE}"
        assert (await made.api.get(f"/api/threads/{other}"))["thread"]["id"] == other
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
        error = await refused(made, path)
        assert error.startswith(f"The row of {table} with id {row_id!r} is broken: ")
        assert error.endswith(f"{column} is not text in UTF-8. {ADVICE}")
        assert [f"{each.sentence} {ADVICE}" for each in inspect_sqlite(made.path)] == [error]


async def test_a_client_raises_the_error_of_a_list_or_a_run_with_a_broken_row(
    tmp_path: Path, filled: Filled
) -> None:
    async with journal(tmp_path, filled) as made, client_of(made.api.port) as client:
        broken, run_id = (await client.threads.list())[0], (await client.runs.list())[0].id
        made.execute("UPDATE threads SET epoch = 'weird' WHERE id = ?", broken.id)
        for reading in (client.threads.list(), client.threads.get(broken.id)):
            with pytest.raises(RowBroken, match=f"'{broken.id}' is broken: epoch is not a whole number"):
                await reading
        made.execute("UPDATE steps SET usage = '[1]' WHERE run_id = ? AND number = 1", run_id)
        with pytest.raises(RowBroken, match="usage is JSON of another shape"):
            await client.runs.get(run_id)


async def test_a_run_with_a_broken_message_is_refused(tmp_path: Path, filled: Filled) -> None:
    async with journal(tmp_path, filled) as made:
        run_id = (await made.api.get("/api/runs"))["runs"][0]["id"]
        made.execute("UPDATE messages SET body = '{}' WHERE run_id = ? AND role = 'user'", run_id)
        assert "body" in await refused(made, f"/api/runs/{run_id}")


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

    turn = call("ask")
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


async def test_what_works_through_many_rows_skips_a_broken_one(tmp_path: Path, filled: Filled) -> None:
    """Wake-ups, nodes, secrets to re-encrypt, idle threads: a damaged row must not stop work on the others."""
    path = tmp_path / "journal.db"
    shutil.copy(filled[0], path)
    store = await sqlite_journal(path, lambda _: None)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DELETE FROM wakes")
            connection.executescript("""
                INSERT INTO wakes (thread_id, due, gen) VALUES ('th_1', 1, 'weird'), ('th_2', 1, 1);
                INSERT INTO nodes (id, version, slots, busy, seen) VALUES
                    ('n1', '1', 'weird', 0, 1), ('n2', '1', 1, 0, 1);
                INSERT INTO env (owner, kind, name, type, value, key, updated_at) VALUES
                    ('o', 'env', 'A', 'weird', 'x', 'old', 1), ('o', 'env', 'B', 'secret', 'x', 'old', 1);
                UPDATE threads SET tags = 'no json' WHERE id = (SELECT min(id) FROM threads);
            """)
            threads = [each for (each,) in connection.execute("SELECT id FROM threads ORDER BY id")]
        late = datetime.now(UTC) + timedelta(days=1)
        assert [each.thread_id for each in await store.due(late, 10)] == ["th_2"]
        assert [each.id for each in await store.nodes()] == ["n2"]
        assert [each.name for each in await store.sealed_otherwise("new", 10)] == ["B"]
        assert [each.id for each in await store.retention.idle(late, "", 10)] == threads[1:]
        assert len(inspect_sqlite(path)) == 4
    finally:
        await store.close()
