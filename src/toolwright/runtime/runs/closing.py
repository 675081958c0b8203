"""The end of a step and of a run, committed whatever comes between."""

from collections.abc import Callable
from dataclasses import replace

from toolwright.core.agents.turns import steps_of
from toolwright.core.journal.units import Advance
from toolwright.core.threads.run import Run
from toolwright.runtime.calls.calls import Calls
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.hold.hold import Answered, Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.runs.ending import End, Ending, last_words
from toolwright.runtime.threads.inbox import own_message
from toolwright.wire.event import step_event


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
