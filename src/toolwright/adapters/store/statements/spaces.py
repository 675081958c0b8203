"""The statements that write spaces, other threads' inboxes and timers."""

from functools import cache

from sqlalchemy import Insert, Text, and_, bindparam, case, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.statement import (
    Compiler,
    DialectName,
    Statement,
    number,
    row_params,
    string,
)
from toolwright.adapters.store.tables.events import counters, wakes
from toolwright.adapters.store.tables.spaces import (
    members,
    reactions,
    space_events,
    space_messages,
    spaces,
    unnumbered_events,
)
from toolwright.adapters.store.tables.threads import NOT_OVER, threads

EVENTS = "space_events"
"""The name of the counter that numbers the events of all spaces."""


class SpaceStatements:
    """Statements about spaces, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        self.numbers_later = name == "postgresql"  # SQLite has one writer: its counter blocks no other one
        self._insert = sqlite.insert if name == "sqlite" else postgresql.insert
        self._compiled = compiled = Compiler(name)
        self._space_statements(compiled)
        self._member_statements(compiled)
        self._message_statements(compiled)
        self._delivery_statements(compiled)
        self._event_statements(compiled)

    def _space_statements(self, compiled: Compiler) -> None:
        here = spaces.c.id == string("space_id")
        once = self._insert(spaces).values(row_params(spaces)).on_conflict_do_nothing()
        self.insert_space = compiled(once.returning(spaces.c.id))
        changed = {
            name: bindparam(name, type_=Text) for name in ("name", "description", "metadata", "delivery")
        }
        self.save_space = compiled(
            update(spaces)
            .where(here, spaces.c.updated_at == number("seen"))
            .values(**changed, updated_at=number("updated_at"))
            .returning(spaces.c.id)
        )
        self.drop_space = compiled(delete(spaces).where(here).returning(spaces.c.id))
        self.drop_members_of_space = compiled(delete(members).where(members.c.space_id == string("space_id")))
        count = update(spaces).where(here).values(seq=spaces.c.seq + 1).returning(spaces.c.seq)
        self.count_message = compiled(count)
        self.count_message_for = compiled(count.where(spaces.c.revision == number("revision")))
        revise = (
            update(spaces).where(here).values(revision=spaces.c.revision + 1).returning(spaces.c.revision)
        )
        self.revise = compiled(revise)
        self.revise_seen = compiled(revise.where(spaces.c.revision == number("revision")))

    def _member_statements(self, compiled: Compiler) -> None:
        here = and_(members.c.space_id == string("space_id"), members.c.entity_id == string("entity_id"))
        put = self._insert(members).values(row_params(members))
        key = [members.c.space_id, members.c.entity_id]
        self.put_member = compiled(
            put.on_conflict_do_update(index_elements=key, set_={"role": put.excluded.role}).returning(
                members.c.entity_id  # so that it is there for the unit's later effects
            )
        )
        self.join = compiled(put.on_conflict_do_nothing().returning(members.c.entity_id))
        self.drop_member = compiled(delete(members).where(here).returning(members.c.entity_id))
        farther = case((members.c.read_seq < number("seq"), number("seq")), else_=members.c.read_seq)
        self.mark_read = compiled(
            update(members).where(here).values(read_seq=farther).returning(members.c.read_seq)
        )
        of_entity = select(members.c.space_id).where(members.c.entity_id == string("entity_id"))
        self.memberships = compiled(of_entity.order_by(members.c.space_id))

    def _message_statements(self, compiled: Compiler) -> None:
        here = and_(space_messages.c.id == string("id"), space_messages.c.space_id == string("space_id"))
        self.insert_message = compiled(insert(space_messages).values(row_params(space_messages)))
        self.find_message = compiled(select(space_messages).where(here))
        self.edit_message = compiled(
            update(space_messages)
            .where(here)
            .values(
                content=string("content"),
                metadata=string("metadata"),
                edited_at=number("edited_at"),
            )
            .returning(space_messages.c.seq)
        )
        self.drop_message = compiled(delete(space_messages).where(here).returning(space_messages.c.id))
        self.lock_message = compiled(select(space_messages.c.id).where(here).with_for_update())
        self.drop_reactions = compiled(delete(reactions).where(reactions.c.message_id == string("id")))
        once = self._insert(reactions).values(row_params(reactions)).on_conflict_do_nothing()
        self.insert_reaction = compiled(once.returning(reactions.c.emoji))
        this = and_(
            reactions.c.message_id == string("message_id"),
            reactions.c.entity_id == string("entity_id"),
            reactions.c.emoji == string("emoji"),
        )
        self.drop_reaction = compiled(delete(reactions).where(this).returning(reactions.c.emoji))

    def _delivery_statements(self, compiled: Compiler) -> None:
        """An event for the next run of a thread: the queued one, else a new one; see `Delivery`."""
        self.lock_threads = cache(self._lock_threads)
        once = self._insert(threads).values(row_params(threads)).on_conflict_do_nothing()
        self.insert_home = compiled(once.returning(threads.c.id))
        idle, at_work = threads.c.run_id.is_(None), threads.c.begun
        allocates = or_(idle, and_(at_work, threads.c.next_run_id.is_(None)))
        promised = func.coalesce(threads.c.next_run_id, string("new_run"))
        self.deliver = compiled(
            update(threads)
            .where(threads.c.id == string("thread_id"), NOT_OVER)
            .values(
                posted=threads.c.posted + 1,
                ev=threads.c.ev + case((allocates, 1), else_=0),
                run_id=func.coalesce(threads.c.run_id, string("new_run")),
                next_run_id=case((and_(~idle, at_work), promised), else_=threads.c.next_run_id),
            )
            .returning(
                case((threads.c.begun, threads.c.next_run_id), else_=threads.c.run_id),
                threads.c.posted,
                threads.c.ev,
            )
        )
        self.enter = compiled(
            update(threads)
            .where(threads.c.id == string("thread_id"))
            .values(space_id=string("space_id"))
            .returning(threads.c.id)
        )
        timer = self._insert(wakes).values(thread_id=string("name"), due=number("due"), gen=number("gen"))
        self.set_timer = compiled(
            timer.on_conflict_do_update(
                index_elements=[wakes.c.thread_id],
                set_={"due": timer.excluded.due, "gen": wakes.c.gen + 1},
            )
        )
        self.drop_timer = compiled(delete(wakes).where(wakes.c.thread_id == string("name")))

    def _lock_threads(self, count: int) -> Statement:
        """So many threads, locked in the order of their ids."""
        ids = or_(*[threads.c.id == string(f"id_{i}") for i in range(count)])
        return self._compiled(select(threads.c.id).where(ids).order_by(threads.c.id).with_for_update())

    def _event_statements(self, compiled: Compiler) -> None:
        self.count_events = compiled(
            update(counters)
            .where(counters.c.name == EVENTS)
            .values(value=counters.c.value + number("more"))
            .returning(counters.c.value)
        )
        self.insert_event = compiled(_inline(insert(space_events).values(row_params(space_events))))
        made = {name: each for name, each in row_params(unnumbered_events).items() if name != "place"}
        self.insert_unnumbered = compiled(_inline(insert(unnumbered_events).values(made)))


def _inline(statement: Insert) -> Insert:
    return statement.inline()  # else it returns its key
