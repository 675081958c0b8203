"""Requesters of a run: the people whose messages began it, through tool results and parent threads."""

from toolwright.core.journal.store import Store
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread

MAX_RUNS = 50  # runs that are traced back
MAX_EVENTS = 200  # of one run


async def requesters_of(store: Store, thread: Thread, run: Run) -> tuple[str, ...]:
    """Return the ids of the people whose messages began the run, or of the owner of its thread if no one's did.

    A run that was begun by a late result is traced to the run of the call, a child's run to its parent's.
    """
    people: set[str] = set()
    traced: list[tuple[Thread, str]] = [(thread, run.id)]
    for place, run_id in traced:  # grows during the iteration
        events = await store.spaces.read_by(place.id, run_id, MAX_EVENTS)
        for event in events:
            await _add_author(store, place, event, people)
        origins = [str(each.content.get("originRunId")) for each in events if each.type == "tool_result"]
        for origin in dict.fromkeys(origins):
            await _trace(store, traced, place, origin)
        if place.parent_id is not None:
            await _trace_parent(store, traced, place)
    if not people and thread.user_id is not None:
        people.add(thread.user_id)
    return tuple(sorted(people))


async def _add_author(store: Store, thread: Thread, event: InboxEvent, people: set[str]) -> None:
    if event.author is not None:
        entity = await store.entity(event.author)
        if entity is not None and entity.type == "human":
            people.add(entity.id)
            return
    if event.type in ("message", "call") and thread.user_id is not None:
        people.add(thread.user_id)


async def _trace(store: Store, traced: list[tuple[Thread, str]], thread: Thread, run_id: str) -> None:
    if len(traced) < MAX_RUNS and all(run_id != each for _, each in traced):
        traced.append((thread, run_id))


async def _trace_parent(store: Store, traced: list[tuple[Thread, str]], child: Thread) -> None:
    """Trace the run of the parent that waits for the child, or the parent's newest run."""
    parent = None if child.parent_id is None else await store.thread(child.parent_id)
    if parent is None:
        return
    call = None if child.report is None else await store.call(child.report)
    newest = await store.runs(thread_id=parent.id, limit=1) if call is None and parent.run_id is None else ()
    run_id = parent.run_id if call is None else call.run_id
    run_id = newest[0].id if run_id is None and newest else run_id
    if run_id is not None:
        await _trace(store, traced, parent, run_id)
