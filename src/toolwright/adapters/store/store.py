"""The journal on SQL: a store over any driver that can run programs."""

from collections.abc import Sequence, Set
from datetime import datetime

from toolwright.adapters.store.engine.driver import Driver
from toolwright.adapters.store.engine.shield import shielded
from toolwright.adapters.store.engine.statement import statements
from toolwright.adapters.store.reads.agents import SqlAgents
from toolwright.adapters.store.reads.children import SqlChildren
from toolwright.adapters.store.reads.front_ends import SqlFrontEnds
from toolwright.adapters.store.reads.offers import SqlOffers
from toolwright.adapters.store.reads.spaces import SqlSpaces
from toolwright.adapters.store.reads.threads import Queries, Reads
from toolwright.core.env.env import EnvRow
from toolwright.core.files.file import File
from toolwright.core.journal.store import Sight, ThreadView
from toolwright.core.journal.units import Committed, Conflict, Unit, Wake
from toolwright.core.spaces.entity import Entity
from toolwright.core.threads.call import Call, CallStatus
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, RunStatus, Step
from toolwright.core.threads.thread import Thread


class SqlStore:
    """The `Store` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._reads = Reads(statements(Queries, driver.dialect))
        self.spaces = SqlSpaces(driver)
        self.agents = SqlAgents(driver)
        self.front_ends = SqlFrontEnds(driver)
        self.offers = SqlOffers(driver)
        self.children = SqlChildren(driver)

    async def commit(self, unit: Unit) -> Committed | Conflict:
        return await shielded(self._driver.write(unit))

    async def thread(self, thread_id: str) -> Thread | None:
        return await self._driver.read(lambda: self._reads.thread(thread_id))

    async def threads(
        self, *, users: Sequence[str] | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Thread]:
        return await self._driver.read(lambda: self._reads.threads(users, limit, offset))

    async def view(self, thread_id: str) -> ThreadView | None:
        return await self._driver.snapshot(lambda: self._reads.view(thread_id))

    async def unread(self, thread_id: str) -> Sequence[InboxEvent]:
        return await self._driver.read(lambda: self._reads.unread(thread_id))

    async def inbox(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[InboxEvent]:
        return await self._driver.read(lambda: self._reads.inbox(thread_id, limit, offset))

    async def inbox_event(self, thread_id: str, event_id: str) -> InboxEvent | None:
        return await self._driver.read(lambda: self._reads.inbox_event(thread_id, event_id))

    async def messages(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        return await self._driver.read(lambda: self._reads.messages(thread_id, limit, offset))

    async def run_messages(self, run_id: str) -> Sequence[Message]:
        return await self._driver.read(lambda: self._reads.run_messages(run_id))

    async def run(self, run_id: str) -> Run | None:
        return await self._driver.read(lambda: self._reads.run(run_id))

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Run]:
        return await self._driver.read(lambda: self._reads.runs(status, agent, thread_id, limit, offset))

    async def steps(self, run_id: str) -> Sequence[Step]:
        return await self._driver.read(lambda: self._reads.steps(run_id))

    async def call(self, call_id: str) -> Call | None:
        return await self._driver.read(lambda: self._reads.call(call_id))

    async def calls(
        self,
        *,
        status: Sequence[CallStatus] | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        sees: Sight | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Call]:
        asked = {"run_id": run_id, "agent": agent, "space_id": space_id}
        return await self._driver.read(lambda: self._reads.calls(status, asked, sees, limit, offset))

    async def env(self, thread_id: str) -> Sequence[EnvRow]:
        return await self._driver.read(lambda: self._reads.env(thread_id))

    async def env_of(self, owner: str) -> Sequence[EnvRow]:
        return await self._driver.read(lambda: self._reads.env_of(owner))

    async def sealed_otherwise(self, key: str, limit: int) -> Sequence[EnvRow]:
        return await self._driver.read(lambda: self._reads.sealed_otherwise(key, limit))

    async def files(self, thread_id: str) -> Sequence[File]:
        return await self._driver.read(lambda: self._reads.files(thread_id))

    async def file(self, thread_id: str, folded: str) -> File | None:
        return await self._driver.read(lambda: self._reads.file(thread_id, folded))

    async def files_at(self, thread_id: str, folded: Sequence[str]) -> Set[str]:
        return await self._driver.read(lambda: self._reads.files_at(thread_id, folded))

    async def events(
        self, topic: Topic, after: int = 0, limit: int = 500, offset: int = 0
    ) -> Sequence[Event]:
        return await self._driver.read(lambda: self._reads.events(topic, after, limit, offset))

    async def bounds(self, topic: Topic) -> tuple[int, int]:
        return await self._driver.read(lambda: self._reads.bounds(topic))

    async def entity(self, entity_id: str) -> Entity | None:
        return await self._driver.read(lambda: self._reads.entity(entity_id))

    async def entity_named(self, external_id: str) -> Entity | None:
        return await self._driver.read(lambda: self._reads.entity_named(external_id))

    async def entities(self, *, limit: int = 50, offset: int = 0) -> Sequence[Entity]:
        return await self._driver.read(lambda: self._reads.entities(limit, offset))

    async def wake(self, thread_id: str) -> Wake | None:
        return await self._driver.read(lambda: self._reads.wake(thread_id))

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
        return await self._driver.read(lambda: self._reads.due(now, limit))

    async def next_due(self, after: datetime) -> datetime | None:
        return await self._driver.read(lambda: self._reads.next_due(after))

    async def close(self) -> None:
        await self._driver.close()
