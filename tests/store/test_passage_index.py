"""The index of passages on SQLite: one for all agents, with a separate part for each."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.conformance.test_memory import add, found, passage
from tests.conformance.test_spaces import act
from tests.databases import sqlite_journal
from tests.play import committed

from toolwright.adapters.store.sql.memory import CODES, coded
from toolwright.core.journal.agent_effects import DropPassage

pytestmark = pytest.mark.anyio

TEXT = "Jim likes green tea; he said so twice, in Köln and here."


def passages_by_trigram(path: Path) -> dict[str, int]:
    """Return the number of passages for each trigram of the index."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, passage_index, row)")
        return dict(connection.execute("SELECT term, doc FROM temp.terms"))


async def test_agents_that_store_the_same_share_no_trigrams(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await sqlite_journal(path, lambda _: None)
    for number in range(20):
        await add(store, passage(TEXT, number, f"agt_{number}"))
    terms = passages_by_trigram(path)
    shared = sum(count > 1 for count in terms.values())
    assert len(terms) > 900
    assert shared < len(terms) / 50
    await store.close()


async def test_what_only_looks_alike_in_the_index_is_not_found(tmp_path: Path) -> None:
    store = await sqlite_journal(tmp_path / "journal.db", lambda _: None)
    alike = chr(ord("a") + CODES)
    assert coded("aaa", "agt_1") == coded(alike * 3, "agt_1")
    await add(store, passage("aaa"), passage(alike * 3, 1))
    assert (await found(store, "aaa"), await found(store, alike * 3)) == (["psg_0"], ["psg_1"])
    await store.close()


async def test_a_passage_that_is_dropped_is_in_the_index_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await sqlite_journal(path, lambda _: None)
    await add(store, passage(TEXT))
    await committed(store, act(DropPassage(agent_id="agt_1", id="psg_0")))
    assert passages_by_trigram(path) == {}
    await store.close()
