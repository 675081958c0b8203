"""The course of a run, read a page of steps at a time: what was said in them, and which calls they made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from toolwright.core.broken_rows import Rows, broken_of, ended_early
from toolwright.core.limits import PageLimit
from toolwright.core.text import brief
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Step
from toolwright.core.value import changed
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import LONGEST_SHOWN

READ: Final = 200  # calls or messages that are read at once
_BROKEN: Final = -1  # in the place of the step of a call that cannot be read


@dataclass(slots=True, kw_only=True)
class Stage:
    """A step as it is drawn; number 0 is what the run began with."""

    number: int
    step: Step | None = None
    said: list[Message] = field(default_factory=list[Message])
    calls: list[Call] = field(default_factory=list[Call])


class Course:
    """A run's steps, messages and calls. Of all calls it keeps but where they stand: their results may be large."""

    def __init__(self, visit: Visit, run: Run) -> None:
        self._visit = visit
        self.run = run
        self.broken: Sequence[object] = ()  # what could not be read
        self._steps: dict[int, Step] = {}
        self._said: dict[int, list[Message]] = {}
        self._ends: dict[int, datetime] = {}  # when the last message of each step was there
        self._places: list[int] = []  # the step of each call, in the order in which they were made

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the steps that there are."""
        return sorted({*self._steps, *self._said, *self._places} - {_BROKEN})

    async def read(self) -> None:
        """Read all but the calls themselves."""
        steps = await self._visit.runtime.runs.steps(self.run.id)
        self.broken = Rows((), broken_of(steps))
        self._steps = {each.number: each for each in steps}
        self._said.clear()
        place, ended = 0, False
        while not ended:
            page = await self._messages(place)
            for message in page:
                self._hear(message)
            self.broken = Rows((), [*broken_of(self.broken), *broken_of(page)])
            place += len(page) + len(broken_of(page))
            ended = _is_last(page)
        self._places.clear()
        await self.new_calls()

    async def stages(self, numbers: Sequence[int]) -> Sequence[Stage]:
        """These steps, with their calls."""
        wanted = {*numbers}
        calls: dict[int, list[Call]] = {}
        places = [place for place, step in enumerate(self._places) if step in wanted]
        first, last = (places[0], places[-1] + 1) if places else (0, 0)
        last += self._places.count(_BROKEN) if places else 0  # where these stand is not known
        while first < last:
            page = await self._calls(min(READ, last - first), first)
            for call in page:
                if call.step in wanted:
                    calls.setdefault(call.step, []).append(call)
            first += len(page) + len(broken_of(page)) if ended_early(page) else READ
        return [self.stage(number, calls.get(number, [])) for number in numbers]

    def stage(self, number: int, calls: Sequence[Call] = ()) -> Stage:
        """A step, with calls that are at hand."""
        said = self._said.get(number, [])
        return Stage(number=number, step=self._steps.get(number), said=[*said], calls=[*calls])

    async def new_calls(self) -> Sequence[Call]:
        """The calls that were made since they were read last; of many only the last ones."""
        new: Sequence[Call] = []
        while True:
            page = await self._calls(READ, len(self._places))
            broken = broken_of(page)
            self.broken = Rows((), [*broken_of(self.broken), *broken])
            self._places.extend([*[call.step for call in page], *[_BROKEN] * len(broken)])
            is_last = _is_last(page)
            new = [*new, *page] if is_last else page
            if is_last:
                return new

    def asked_at(self, number: int) -> datetime | None:
        """Return when the model was asked for this step: at the run's start, or once the steps before had their end."""
        ends = [end for step, end in self._ends.items() if step < number]
        return max([*ends, *filter(None, [self.run.started_at])], default=None)

    async def look_again(self) -> Sequence[int]:
        """Read what was said and done last; the numbers of the steps that may have changed."""
        before = {*self.numbers}
        known = {message.id for each in self._said.values() for message in each}
        changed_steps = {max(before, default=0)}
        steps = await self._visit.runtime.runs.steps(self.run.id)
        self._steps = {each.number: each for each in steps}
        last = await self._visit.runtime.threads.messages_before(self.run.thread_id, None, PageLimit(50))
        for message in last:
            if message.run_id == self.run.id and message.id not in known:
                self._hear(message)
                changed_steps.add(message.step)
        return sorted(changed_steps | ({*self.numbers} - before))

    async def _messages(self, offset: int) -> Sequence[Message]:
        return await self._visit.runtime.threads.messages(
            self.run.thread_id, PageLimit(READ), offset, run_id=self.run.id
        )

    async def _calls(self, limit: int, offset: int) -> Sequence[Call]:
        return await self._visit.runtime.calls.list(
            status=None,
            run_id=self.run.id,
            sees=self._visit.caller.sight,
            limit=PageLimit(limit),
            offset=offset,
        )

    def _hear(self, message: Message) -> None:
        """Results are in their calls, and what a prompt tool says is theirs too."""
        self._ends[message.step] = max(message.created_at, self._ends.get(message.step, message.created_at))
        if message.role != "tool" and message.within is None and (message.content or message.attachments):
            short = changed(message, content=brief(message.content, LONGEST_SHOWN), native=None)
            self._said.setdefault(message.step, []).append(short)


def _is_last(page: Sequence[object]) -> bool:
    """Return whether the page is the last one."""
    return len(page) + len(broken_of(page)) < READ and not ended_early(page)
