"""Inbox events that a run reads, as messages of its conversation."""

from collections.abc import Mapping, Sequence, Set

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import entity_id_of
from toolwright.core.files import FileDrafts
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.state_report import NOTICE
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.spaces.membership import Membership
from toolwright.runtime.threads.inbox import (
    alike,
    cleaned_texts,
    inbox_message,
    inbox_parts,
    own_message,
    within_limit,
)
from toolwright.wire.event import run_event


class InboxReader:
    """Returns the messages of inbox events. The full text of an event that is too long is kept in a file."""

    def __init__(self, membership: Membership, files: FileKeeper) -> None:
        self._membership = membership
        self._files = files

    async def start(self, context: RunContext, run: Run, waiting: Sequence[InboxEvent]) -> Changes:
        """Return the changes with which the run starts. The results that hooks are asked about are read later."""
        own = [event for event in waiting if event.run_id == run.id]
        changes = starting(context, run, waiting, await cleaned_texts(own))
        rest = [event for event in waiting if event.run_id != run.id]
        if not (context.base is not None and reads_later(context.base, run, rest)):
            await self.add(context, changes, run, rest)
        return changes

    async def add(
        self, context: RunContext, changes: Changes, run: Run, events: Sequence[InboxEvent]
    ) -> None:
        """Add the messages of events that are not messages of the thread itself."""
        if not events:
            return
        thread_id, drafts = context.thread.id, FileDrafts(context.files)
        bounded = [await within_limit(event, thread_id, self._files, drafts) for event in events]
        is_spoken = any(event.type == "space_message" for event in events)
        members = await self._membership.company(entity_id_of(run.agent)) if is_spoken else {}
        ambiguous: Set[str] = alike(events, members)
        for part in inbox_parts(bounded):
            context.add_message(changes, inbox_message(part, run, 1, context.next_seq(changes), ambiguous))
        changes.files = drafts.changes


def starting(
    context: RunContext, run: Run, waiting: Sequence[InboxEvent], cleaned: Mapping[str, str]
) -> Changes:
    """Return the changes with which a run takes these events and reads its own messages among them."""
    changes = Changes(events=[run_event(run)])
    for event in waiting:
        if event.run_id == run.id and event.type != "call":
            changes.read += (event.event_id,)
            context.add_message(changes, own_message(event, run, 1, context.next_seq(changes), cleaned))
    rest = [event for event in waiting if event.run_id != run.id]
    changes.inbox = () if run.over else tuple([event.as_read_by(run.id) for event in rest])
    return changes


def reads_later(agent: ActiveAgent, run: Run, events: Sequence[InboxEvent]) -> bool:
    """Return whether hooks are asked about results among the events, before the run reads all of them."""
    hooks = agent.sides.get(run.side, agent).hooks
    return bool(hooks and hooks.after_call) and any(each.type == "tool_result" for each in events)


def is_unread(context: RunContext) -> bool:
    """Return whether the run has taken inbox events that its conversation does not have yet."""
    if context.run.step_count or not context.reading:
        return False
    of_run = [each.id for each in context.root.messages if each.run_id == context.run.id]
    return not any(each.startswith(NOTICE) for each in of_run)
