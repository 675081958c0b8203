"""SQL of spaces: their members, messages, reactions and events."""

from collections.abc import Sequence

import sqlalchemy as sa

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, read_text
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    number,
    read_rows,
    row_params,
    statements,
    string,
)
from toolwright.adapters.store.sql.threads import counters, entities, inbox, runs
from toolwright.core.journal.reads import RowReads, SpaceReads
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.spaces import (
    DeliveryOrder,
    EntityType,
    Member,
    Reaction,
    Space,
    SpaceKind,
    SpaceMessage,
    SpaceRole,
)
from toolwright.core.threads.event import Event

spaces = sa.Table(
    "spaces",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False, info=one_of(SpaceKind)),
    sa.Column("name", Json(a_text)),
    sa.Column("description", Json(a_text)),
    sa.Column("metadata", Json(an_object), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("updated_at", Instant(), nullable=False),
    sa.Column(
        "delivery", sa.Text, nullable=False, server_default=sa.text("'all'"), info=one_of(DeliveryOrder)
    ),
    sa.Index("spaces_by_time", "created_at"),
)

members = sa.Table(
    "members",
    metadata,
    sa.Column("space_id", sa.Text, nullable=False),
    sa.Column("entity_id", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("read_seq", sa.BigInteger, nullable=False),
    sa.Column("joined_at", Instant(), nullable=False),
    sa.Column("type", sa.Text, nullable=False, info=one_of(EntityType)),
    sa.PrimaryKeyConstraint("space_id", "entity_id"),
    sa.Index("members_by_entity", "entity_id"),
)

space_messages = sa.Table(
    "space_messages",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("space_id", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("entity_id", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False, info=one_of(SpaceRole)),
    sa.Column("content", Json(a_text, dumps_unescaped), nullable=False),
    sa.Column("metadata", Json(an_object), nullable=False),
    sa.Column("parent_id", sa.Text),
    sa.Column("created_at", Instant(), nullable=False),
    sa.Column("edited_at", Instant()),
    sa.UniqueConstraint("space_id", "seq", name="space_messages_in_order"),
    sa.Index("space_messages_by_parent", "parent_id"),
)

reactions = sa.Table(
    "reactions",
    metadata,
    sa.Column("message_id", sa.Text, nullable=False),
    sa.Column("entity_id", sa.Text, nullable=False),
    sa.Column("emoji", sa.Text, nullable=False),
    sa.Column("created_at", Instant(), nullable=False),
    sa.PrimaryKeyConstraint("message_id", "entity_id", "emoji"),
)

unnumbered_events = sa.Table(
    "unnumbered_events",
    metadata,
    sa.Column("place", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("i", sa.Integer, nullable=False),
    sa.Column("space_id", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text),
    sa.Column("run_id", sa.Text),
    sa.Column("agent", sa.Text),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("payload", Json(an_object), nullable=False),
    sa.Column("at", Instant(), nullable=False),
)

space_events = sa.Table(
    "space_events",
    metadata,
    sa.Column("n", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("space_id", sa.Text, nullable=False),
    sa.Column("thread_id", sa.Text),
    sa.Column("run_id", sa.Text),
    sa.Column("agent", sa.Text),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("payload", Json(an_object), nullable=False),
    sa.Column("at", Instant(), nullable=False),
    sa.Index("space_events_by_space", "space_id", "n"),
    sa.Index("space_events_by_time", "at"),
)


SPACES = Mapping(spaces, Space)
MEMBERS = Mapping(members, Member)
SPACE_MESSAGES = Mapping(space_messages, SpaceMessage)
REACTIONS = Mapping(reactions, Reaction)
SPACE_EVENTS = Mapping(space_events, Event)


EVENTS = "space_events"
"""The name of the counter that numbers the events of all spaces."""


class SpaceStatements:
    """Statements about spaces, compiled for one dialect; each attribute is a statement."""

    def __init__(self, name: DialectName) -> None:
        self.numbers_later = name == "postgresql"  # SQLite has one writer, so its counter blocks no other
        compiled = Compiler(name)
        self.count_events = compiled(
            sa.update(counters)
            .where(counters.c.name == EVENTS)
            .values(value=counters.c.value + number("more"))
            .returning(counters.c.value)
        )
        self.insert_event = compiled(_inline(sa.insert(space_events).values(row_params(space_events))))
        columns = {name: each for name, each in row_params(unnumbered_events).items() if name != "place"}
        self.insert_unnumbered = compiled(_inline(sa.insert(unnumbered_events).values(columns)))
        of_entity = sa.select(members.c.space_id).where(members.c.entity_id == string("entity_id"))
        with_names = sa.select(members, entities.c.display_name).select_from(
            members.outerjoin(entities, entities.c.id == members.c.entity_id)
        )
        with_me = with_names.where(members.c.space_id.in_(of_entity))
        in_order = with_me.order_by(members.c.space_id, members.c.joined_at, members.c.entity_id)
        self.company = compiled(in_order.limit(number("limit")))
        this = sa.and_(runs.c.id == string("run_id"), runs.c.thread_id == inbox.c.thread_id)
        read = sa.or_(inbox.c.run_id == string("run_id"), inbox.c.promised == string("run_id"))
        caused = sa.select(inbox.c.n).where(this, read, inbox.c.author == string("author"))
        self.caused = compiled(caused.limit(1))


def _inline(statement: sa.Insert) -> sa.Insert:
    return statement.inline()  # otherwise SQLAlchemy adds RETURNING with the key


def _with_names(rows: Sequence[Row]) -> list[tuple[Member, str | None]]:
    return [(member, _name(row[-1])) for member, row in zip(MEMBERS.all(rows), rows, strict=True)]


def _name(written: str | None) -> str | None:
    try:
        return None if written is None else read_text(written)
    except (ValueError, TypeError):  # a person whose row is broken has no name
        return None


class SqlSpaces(SpaceReads):
    """The `SpaceReads` port over a driver."""

    def __init__(self, rows: RowReads, driver: Driver) -> None:
        super().__init__(rows)
        self._driver = driver
        self._sql = statements(SpaceStatements, driver.dialect)

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        params: Params = {"entity_id": entity_id, "limit": limit}
        return await read_rows(self._driver, _with_names, self._sql.company, params)

    async def caused(self, run_id: str, author: str) -> bool:
        params: Params = {"run_id": run_id, "author": author}
        return bool(await read_rows(self._driver, list, self._sql.caused, params))
