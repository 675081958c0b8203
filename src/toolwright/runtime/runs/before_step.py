"""What comes before a model is asked: who speaks, calls that no model has asked for, limits, values that lack."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolwright.core.env.env import EnvVar
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.child_effects import Activated
from toolwright.core.journal.units import Finish, Result
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import QueuedCall, Run
from toolwright.core.tools.pipeline import prepare
from toolwright.core.value import changed
from toolwright.runtime.agents.speakers import Speakers
from toolwright.runtime.calls.variables import lacking_now, park_for
from toolwright.runtime.children.offering import Offering
from toolwright.runtime.env.env import Environment
from toolwright.runtime.hold.hold import Answered, Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.model.answer import asked_call, queued_message
from toolwright.runtime.runs.ending import Closing, End
from toolwright.runtime.runs.step_calls import Carrying
from toolwright.runtime.threads.family import child_id_of


class Before:
    """Makes a thread ready for its next step."""

    def __init__(
        self,
        carrying: Carrying,
        closing: Closing,
        speakers: Speakers,
        offering: Offering,
        environment: Environment,
    ) -> None:
        self._carrying = carrying
        self._closing = closing
        self._speakers = speakers
        self._offering = offering
        self._environment = environment

    async def speaks(self, hold: Hold) -> bool:
        """Let the side speak whose turn it is, of the agent that answers now; false if there is none."""
        base, answering = hold.base, _answering(hold)
        if base is None or base.agent_id != answering:
            thread = changed(hold.thread, active_agent=answering)
            found = await hold.insist(lambda: self._speakers.of(thread, hold.run))
            if isinstance(found, str):
                await self._closing.end(hold, Finish, Move(), End("failed", error=found))
                return False
            base = found
        base = base.sides.get(hold.run.side, base)
        hold.base = base
        hold.speaks(base)
        if base.relations:
            hold.speaks(await self._offering.offered(hold, base))
        return True

    async def ready(self, hold: Hold) -> bool:
        """Whether the model is to be asked now; else what comes before that is done."""
        if not await self.speaks(hold):
            return False
        queued = [each for each in hold.run.queued if each.within is None]
        if queued and _rounds(hold) <= self._closing.max_steps:
            await self._call_at_once(hold, Move(), replace(hold.run, queued=()), queued)
            return False
        if queued or self._closing.exhausted(hold):
            await self._closing.end(hold, Finish, Move(), End("completed", "max_steps"))
            return False
        missing = await lacking_now(hold)
        if missing:
            await park_for(hold, missing)
            return False
        return not hold.voice.relations or not await self._begin_immediate(hold)

    async def _begin_immediate(self, hold: Hold) -> bool:
        """Call what a prompt calls as soon as it is active; whether there was such a thing (S0 §5).

        That is decided once for each activation of a prompt, also where it comes to nothing.
        """
        side = hold.run.side
        if side in hold.thread.activated or not any(each.config.immediate for each in hold.voice.relations):
            return False
        try:
            found = await self._offering.immediate(hold)
        except InvalidRequest as error:
            await self._closing.end(hold, Finish, Move(), End("failed", error=error.message))
            return True
        sides = (*hold.thread.activated, side)
        move = Move(effects=[Activated(thread_id=hold.thread.id, sides=sides)])
        if not found:
            await hold.commit(Result, move, hold.run)
            return False
        values = [each.values for each in found]
        await self._call_at_once(hold, move, hold.run, [each.call for each in found], values)
        return True

    async def _call_at_once(
        self,
        hold: Hold,
        move: Move,
        run: Run,
        queued: Sequence[QueuedCall],
        values: Sequence[Mapping[str, EnvVar]] = (),
    ) -> None:
        """Begin calls that no model has asked for: they are recorded as if the one that speaks had made them.

        `values` are what their children get for themselves.
        """
        calls = [asked_call(hold, each, number) for number, each in enumerate(queued, len(hold.root.calls))]
        move.env = tuple(
            [
                self._environment.change(child_id_of(call.id), name, var, hold.clock.now())
                for call, own in zip(calls, values, strict=False)
                if own and _can_begin(hold, call)
                for name, var in own.items()
            ]
        )
        committed: Answered = "space"
        while committed == "space":
            whole = move.copy()
            hold.put(whole, queued_message(hold, calls, hold.place(whole)))
            committed = await self._carrying.begin(hold, whole, calls, run)


def _can_begin(hold: Hold, call: Call) -> bool:
    """Whether the call's arguments are such that a child can begin; else no values are needed."""
    return not isinstance(prepare(hold.voice.by_name, call.name, call.arguments, call.id), ToolResult)


def _answering(hold: Hold) -> str:
    """The agent that answers; calls that are open are still those of the one that has made them (S0 §4)."""
    waiting = hold.root.unanswered()
    return (waiting[0].agent if waiting else None) or hold.thread.answering


def _rounds(hold: Hold) -> int:
    """How often something was called since a model has spoken last, with the time when it did."""
    run = hold.run
    return sum(
        m.run_id == run.id and m.role == "assistant" and m.step == run.step_count for m in hold.root.messages
    )
