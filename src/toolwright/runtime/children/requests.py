"""Requests for variables: read, answered (D4, S0 §6), deleted when they expire. No response contains a value."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvChange, EnvInput, EnvRow, EnvTypes, EnvVar, Variable, VariablesRequest
from toolwright.core.errors import InvalidRequest, NoRoom, NotFound, StoreError, VariablesRequired
from toolwright.core.journal.agent_effects import SetTimer
from toolwright.core.journal.child_effects import CheckRequest, ChildLimit, FulfillRequest
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Outage, Store
from toolwright.core.journal.units import Apply, Committed, Conflict, SetEnv
from toolwright.core.ports import Clock, NewId
from toolwright.core.threads.decision import Decider
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.speakers import Speakers
from toolwright.runtime.calls.variables import still_missing
from toolwright.runtime.carried import Carried
from toolwright.runtime.children.child import ChildStart, NewChildRows, birth_from_json
from toolwright.runtime.env import Environment
from toolwright.runtime.journal import Services, by_id, can_be_id, read_decider, refuse_object
from toolwright.runtime.threads.thread_tree import Lineages
from toolwright.wire.event import subagent_event, variables_event

LOOK_AGAIN = 1.0  # seconds until this process checks again whether it drives the journal
BATCH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatus:
    """An open request: its agent, the requested variables, and the names that are still missing."""

    request_id: str
    agent_name: str
    required: tuple[Variable, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FulfilledRequest:
    """A request that was fulfilled, and the child thread that started with it, if it was for a child."""

    request_id: str
    child_thread_id: str | None = None


class Requests(Carried):
    """Open requests. Raises `NotFound` for unknown, fulfilled or expired requests, and for those of other threads."""

    def __init__(
        self,
        services: Services,
        agents: Agents,
        speakers: Speakers,
        lineages: Lineages,
        child_start: ChildStart,
        environment: Environment,
        outage: Outage,
    ) -> None:
        self._outage = outage
        self._store = services.store
        self._motor = services.motor
        self._agents = agents
        self._speakers = speakers
        self._lineages = lineages
        self._child_start = child_start
        self._environment = environment
        self._clock = services.clock
        self._new_id = services.new_id

    async def get(self, thread_id: str, request_id: str) -> RequestStatus:
        """Return the thread's open request: of a suspended run, or of the parent of a child that has not started."""
        request, thread = await self._open(thread_id, request_id)
        missing = await self._missing(request, thread)
        return RequestStatus(
            request_id=request.id,
            agent_name=request.agent,
            required=request.required,
            missing=_names(missing),
        )

    async def list(self, thread_id: str) -> Sequence[VariablesRequest]:
        """Return the open requests of a thread, the oldest first."""
        thread = await self._store.thread(by_id("thread", thread_id))
        if thread is not None and thread.is_over:
            return []
        requests = await self._store.children.requests(thread_id)
        return [each for each in requests if not self._is_over(each)]

    async def answer(
        self, thread_id: str, request_id: str, env: EnvInput, *, by: Decider | str | None = None
    ) -> FulfilledRequest:
        """Set values. Once none is missing any more, the run continues or the child starts.

        `by` is who sets them, which the event `variables.set` has as what your code says. Raises `VariablesRequired`
        with the names that are still missing: the given values are stored, and the request stays open. Raises
        `InvalidRequest` for a name that was not requested, `NoRoom` at the maximum number of children, or `CannotSeal`
        for a secret without encryption keys: nothing is stored then.
        """
        decider = read_decider(by)
        request, thread = await self._open(thread_id, request_id)
        values = _read(request, env)
        rows = self._rows(request, values)
        missing = await self._missing(request, thread, rows)
        if not await self._commit(request, thread, rows, missing, decider):
            raise _no_request(request_id)
        if missing:
            # another request can have set the rest in the meantime
            missing = await self._missing(request, thread)
            if missing:
                names = [*_names(missing)]
                raise VariablesRequired(f"Values are still missing: {', '.join(map(repr, names))}.", names)
            # If it is refused, another process has done it.
            await self._commit(request, thread, (), (), decider)
        birth = self._birth(request)
        child_id = None if birth is None else birth.thread_id
        self._motor.wake(child_id or thread.id)
        return FulfilledRequest(request_id=request.id, child_thread_id=child_id)

    async def run(self) -> None:
        """Check the waiting requests once this process executes runs, because the app can have changed."""
        away = False
        while True:
            try:
                if self._motor.driving:
                    await self.wake_waiting()
                    if away:
                        self._outage.over()
                    return
            except StoreError as error:
                away = True
                self._outage.failed(error)
            await asyncio.sleep(LOOK_AGAIN)  # real time, independent of a test's clock

    async def wake_waiting(self) -> None:
        """Wake the runs whose missing variables the app, its agents or its prompts now provide."""
        brought = _brought([await self._agents.active(each.id) for each in self._agents.declared])
        if not brought:
            return
        names = [name for name in await self._store.children.requested_variables() if name in brought]
        threads = {thread for name in names for thread in await self._store.children.waiting_threads(name)}
        now = self._clock.now()
        for thread_id in sorted(threads):
            effect = SetTimer(name=thread_id, due=now)
            await self._store.commit(Apply(token=self._new_id("unit"), at=now, effects=(effect,)))

    async def _open(self, thread_id: str, request_id: str) -> tuple[VariablesRequest, Thread]:
        refuse_object("thread", thread_id)
        refuse_object("request", request_id)
        ids_are_text = can_be_id(thread_id) and can_be_id(request_id)
        request = await self._store.children.request(request_id) if ids_are_text else None
        if request is None or request.thread_id != thread_id or self._is_over(request):
            raise _no_request(request_id)
        thread = await self._store.thread(thread_id)
        if thread is None or thread.is_over:
            raise _no_request(request_id)
        return request, thread

    def _is_over(self, request: VariablesRequest) -> bool:
        return request.expires_at is not None and request.expires_at <= self._clock.now()

    async def _missing(
        self, request: VariablesRequest, thread: Thread, added: Sequence[EnvRow] = ()
    ) -> tuple[Variable, ...]:
        """Return the variables that are missing even with those `added`."""
        birth = self._birth(request)
        if birth is not None:
            agent = await self._agents.usable(birth.agent_id)
            if agent is None:
                raise _no_request(request.id)
            missing = await self._child_start.unresolved_variables(birth, agent, added)
            return tuple([each for each in missing if each.name in _names(request.required)])
        return await self._missing_here(request, thread, added)

    async def _missing_here(
        self, request: VariablesRequest, thread: Thread, added: Sequence[EnvRow]
    ) -> tuple[Variable, ...]:
        run = None if thread.run_id is None else await self._store.run(thread.run_id)
        active = (
            None
            if run is None or not _waits_for(request, run)
            else await self._speakers.agent_for(thread, run)
        )
        if active is None:
            raise _no_request(request.id)
        if isinstance(active, str):
            return ()  # it waits for no variable any more: it will fail
        new_names = {row.name for row in added}
        stored = await self._store.env(thread.id)
        unchanged = [
            row for row in stored if row.owner != thread.id or row.kind != "env" or row.name not in new_names
        ]
        resolve = await self._lineages.resolver(thread)
        rows = [*unchanged, *added]
        return still_missing(lambda each: resolve(thread, each, rows), active, _names(request.required))

    def _rows(self, request: VariablesRequest, values: Mapping[str, EnvVar]) -> tuple[EnvRow, ...]:
        """Return the rows of the values, for the thread or its deferred child."""
        birth, now = self._birth(request), self._clock.now()
        owner = request.thread_id if birth is None else birth.thread_id
        changes = [self._environment.change(owner, name, var, now) for name, var in values.items()]
        return tuple([each.row for each in changes if each.row is not None])

    async def _commit(
        self,
        request: VariablesRequest,
        thread: Thread,
        rows: Sequence[EnvRow],
        missing: Sequence[Variable],
        by: Decider,
    ) -> bool:
        """Commit the values in one unit; if none is missing, together with the end of the request.

        Return whether the request was still open. Raises `NoRoom` if no more children may start.
        """
        effects: list[Effect] = [CheckRequest(thread_id=request.thread_id, id=request.id)]
        if not missing:
            effects.append(FulfillRequest(thread_id=request.thread_id, id=request.id))
        birth = None if missing else self._birth(request)
        if birth is not None:
            if birth.most is not None:
                effects.append(ChildLimit(thread_id=birth.parent_id, agent=birth.agent_id, most=birth.most))
            # no call waits for the end of its first session any more
            born = await self._child_start.spawn(birth, None)
            created = subagent_event(
                "subagent.created", birth.thread_id, birth.name, birth.agent_id, "running"
            )
            effects.append(changed(born, told=created))
        now = self._clock.now()
        told = variables_event([row.name for row in rows], by, now, request.id)
        unit = SetEnv(
            token=self._new_id("unit"),
            at=now,
            thread_id=thread.id,
            env=tuple([_put(row) for row in rows]),
            effects=tuple(effects),
            told=(told,) if rows else (),
            run_id=thread.run_id,
        )
        answer = await self._store.commit(unit)
        if isinstance(answer, Conflict) and answer.guard == "child_limit":
            raise NoRoom(f"The maximum number of children of {request.agent!r} is reached.")
        return not isinstance(answer, Conflict)

    def _birth(self, request: VariablesRequest) -> NewChildRows | None:
        """Return the deferred child, or None."""
        return None if request.child is None else birth_from_json(request.child, self._clock)


