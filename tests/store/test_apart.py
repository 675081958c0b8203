"""Rows that Postgres can write in one statement: never the same row twice, because one of the writes would be lost."""

from tests.play import AT

from toolwright.adapters.store.engine.program import statements
from toolwright.adapters.store.postgres.merging import apart
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.journal.agent_effects import wake
from toolwright.core.journal.rows import Move
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread

SQL = statements(Statements, "postgresql")
DROP = SQL.rows.op(Move(kind=Message, where={"thread_id": "a", "seq": 1}, fields={"kept": False})).statement
WAKE = SQL.rows.op(wake("a", AT)).statement


def parts(*writes: tuple[object, tuple[object, ...]], most: int = 24) -> list[int]:
    return [len(part) for part in apart(list(writes), most)]  # type: ignore[arg-type]  # our own statements


def test_new_rows_and_different_keys_go_together_and_the_same_key_does_not() -> None:
    assert parts() == [0]
    assert parts(
        (SQL.insert_event, ("a", 1)), (SQL.insert_event, ("a", 2)), (SQL.insert_message, ("a", 1))
    ) == [3]
    assert parts((WAKE, ("a", 1, 1)), (WAKE, ("b", 1, 1))) == [2]
    assert parts((WAKE, ("a", 1, 1)), (WAKE, ("b", 1, 1)), (WAKE, ("a", 1, 1))) == [2, 1]


def test_rows_that_are_there_are_changed_in_a_statement_of_their_own_table() -> None:
    enter, hand_off = (
        SQL.rows.op(Move(kind=Thread, where={"id": "a"}, fields={name: "s"})).statement
        for name in ("space_id", "active_agent")
    )
    assert parts((enter, ("s", "a")), (hand_off, ("b", "a"))) == [1, 1]
    assert parts((enter, ("s", "a")), (WAKE, ("a", 1, 1))) == [2]
    assert parts((SQL.insert_message, ("a", 1)), (DROP, ("a", 0)), (SQL.insert_message, ("a", 2))) == [1, 2]


def test_no_statement_is_longer_than_it_may_be() -> None:
    assert parts(*[(SQL.insert_event, ("a", n)) for n in range(5)], most=2) == [2, 2, 1]
