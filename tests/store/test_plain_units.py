"""Plain units on SQLite: the direct path writes the same rows as their programs, and fails the same guards."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.databases import sqlite_journal
from tests.play import Drain, begun, change, draft, later, said, step

from toolwright.adapters.store.engine.program import drive, statements
from toolwright.adapters.store.sql.advance import is_plain, program
from toolwright.adapters.store.sql.statements import Statements
from toolwright.adapters.store.sqlite.driver import ProgramRunner
from toolwright.adapters.store.sqlite.file import connect
from toolwright.core.journal.agent_effects import DropTimer
from toolwright.core.journal.rows import GuardFailed
from toolwright.core.journal.units import Advance, Answer, Committed, Finish, Leaving, Result
from toolwright.core.threads.event import Event
from toolwright.core.threads.message import MessageCall
from toolwright.core.threads.run import Usage
from toolwright.core.value import changed


class ByPrograms(ProgramRunner):
    """Writes every unit with its program."""

    def apply(self, unit: Any) -> Any:  # the same interface
        return drive(program(unit, self._sql), self._run_all)


@pytest.fixture
def drain(tmp_path: Path) -> Drain:
    """A claimed run, in a file."""

    async def started() -> Drain:
        store = await sqlite_journal(tmp_path / "straight.db", lambda _: None)
        drain = await begun(store)
        await store.close()
        return drain

    return asyncio.run(started())


@pytest.fixture
def files(drain: Drain, tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """Two files with the same run."""
    with (
        closing(connect(tmp_path / "straight.db")) as straight,
        closing(connect(tmp_path / "program.db")) as by_program,
    ):
        straight.backup(by_program)
        yield straight, by_program


def rows(file: sqlite3.Connection) -> dict[str, list[Any]]:
    names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: file.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def outcome(
    writing: ProgramRunner, file: sqlite3.Connection, unit: Advance
) -> tuple[Committed, list[Event]] | str:
    """Return the answer and the events of the unit, or the guard that failed."""
    file.execute("BEGIN IMMEDIATE")
    try:
        answer, events = writing.apply(unit)
    except GuardFailed as failed:
        writing.forget()
        file.execute("ROLLBACK")
        return failed.guard
    writing.flush()
    file.execute("COMMIT")
    return answer, list(events)


def steps(drain: Drain) -> Iterator[Advance]:
    """Units of a run, each of which depends on the previous one."""
    calls = [
        drain.call("running", started_at=later(1), name="héllo", arguments='{"a": 1}'),
        drain.call(position=1, arguments="{"),
        drain.call(
            "done", position=2, result={"status": "success", "result": [1, "ü"]}, completed_at=later(2)
        ),
    ]
    named = [
        MessageCall(id=each.id, name=each.name, arguments=each.arguments, model_call_id=each.model_call_id)
        for each in calls
    ]
    yield drain.unit(
        Answer,
        {"step_count": 1, "usage": Usage(input_tokens=9), "cost": 0.5, "output": "Let me look."},
        messages=(said("Let me look.", drain.run.id, step=1, calls=tuple(named)),),
        calls=tuple(calls),
        step=step(drain.run.id, 1),
        events=(draft("message", text="Let me look."), draft("step.done", n=1), draft("tool.started")),
    )
    second = change(calls[1], "running", deadline=later(30), expires_at=later(60))
    again = change(second.after, "running")
    yield drain.unit(
        Result,
        messages=(said("21 °C", drain.run.id, step=1, call_id=calls[0].id, status="success"),),
        changes=(
            change(calls[0], "done", result={"status": "success", "result": {"t": 21}}),
            second,
        ),
        events=(draft("tool.done", result={"t": 21}), draft("message"), draft("tool.started")),
    )
    yield drain.unit(Result, {"output": {"ünï": [1.5, None, True]}, "turn": 1, "side": "side_b"})
    yield drain.unit(
        Result,
        changes=(
            again,
            change(again.after, "waiting", space_id="tea", terms={"title": "Look?"}),
        ),
    )
    yield drain.unit(Answer, {"step_count": 2}, step=step(drain.run.id, 2))


def test_the_straight_way_writes_the_rows_that_the_program_writes(
    drain: Drain, files: tuple[sqlite3.Connection, sqlite3.Connection]
) -> None:
    straight, by_program = files
    sql = statements(Statements, "sqlite")
    ways = ((ProgramRunner(straight, sql), straight), (ByPrograms(by_program, sql), by_program))
    for unit in steps(drain):
        first, second = [outcome(*way, unit) for way in ways]
        assert is_plain(unit)
        assert isinstance(first, tuple)
        assert first == second
        assert rows(straight) == rows(by_program)
        drain.moved_by(unit)


def test_the_straight_way_fails_the_guards_that_the_program_fails(
    drain: Drain, files: tuple[sqlite3.Connection, sqlite3.Connection]
) -> None:
    straight, by_program = files
    sql = statements(Statements, "sqlite")
    ways = ((ProgramRunner(straight, sql), straight), (ByPrograms(by_program, sql), by_program))
    before = rows(straight)
    moved = (change(drain.call("running", id="call_none"), "done"),)
    units = {
        "fence": drain.unit(Result, messages=(said("x"),), events=(draft("message"),)),
        "call": drain.unit(Result, changes=moved, messages=(said("x"),)),
        "run": drain.unit(Result, messages=(said("x"),)),
    }
    units["fence"] = changed(units["fence"], epoch=9)
    units["run"] = changed(units["run"], run=changed(drain.run, id="run_none"), was=None)
    for guard, unit in units.items():
        assert is_plain(unit)
        assert [outcome(*way, unit) for way in ways] == [guard, guard]
        assert rows(straight) == before
    no_change = changed(units["run"], was=units["run"].run)
    assert [outcome(*way, no_change) for way in ways] == ["run", "run"]


def test_a_unit_with_more_than_a_step_is_not_plain(drain: Drain) -> None:
    pending = drain.call("pending")
    more: list[dict[str, Any]] = [
        {"read": ("msg_1",)},
        {"dropped": (1,)},
        {"edited": (said("x"),)},
        {"nested": (drain.call(),)},
        {"leaving": Leaving(gen=1)},
        {"node": "node_1"},
        {"calls": (pending,)},
        {"effects": (DropTimer(name="call:1"),)},
        {"run": {"status": "completed"}},
    ]
    for fields in more:
        assert not is_plain(drain.unit(Result, **fields)), fields
    assert not is_plain(drain.unit(Finish))
    assert is_plain(drain.unit(Answer))
