"""All of the journal's tables at once: what its migrations lead to."""

from sqlalchemy import MetaData

from toolwright.adapters.store.tables import agents as tables_agents
from toolwright.adapters.store.tables import calls as tables_calls
from toolwright.adapters.store.tables import children as tables_children
from toolwright.adapters.store.tables import events as tables_events
from toolwright.adapters.store.tables import kept as tables_kept
from toolwright.adapters.store.tables import spaces as tables_spaces
from toolwright.adapters.store.tables import threads as tables_threads

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
