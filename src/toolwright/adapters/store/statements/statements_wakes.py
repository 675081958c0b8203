"""How a wake is written where there may be one already."""

from typing import Any, Protocol

from sqlalchemy import case

from toolwright.adapters.store.tables.events import wakes


class Inserting(Protocol):
    """An INSERT of either dialect into the wakes."""

    @property
    def excluded(self) -> Any:  # the columns of the row that was to be inserted
        ...

    def on_conflict_do_update(self, *, index_elements: Any, set_: Any) -> Any: ...  # as SQLAlchemy has them


def woken(inserting: Inserting) -> Any:  # a statement of SQLAlchemy
    """The earlier time stays, the generation rises."""
    due = inserting.excluded.due
    earlier = case((due < wakes.c.due, due), else_=wakes.c.due)
    return inserting.on_conflict_do_update(
        index_elements=[wakes.c.thread_id], set_={"due": earlier, "gen": wakes.c.gen + 1}
    )
