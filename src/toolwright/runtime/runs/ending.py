"""How a run ends: with what status, and what its unanswered calls read last."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.agents.turns import steps_of
from toolwright.core.journal.child_effects import CancelChildren, Close, Stop
from toolwright.core.journal.effects import Effect, Tell
from toolwright.core.journal.units import Advance
from toolwright.core.threads.event import EventType
from toolwright.core.threads.run import Run, RunStatus, StopReason
from toolwright.core.value import changed
from toolwright.runtime.calls.calls import CANCELLED, INTERRUPTED, Calls, LastWords
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.children.reports import Reports
from toolwright.runtime.hold.hold import Answered, Hold, source_of
from toolwright.runtime.hold.move import Move
from toolwright.runtime.runs.poison import back_off, end_back_off, give_back, keep_back_off, tried_again
from toolwright.runtime.threads.inbox import own_message
from toolwright.wire.event import run_event, step_event
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


class Closing:
    """Ends steps and runs; knows how many steps there may be."""

    def __init__(self, calls: Calls, nested: Nested, ending: Ending, *, max_steps: int) -> None:
        self._calls = calls
        self._nested = nested
        self._ending = ending
        self.max_steps = max_steps

    async def close_step(
        self, hold: Hold, kind: Callable[..., Advance], move: Move, run: Run, end: End | None
    ) -> Answered:
        """Commit the end of a step: the run's end too, unless a message or a cancel has come between."""
        while end is not None:
            outcome = await hold.commit(kind, *await self._ending.of(hold, move, run, end))
            if outcome in ("unread", "cancel"):
                break
            if outcome != "file" or move.files:  # else a path was taken where a parent gets copies
                return outcome
        if not hold.abort.aborted:
            move.events.append(step_event("step.started", run.step_count + 1))
        return await hold.commit(kind, move, run)

    async def end(self, hold: Hold, kind: Callable[..., Advance], move: Move, end: End) -> Answered:
        """End the run whatever comes between: unread messages are kept, open calls get an answer.

        A path that was taken meanwhile, and a child that is busy now, are left to who made the files or spoke to it.
        """
        end = replace(end, error=hold.redactor.optional(end.error))
        while True:
            whole = replace(move.copy(), messages=list(move.messages), read=[])
            self._calls.give_up(hold, whole, last_words(hold, end), await self._nested.open_below(hold))
            for event in hold.joined():
                whole.read.append(event.event_id)
                hold.say(whole, own_message(event, hold.run, hold.run.step_count, hold.place(whole)))
            outcome = await hold.commit(kind, *await self._ending.of(hold, whole, hold.run, end))
            if outcome in ("done", "space", "busy", "room", "terminated") or (
                outcome == "file" and move.files
            ):
                return outcome
            if outcome == "cancel":
                end = End("cancelled")

    async def give_up(self, hold: Hold, move: Move, end: End) -> None:
        """The turn is over: every call without an answer gets one."""
        self._calls.give_up(hold, move, last_words(hold, end), await self._nested.open_below(hold))

    def limit_end(self, hold: Hold, run: Run) -> End | None:
        """How the run ends if it may make no further step."""
        return End("completed", "max_steps") if run.step_count >= self._limit(hold) else None

    def exhausted(self, hold: Hold) -> bool:
        """Whether no further step may be made: by the run, or by the side that speaks."""
        voice = hold.root.voice
        if hold.run.step_count >= self._limit(hold):
            return True
        if voice is None or hold.speaker is None or voice.max_steps is None:
            return False
        side = hold.run.side if len(voice.sides) > 1 else None
        return steps_of(hold.speaker, hold.root.messages, hold.run, side) >= voice.max_steps

    def _limit(self, hold: Hold) -> int:
        """The most steps of the run: those of the one who speaks in it, or of all if there are several."""
        alone = hold.root.voice if hold.speaker is None else None
        return (None if alone is None else alone.max_steps) or self.max_steps
