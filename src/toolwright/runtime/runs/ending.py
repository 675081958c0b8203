"""How a run ends: with what status, and what its unanswered calls read last."""

from dataclasses import dataclass, replace
from typing import Literal

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.journal.child_effects import CancelChildren, Close, Stop
from toolwright.core.journal.effects import Effect, Tell
from toolwright.core.threads.event import EventType
from toolwright.core.threads.run import Run, RunStatus, StopReason
from toolwright.core.value import changed
from toolwright.runtime.calls.calls import CANCELLED, INTERRUPTED, LastWords
from toolwright.runtime.children.reports import Reports
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.hold.source import source_of
from toolwright.runtime.runs.backoff import back_off, end_back_off, keep_back_off
from toolwright.runtime.runs.poison import give_back, tried_again
from toolwright.wire.event import run_event
from toolwright.wire.space import space_event


@dataclass(frozen=True, slots=True)
class End:
    """How a run is to end. `fault` tells what made it fail: the model, or anything else, which may be what it read.

    `reason` is the agent's own, for a run that it skips. A thread that is `terminated` with it has no later run.
    """

    status: RunStatus
    stop_reason: StopReason | None = None
    error: str | None = None
    fault: Literal["model", "batch"] = "batch"
    reason: str | None = None
    terminated: bool = False


def ended(hold: Hold, move: Move, run: Run, end: End) -> tuple[Move, Run]:
    """The move and the run's row that end it, and leave the thread."""
    over = replace(
        run,
        status=end.status,
        stop_reason=end.stop_reason,
        error=end.error,
        waiting=None,
        completed_at=hold.clock.now(),
    )
    if end.status == "skipped":
        over, move = replace(over, output=end.reason), _left_out(hold, move)
    effects = [*move.effects, *presence(hold, hold.where.after(move), "agent.inactive")]
    move = replace(move, events=[*move.events, run_event(over)], effects=effects)
    if end.status == "failed":
        move = give_back(hold, move, failed=end.fault == "batch")
        waits = move.leaving is not None and move.leaving.due is not None
        return (back_off if end.fault == "model" and waits else end_back_off)(hold, move), over
    inbox = [event.processed() for event in hold.reading.values()]
    move = replace(move, inbox=inbox, leaving=hold.leaving())
    return (keep_back_off if end.status == "cancelled" else end_back_off)(hold, move), over


def _left_out(hold: Hold, move: Move) -> Move:
    """If skipping was the run's only call, no later model reads of this run; but of what joined it unread (D12)."""
    if hold.run.step_count != 1 or len(hold.root.calls) != 1 or not is_home(hold):
        return move
    of_run = [message for message in hold.root.messages if message.run_id == hold.run.id]
    answers = [changed(one, kept=False) if one.call_id is not None else one for one in move.messages]
    return replace(move, dropped=[one.seq for one in of_run if one.seq is not None], messages=answers)


class Ending:
    """Ends runs, and tells a parent of it, and children."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    async def of(self, hold: Hold, move: Move, run: Run, end: End) -> tuple[Move, Run]:
        """The move and the run's row that end it, with what that does to other threads of the family."""
        whole, over = ended(hold, move, run, end)
        return await self.told(hold, whole, over, terminated=end.terminated), over

    async def told(self, hold: Hold, move: Move, over: Run, *, terminated: bool = False) -> Move:
        """The move that ends this run, with what that does to other threads of the family."""
        effects: list[Effect] = []
        if tried_again(hold, move, over):
            return move
        thread_id, link = hold.thread.id, hold.thread.link
        if over.status == "cancelled":
            effects.append(CancelChildren(thread_id=thread_id))
        if link is not None:
            effects += await self._reports.of(hold, link, move, over, terminated=terminated)
        if link is None and terminated:
            effects.append(Close(thread_id=thread_id))
        elif _ends_family(hold, terminated=terminated):
            effects.append(Stop(thread_id=thread_id))
        return replace(move, effects=[*move.effects, *effects]) if effects else move


def is_home(hold: Hold) -> bool:
    """Whether the thread is its agent's own."""
    return hold.thread.id == home_thread_id_of(hold.thread.agent)


def presence(hold: Hold, space_id: str | None, type_: EventType) -> list[Effect]:
    """Word to the space that the agent is in, if it is in one: it is at work, or is no longer."""
    if space_id is None:
        return []
    entity_id = None if hold.author is None else hold.author.id
    told = space_event(type_, agentEntityId=entity_id, runId=hold.run.id)
    return [Tell(space_id=space_id, source=source_of(hold), events=(told,))]


def last_words(hold: Hold, end: End) -> LastWords:
    """What the calls that have no answer yet read when the run ends so."""
    stops = end.status == "cancelled" or _ends_family(hold, terminated=end.terminated)
    match end.status:
        case "cancelled":
            return LastWords(what="Run cancelled", running=CANCELLED, code="cancelled", stops_children=stops)
        case "failed":
            return LastWords(
                what="The run failed", running=INTERRUPTED, code="interrupted", stops_children=stops
            )
        case _:
            what = "The session was stopped"
            running = f"{what} while this call was running; its effect is unknown."
            return LastWords(what=what, running=running, code="stopped", stops_children=stops)


def _ends_family(hold: Hold, *, terminated: bool) -> bool:
    """Whether the thread is over with this run, and so is all that works below it."""
    link = hold.thread.link
    return terminated or (link is not None and not link.resumable)
