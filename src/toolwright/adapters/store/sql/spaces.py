"""SQL of spaces: their members, messages, reactions and events."""

from collections.abc import Sequence
from functools import cache

import sqlalchemy as sa

from toolwright.adapters.store.engine.codecs import Params, Row, a_text, an_object, read_text
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.adapters.store.engine.program import (
    Compiler,
    DialectName,
    Driver,
    Statement,
    number,
    read_rows,
    row_params,
    statements,
    string,
)
from toolwright.adapters.store.sql.threads import counters, entities, inbox, runs
from toolwright.core.json_value import dumps_unescaped
from toolwright.core.limits import Page
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


def _inline(statement: sa.Insert) -> sa.Insert:
    return statement.inline()  # otherwise SQLAlchemy adds RETURNING with the key


def _with_names(rows: Sequence[Row]) -> list[tuple[Member, str | None]]:
    return [(member, _name(row[-1])) for member, row in zip(MEMBERS.all(rows), rows, strict=True)]


def _name(written: str | None) -> str | None:
    try:
        return None if written is None else read_text(written)
    except (ValueError, TypeError):  # a person whose row is broken has no name
        return None


class SpaceQueries:
    """Queries about spaces; each attribute is a query."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        by_time = sa.select(spaces).order_by(spaces.c.created_at, spaces.c.id)
        page = by_time.limit(number("limit")).offset(number("offset"))
        of_entity = sa.select(members.c.space_id).where(members.c.entity_id == string("entity_id"))
        self.space = compiled(sa.select(spaces).where(spaces.c.id == string("space_id")))
        self.spaces = compiled(page)
        self.spaces_of = compiled(page.where(sa.or_(spaces.c.kind == "public", spaces.c.id.in_(of_entity))))

        in_time = sa.select(spaces).where(spaces.c.id.in_(of_entity))
        in_time = in_time.order_by(spaces.c.created_at, spaces.c.id)
        self.mine = compiled(in_time.limit(number("limit")))
        of_other = sa.select(members.c.space_id).where(members.c.entity_id == string("with_id"))
        self.shared = compiled(in_time.where(spaces.c.id.in_(of_other)).limit(number("limit")))
        with_names = sa.select(members, entities.c.display_name).select_from(
            members.outerjoin(entities, entities.c.id == members.c.entity_id)
        )
        with_me = with_names.where(members.c.space_id.in_(of_entity))
        self.company = compiled(
            with_me.order_by(members.c.space_id, members.c.joined_at, members.c.entity_id).limit(
                number("limit")
            )
        )

        in_space, of = (
            members.c.space_id == string("space_id"),
            members.c.entity_id == string("entity_id"),
        )
        self.members = compiled(
            sa.select(members).where(in_space).order_by(members.c.joined_at, members.c.entity_id)
        )
        self.member = compiled(sa.select(members).where(in_space, of))
        self.memberships = compiled(sa.select(members).where(of).order_by(members.c.space_id))

        its_space = sa.exists().where(spaces.c.id == space_messages.c.space_id)
        stored = sa.select(space_messages).where(its_space)  # other rows await deletion
        self.message = compiled(stored.where(space_messages.c.id == string("id")))
        here, seq = space_messages.c.space_id == string("space_id"), space_messages.c.seq
        newest = stored.where(here).order_by(seq.desc()).limit(number("limit"))
        self.newest = compiled(newest.offset(number("offset")))
        of_message = sa.or_(space_messages.c.id == string("id"), space_messages.c.parent_id == string("id"))
        answers = stored.where(of_message).order_by(seq.desc())
        self.answers = compiled(answers.limit(number("limit")))
        self.before = compiled(newest.where(seq < number("before")))
        behind = stored.where(here, seq > number("after")).order_by(seq)
        self.after = compiled(behind.limit(number("limit")))
        self.reactions = cache(self._reactions)

        this = sa.and_(runs.c.id == string("run_id"), runs.c.thread_id == inbox.c.thread_id)
        read = sa.or_(inbox.c.run_id == string("run_id"), inbox.c.promised == string("run_id"))
        caused = sa.select(inbox.c.n).where(this, read, inbox.c.author == string("author"))
        self.caused = compiled(caused.limit(1))

    def _reactions(self, count: int) -> Statement:
        chosen = reactions.c.message_id.in_([string(f"id_{i}") for i in range(count)])
        in_order = (reactions.c.created_at, reactions.c.entity_id, reactions.c.emoji)
        return self._compiled(sa.select(reactions).where(chosen).order_by(*in_order))


class SqlSpaces:
    """The `SpaceReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(SpaceQueries, driver.dialect)

    async def space(self, space_id: str) -> Space | None:
        return await read_rows(self._driver, SPACES.first, self._sql.space, {"space_id": space_id})

    async def spaces(
        self, *, seen_by: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Space]:
        page: Params = {"limit": limit, "offset": offset}
        if seen_by is None:
            return await read_rows(self._driver, SPACES.page, self._sql.spaces, page)
        return await read_rows(self._driver, SPACES.page, self._sql.spaces_of, {**page, "entity_id": seen_by})

    async def spaces_of(self, entity_id: str, limit: int, with_id: str | None = None) -> Sequence[Space]:
        params: Params = {"entity_id": entity_id, "limit": limit}
        if with_id is not None:
            both: Params = {**params, "with_id": with_id}
            return await read_rows(self._driver, SPACES.all, self._sql.shared, both)
        return await read_rows(self._driver, SPACES.all, self._sql.mine, params)

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        params: Params = {"entity_id": entity_id, "limit": limit}
        return await read_rows(self._driver, _with_names, self._sql.company, params)

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        return await read_rows(self._driver, MEMBERS.all, self._sql.memberships, {"entity_id": entity_id})

    async def members(self, space_id: str) -> Sequence[Member]:
        return await read_rows(self._driver, MEMBERS.page, self._sql.members, {"space_id": space_id})

    async def member(self, space_id: str, entity_id: str) -> Member | None:
        params: Params = {"space_id": space_id, "entity_id": entity_id}
        return await read_rows(self._driver, MEMBERS.first, self._sql.member, params)

    async def messages(
        self, space_id: str, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[SpaceMessage]:
        params: Params = {"space_id": space_id, "limit": limit}
        if after is not None:
            return await read_rows(
                self._driver, SPACE_MESSAGES.page, self._sql.after, {**params, "after": after}
            )
        if before is None:
            return await self.newest(space_id, limit, 0)
        rows = await read_rows(
            self._driver, SPACE_MESSAGES.page, self._sql.before, {**params, "before": before}
        )
        return Page(rows[::-1], more=rows.more)

    async def newest(self, space_id: str, limit: int, offset: int) -> Sequence[SpaceMessage]:
        params: Params = {"space_id": space_id, "limit": limit, "offset": offset}
        rows = await read_rows(self._driver, SPACE_MESSAGES.page, self._sql.newest, params)
        return Page(rows[::-1], more=rows.more)

    async def answers(self, message_id: str, limit: int) -> Sequence[SpaceMessage]:
        params: Params = {"id": message_id, "limit": limit}
        rows = await read_rows(self._driver, SPACE_MESSAGES.page, self._sql.answers, params)
        return Page(rows[::-1], more=rows.more)

    async def message(self, message_id: str) -> SpaceMessage | None:
        return await read_rows(self._driver, SPACE_MESSAGES.first, self._sql.message, {"id": message_id})

    async def reactions(self, message_ids: Sequence[str]) -> Sequence[Reaction]:
        if not message_ids:
            return []
        ids: Params = {f"id_{i}": one for i, one in enumerate(message_ids)}
        return await read_rows(self._driver, REACTIONS.page, self._sql.reactions(len(message_ids)), ids)

    async def caused(self, run_id: str, author: str) -> bool:
        params: Params = {"run_id": run_id, "author": author}
        return bool(await read_rows(self._driver, list, self._sql.caused, params))
