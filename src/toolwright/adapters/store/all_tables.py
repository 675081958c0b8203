"""All of the journal's tables at once: what its migrations lead to."""

from sqlalchemy import MetaData

from toolwright.adapters.store import (
    tables_agents,
    tables_calls,
    tables_children,
    tables_events,
    tables_kept,
    tables_spaces,
    tables_threads,
)

PARTS = (
    tables_agents,
    tables_calls,
    tables_children,
    tables_events,
    tables_kept,
    tables_spaces,
    tables_threads,
)


def all_tables() -> MetaData:
    """The metadata in which every table has been told."""
    [whole] = {part.metadata for part in PARTS}
    return whole
