"""Statements are compiled once for each dialect."""

import pytest

from toolwright.adapters.store.engine.program import DialectName, statements
from toolwright.adapters.store.sql.readers import Queries
from toolwright.adapters.store.sql.statements import Statements


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_all_journals_of_a_process_share_their_statements(name: DialectName) -> None:
    for kind in (Statements, Queries):
        assert statements(kind, name) is statements(kind, name)
    assert statements(Statements, name).rows is statements(Statements, name).rows


def test_each_dialect_has_its_own() -> None:
    assert statements(Queries, "sqlite") is not statements(Queries, "postgresql")