def _read(request: VariablesRequest, env: EnvInput) -> Mapping[str, EnvVar]:
    """Return the given values with the requested types. Raises `InvalidRequest` for other names."""
    values = EnvTypes(declared={each.name: each.type for each in request.required}).stored(env)
    requested = {each.name for each in request.required}
    for name in values:
        if name not in requested:
            raise _invalid_value(name, "was not requested")
    return values


def _invalid_value(name: str, error: str) -> InvalidRequest:
    return InvalidRequest(f"env.{name} {error}.", [{"path": f"env.{name}", "message": error}])


def _no_request(request_id: str) -> NotFound:
    return NotFound(f"There is no open request {request_id!r}.")


def _waits_for(request: VariablesRequest, run: Run) -> bool:
    return run.status == "waiting" and (run.waiting or {}).get("requestId") == request.id


def _names(variables: Sequence[Variable]) -> tuple[str, ...]:
    return tuple([each.name for each in variables])


def _put(row: EnvRow) -> EnvChange:
    return EnvChange(owner=row.owner, kind=row.kind, name=row.name, row=row)


def _brought(agents: Sequence[ActiveAgent]) -> frozenset[str]:
    """Return the names that any layer of these agents sets."""
    voices = [active for each in agents for active in each.voices]
    layers = [layer for active in voices for layer in (*active.env, *active.tool_env.values())]
    return frozenset([name for layer in layers for name in layer])


async def drop_expired(store: Store, clock: Clock, new_id: NewId) -> int:
    """Delete the requests that have expired. Return how many."""
    total = 0
    while True:
        expired = await store.children.expired(clock.now(), BATCH)
        answers = [await store.commit(await _end(each, store, clock, new_id("unit"))) for each in expired]
        dropped = len([answer for answer in answers if isinstance(answer, Committed)])
        total += dropped
        if dropped < BATCH:  # requests deleted by another process are not counted
            return total


async def _end(request: VariablesRequest, store: Store, clock: Clock, token: str) -> SetEnv:
    """End a request, so that no values can be given afterwards. A child that never starts has no values."""
    child_id = None if request.child is None else birth_from_json(request.child, clock).thread_id
    rows: Sequence[EnvRow] = [] if child_id is None else await store.env_of(child_id)
    return SetEnv(
        token=token,
        at=clock.now(),
        thread_id=request.thread_id,
        env=tuple([EnvChange(owner=row.owner, kind=row.kind, name=row.name) for row in rows]),
        effects=(FulfillRequest(thread_id=request.thread_id, id=request.id),),
    )
