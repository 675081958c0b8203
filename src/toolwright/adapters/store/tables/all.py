"""All of the journal's tables at once: what its migrations lead to."""

from sqlalchemy import MetaData

from toolwright.adapters.store.tables import (
    agents,
    calls,
    children,
    events,
    kept,
    mcp,
    memory,
    messages,
    retention,
    spaces,
    threads,
)

PARTS = (agents, calls, children, events, kept, mcp, memory, messages, retention, spaces, threads)


def all_tables() -> MetaData:
    """Return the metadata with every table registered."""
    [whole] = {part.metadata for part in PARTS}
    return whole
