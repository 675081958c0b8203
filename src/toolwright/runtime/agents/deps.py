"""Deps of runs: the values that messages bring, and those that a run takes from an earlier one.

Nothing is read for agents that declare no deps.
"""

from collections.abc import Iterable

from toolwright.core.agents.catalog import Catalog
from toolwright.core.agents.deps import DepsType, deps_type
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.inbox import ORIGIN, ORIGIN_CALL, InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread

OTHER_DEPS = (
    "A run is in progress in the thread {!r} with other deps. Wait for its end, or send the message without deps to "
    "join it."
)


def deps_type_of(catalog: Catalog, agent_id: str) -> DepsType | None:
    """Return the type that the agent declares, or None."""
    active = catalog.find(agent_id)
    declared = None if active is None else active.agent.deps
    return None if declared is None else deps_type(declared)


def given_deps(catalog: Catalog, agent_id: str, name: str, value: object) -> JSONObject:
    """Return the deps of a message, as stored. Raises `InvalidRequest` if they do not fit the agent of that name."""
    declared = deps_type_of(catalog, agent_id)
    if declared is None:
        error = f"The agent {name!r} declares no deps. Declare their type: tw.Agent(…, deps=Customer)."
        raise InvalidRequest(error, [{"path": "deps", "message": "are not declared by the agent"}])
    return declared.dump(value)


async def deps_of_message(
    store: Store, catalog: Catalog, thread: Thread, value: object
) -> tuple[JSONObject | None, JSONObject | None]:
    """Return the deps that a message brings, and those of the run that it starts. Raises `InvalidRequest`."""
    if value is None:
        return None, await last_deps(store, catalog, thread.id, thread.agent)
    active = catalog.find(thread.agent)
    brought = given_deps(catalog, thread.agent, thread.agent if active is None else active.agent.name, value)
    return brought, brought


async def last_deps(
    store: Store, catalog: Catalog, thread_id: str, agent_id: str, but: str | None = None
) -> JSONObject | None:
    """Return the deps of the thread's last run, except the run `but`; None if its agent declares none."""
    if deps_type_of(catalog, agent_id) is None:
        return None
    runs = await store.runs(thread_id=thread_id, limit=2)
    return next((run.deps for run in runs if run.id != but and run.deps is not None), None)


async def deps_of_run(
    store: Store, catalog: Catalog, run: Run, events: Iterable[InboxEvent]
) -> JSONObject | None:
    """Return the deps of a run that begins: its own, those of the run that caused an event, or the thread's last.

    Only runs of the same agent pass theirs on.
    """
    if run.deps is not None or deps_type_of(catalog, run.agent) is None:
        return run.deps
    caused_by = await _cause(store, events)
    if caused_by is not None and caused_by.agent == run.agent and caused_by.deps is not None:
        return caused_by.deps
    return await last_deps(store, catalog, run.thread_id, run.agent, but=run.id)


async def _cause(store: Store, events: Iterable[InboxEvent]) -> Run | None:
    """Return the run that has caused the first of these events for which there is one.

    The call that a child's news are about is one of the thread itself: the id of a message does not prove more.
    """
    for event in events:
        origin, call_id = event.content.get(ORIGIN), event.content.get(ORIGIN_CALL)
        call = None if call_id is None else await store.call(str(call_id))
        if call is not None and call.thread_id == event.thread_id:
            origin = call.run_id
        cause = None if origin is None else await store.run(str(origin))
        if cause is not None:
            return cause
    return None
