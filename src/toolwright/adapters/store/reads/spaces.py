"""Reads of spaces on SQL: the queries, compiled for one dialect, and the port over a driver."""

from collections.abc import Sequence
from functools import cache

from sqlalchemy import and_, exists, or_, select

from toolwright.adapters.store.engine.codecs import Params, Row, read_text
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Statement,
    number,
    statements,
    string,
)
from toolwright.adapters.store.tables.events import inbox
from toolwright.adapters.store.tables.kept import entities
from toolwright.adapters.store.tables.spaces import (
    MEMBERS,
    REACTIONS,
    SPACE_MESSAGES,
    SPACES,
    members,
    reactions,
    space_messages,
    spaces,
)
from toolwright.adapters.store.tables.threads import runs
from toolwright.core.spaces.space import Member, Reaction, Space, SpaceMessage


def _with_names(rows: Sequence[Row]) -> list[tuple[Member, str | None]]:
    return [(member, _name(row[-1])) for member, row in zip(MEMBERS.all(rows), rows, strict=True)]


def _name(written: str | None) -> str | None:
    try:
        return None if written is None else read_text(written)
    except (ValueError, TypeError):  # a person whose row is broken has no name
        return None


class SpaceQueries:
    """The queries about spaces; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self._compiled = compiled = Compiler(name)
        by_time = select(spaces).order_by(spaces.c.created_at, spaces.c.id)
        page = by_time.limit(number("limit")).offset(number("offset"))
        of_entity = select(members.c.space_id).where(members.c.entity_id == string("entity_id"))
        self.space = compiled(select(spaces).where(spaces.c.id == string("space_id")))
        self.spaces = compiled(page)
        self.spaces_of = compiled(page.where(or_(spaces.c.kind == "public", spaces.c.id.in_(of_entity))))

        in_time = select(spaces).where(spaces.c.id.in_(of_entity))
        in_time = in_time.order_by(spaces.c.created_at, spaces.c.id)
        self.mine = compiled(in_time.limit(number("limit")))
        of_other = select(members.c.space_id).where(members.c.entity_id == string("with_id"))
        self.shared = compiled(in_time.where(spaces.c.id.in_(of_other)).limit(number("limit")))
        named = select(members, entities.c.display_name).select_from(
            members.outerjoin(entities, entities.c.id == members.c.entity_id)
        )
        with_me = named.where(members.c.space_id.in_(of_entity))
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
            select(members).where(in_space).order_by(members.c.joined_at, members.c.entity_id)
        )
        self.member = compiled(select(members).where(in_space, of))
        self.memberships = compiled(select(members).where(of).order_by(members.c.space_id))

        its_space = exists().where(spaces.c.id == space_messages.c.space_id)
        there = select(space_messages).where(its_space)  # others are to be swept up
        self.message = compiled(there.where(space_messages.c.id == string("id")))
        here, seq = space_messages.c.space_id == string("space_id"), space_messages.c.seq
        newest = there.where(here).order_by(seq.desc()).limit(number("limit"))
        self.newest = compiled(newest.offset(number("offset")))
        of_message = or_(space_messages.c.id == string("id"), space_messages.c.parent_id == string("id"))
        answers = there.where(of_message).order_by(seq.desc())
        self.answers = compiled(answers.limit(number("limit")))
        self.before = compiled(newest.where(seq < number("before")))
        behind = there.where(here, seq > number("after")).order_by(seq)
        self.after = compiled(behind.limit(number("limit")))
        self.reactions = cache(self._reactions)

        this = and_(runs.c.id == string("run_id"), runs.c.thread_id == inbox.c.thread_id)
        read = or_(inbox.c.run_id == string("run_id"), inbox.c.promised == string("run_id"))
        caused = select(inbox.c.n).where(this, read, inbox.c.author == string("author"))
        self.caused = compiled(caused.limit(1))

    def _reactions(self, count: int) -> Statement:
        chosen = reactions.c.message_id.in_([string(f"id_{i}") for i in range(count)])
        in_order = (reactions.c.created_at, reactions.c.entity_id, reactions.c.emoji)
        return self._compiled(select(reactions).where(chosen).order_by(*in_order))


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
            return await read_rows(self._driver, SPACES.each, self._sql.spaces, page)
        return await read_rows(self._driver, SPACES.each, self._sql.spaces_of, {**page, "entity_id": seen_by})

    async def spaces_of(self, entity_id: str, limit: int, with_id: str | None = None) -> Sequence[Space]:
        asked: Params = {"entity_id": entity_id, "limit": limit}
        if with_id is not None:
            both: Params = {**asked, "with_id": with_id}
            return await read_rows(self._driver, SPACES.all, self._sql.shared, both)
        return await read_rows(self._driver, SPACES.all, self._sql.mine, asked)

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        asked: Params = {"entity_id": entity_id, "limit": limit}
        return await read_rows(self._driver, _with_names, self._sql.company, asked)

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        return await read_rows(self._driver, MEMBERS.all, self._sql.memberships, {"entity_id": entity_id})

    async def members(self, space_id: str) -> Sequence[Member]:
        return await read_rows(self._driver, MEMBERS.each, self._sql.members, {"space_id": space_id})

    async def member(self, space_id: str, entity_id: str) -> Member | None:
        here: Params = {"space_id": space_id, "entity_id": entity_id}
        return await read_rows(self._driver, MEMBERS.first, self._sql.member, here)

    async def messages(
        self, space_id: str, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[SpaceMessage]:
        here: Params = {"space_id": space_id, "limit": limit}
        if after is not None:
            return await read_rows(
                self._driver, SPACE_MESSAGES.each, self._sql.after, {**here, "after": after}
            )
        if before is None:
            return await self.newest(space_id, limit, 0)
        found = await read_rows(
            self._driver, SPACE_MESSAGES.each, self._sql.before, {**here, "before": before}
        )
        return found.made_of(found[::-1])

    async def newest(self, space_id: str, limit: int, offset: int) -> Sequence[SpaceMessage]:
        here: Params = {"space_id": space_id, "limit": limit, "offset": offset}
        found = await read_rows(self._driver, SPACE_MESSAGES.each, self._sql.newest, here)
        return found.made_of(found[::-1])

    async def answers(self, message_id: str, limit: int) -> Sequence[SpaceMessage]:
        asked: Params = {"id": message_id, "limit": limit}
        found = await read_rows(self._driver, SPACE_MESSAGES.each, self._sql.answers, asked)
        return found.made_of(found[::-1])

    async def message(self, message_id: str) -> SpaceMessage | None:
        return await read_rows(self._driver, SPACE_MESSAGES.first, self._sql.message, {"id": message_id})

    async def reactions(self, message_ids: Sequence[str]) -> Sequence[Reaction]:
        if not message_ids:
            return []
        ids: Params = {f"id_{i}": one for i, one in enumerate(message_ids)}
        return await read_rows(self._driver, REACTIONS.each, self._sql.reactions(len(message_ids)), ids)

    async def caused(self, run_id: str, author: str) -> bool:
        asked: Params = {"run_id": run_id, "author": author}
        return bool(await read_rows(self._driver, list, self._sql.caused, asked))
