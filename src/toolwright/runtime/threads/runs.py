"""Runs: read, wait for, cancel and retry them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import ExitStack, aclosing, suppress
from typing import cast, get_args

from toolwright.core.agents.run_result import RunEvent, RunResult
from toolwright.core.concurrency import within
from toolwright.core.errors import NotFailed, NotFound, RunOver, ThreadBusy, ThreadTerminated, ToolwrightError
from toolwright.core.hooks import HookVerdict
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.units import Conflict, RequestCancel, RetryRun
from toolwright.core.limits import ALL_ROWS
from toolwright.core.ports import Follower
from toolwright.core.state.state import question_of
from toolwright.core.threads.call import Call
from toolwright.core.threads.decision import Decider, decision
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import OVER, Run, RunStatus, Step
from toolwright.core.value import Value, changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.carried import Carried
from toolwright.runtime.journal import Services, by_choice, by_id, by_text, page, read_decider
from toolwright.runtime.threads.events import RunStreams
from toolwright.runtime.threads.inbox import is_own
from toolwright.runtime.threads.results import PAGE, RunResults
from toolwright.runtime.threads.thread_tree import children_of
from toolwright.wire.event import run_event

ENDS = frozenset(f"run.{status}" for status in OVER)
WAITS = ENDS | {"run.waiting", "tool.waiting", "tool.started", "tool.approved"}
LOOK_AGAIN = 1.0  # seconds between reads of the journal by a waiter: another process can have ended the run
LOOK_ABROAD = 0.25  # the same if other processes execute runs


class OpenWait(Value):
    """A wait of a run, or of a run of a child thread, that only someone outside can end.

    `call` waits for an approval, or is a handler's question. Without a call, variables are `missing`.
    """

    run_id: str
    call: Call | None = None
    missing: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """`approval`, `calls` or `variables`, as in `Run.waiting`."""
        if self.call is None:
            return "variables"
        return "approval" if self.call.awaits_approval else "calls"


class Runs(Carried):
    """Runs, for users. Raises `NotFound` for unknown ids."""

    def __init__(self, services: Services, results: RunResults, streams: RunStreams, agents: Agents) -> None:
        self._agents = agents
        self._results = results
        self._streams = streams
        self._store = services.store
        self._motor = services.motor
        self._bus = services.bus
        self._clock = services.clock
        self._new_id = services.new_id

    async def get(self, run_id: str) -> Run:
        """Return the run."""
        run = await self._store.run(by_id("run", run_id))
        if run is None:
            raise NotFound(f"There is no run {run_id!r}.")
        return run

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Run]:
        """Return runs, newest first; `agent` is an agent's name or id."""
        page(limit, offset)
        by_text("status", status)
        by_choice("status", status, get_args(RunStatus))
        by_text("agent", agent)
        by_text("thread_id", thread_id)
        agent = None if agent is None else await self._agents.id_of(agent)
        return await self._store.runs(
            status=status, agent=agent, thread_id=thread_id, limit=limit, offset=offset
        )

    async def steps(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Step]:
        """Return the run's steps, in order."""
        page(limit)
        return await self._store.steps((await self.get(run_id)).id, limit)

    async def verdicts(self, run_id: str) -> Sequence[HookVerdict]:
        """Return the verdicts of hooks in the run, oldest first. Raises `NotFound`."""
        await self.get(run_id)
        return await self._store.verdicts(run_id)

    async def messages(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Message]:
        """Return the run's messages, in order."""
        page(limit)
        return await self._store.run_messages((await self.get(run_id)).id, limit)

    async def result(self, run_id: str) -> RunResult:
        """Return the run's result, as of now if it has not finished: its output as declared, messages, calls."""
        return await self._results.result(by_id("run", run_id))

    async def stream(self, run_id: str) -> AsyncGenerator[RunEvent]:
        """Yield the events of the run as values, from its start to its end; the last one is `RunDone`.

        Stop early with `contextlib.aclosing`; the run continues.
        """
        run = await self.get(run_id)
        async with aclosing(self._streams.run(run.thread_id, run.id, is_finished=run.over)) as events:
            async for event in events:
                yield event

    async def wait(self, run_id: str, timeout: float | None = None) -> Run:
        """Return the run once it has finished. Raises `TimeoutError` after `timeout` seconds."""
        async with within(timeout, f"The run {run_id!r} did not finish within {timeout} seconds."):
            return await self._until(run_id, ENDS, _has_ended)

    async def wait_for_input(
        self, run_id: str, ignored: Callable[[OpenWait], bool] = lambda _: False
    ) -> tuple[Run, OpenWait | None]:
        """Wait until the run has finished or waits for input from outside. Return the run and that wait.

        Runs of children that the run waits for count too. `ignored` waits are skipped.
        """
        followers: dict[str, Follower] = {}
        with ExitStack() as stack:
            while not (run := await self.get(run_id)).over:
                self._streams.warn_of_missing_agent(run.id, run.waiting)
                tree = await self._awaited_runs(run)
                new = [each.id for each in tree if each.id not in followers]
                for each in new:
                    followers[each] = stack.enter_context(
                        self._bus.subscribe(Topic(kind="run", id=each), WAITS)
                    )
                if new:
                    continue  # re-read: something can have happened before the subscription
                for each in tree:
                    for wait in await self._open_waits(each):
                        if not ignored(wait):
                            return run, wait
                await _any_event(followers.values())
            return run, None

    async def _awaited_runs(self, run: Run) -> Sequence[Run]:
        """Return the run, and the runs of children that its calls wait for, the outer ones first."""
        runs = [run]
        for each in runs:  # grows during the iteration
            calls = {call.id for call in await self._waiting_calls(each) if call.has_child}
            if not calls:
                continue
            for child in await children_of(self._store, each.thread_id):
                if child.report in calls and child.run_id is not None:
                    with suppress(NotFound):
                        runs.append(await self.get(child.run_id))
        return runs

    async def _open_waits(self, run: Run) -> Sequence[OpenWait]:
        """Return the run's own waits that only someone outside can end."""
        waiting = run.waiting or {}
        waits = [
            OpenWait(run_id=run.id, call=call)
            for call in await self._waiting_calls(run)
            if call.awaits_approval or question_of(call) is not None  # all others have a deadline or a child
        ]
        if waiting.get("reason") == "variables":
            waits.append(
                OpenWait(run_id=run.id, missing=tuple(cast("list[str]", waiting.get("missing", []))))
            )
        return waits

    async def _waiting_calls(self, run: Run) -> Sequence[Call]:
        return await self._store.calls(run_id=run.id, status=("waiting",), limit=PAGE)

    async def _until(self, run_id: str, types: frozenset[str], enough: Callable[[Run], bool]) -> Run:
        """Return the run once `enough` is true of it, checked after events of these types."""
        with self._bus.subscribe(Topic(kind="run", id=run_id), types) as follower:
            # Subscribe before the first read: otherwise an event could be missed.
            while not enough(run := await self.get(run_id)):
                self._streams.warn_of_missing_agent(run.id, run.waiting)
                await follower.next(LOOK_AGAIN if self._motor.is_only_driver else LOOK_ABROAD)
            return run

    async def cancel(self, run_id: str, *, by: Decider | str | None = None) -> Run:
        """Request the cancellation of the run; `wait` for it to be `cancelled`. Raises `RunOver` if it has ended.

        `by` is who cancels it, which the run records as what your code says.
        """
        run, now = await self.get(run_id), self._clock.now()
        unit = RequestCancel(
            token=self._new_id("unit"),
            at=now,
            thread_id=run.thread_id,
            run_id=run_id,
            decisions=(*run.decisions, decision("cancelled", read_decider(by), now)),
        )
        if isinstance(await self._store.commit(unit), Conflict):
            raise RunOver(f"The run {run_id!r} has already finished.")
        self._motor.wake(run.thread_id)
        return await self.get(run_id)

    async def retry(self, run_id: str, *, by: Decider | str | None = None) -> Run:
        """Continue a failed run from its last commit, with the current configuration of its agent.

        `by` is who retries it, as in `cancel`. Raises `NotFailed` for a run that has not failed, or whose inbox events
        are retried one by one, `RunOver` if its thread has a later run, `ThreadBusy` while a run is open in the thread,
        `ThreadTerminated` if the thread's session has ended.
        """
        run = await self.get(run_id)
        if run.status != "failed":
            raise _not_failed(run)
        messages = await self._store.run_messages(run_id)
        if not any(is_own(message) for message in messages):
            raise NotFailed(
                f"The run {run_id!r} has read inbox events only. Retry those events in the inbox of its agent."
            )
        now = self._clock.now()
        decisions = (*run.decisions, decision("retried", read_decider(by), now))
        queued = changed(
            run, status="queued", error=None, error_code=None, completed_at=None, decisions=decisions
        )
        unit = RetryRun(
            token=self._new_id("unit"),
            at=now,
            thread_id=run.thread_id,
            run_id=run_id,
            queued=run_event(queued),
            decisions=decisions,
        )
        answer = await self._store.commit(unit)
        if isinstance(answer, Conflict):
            current = await self.get(run_id)
            if current.status != "failed":  # another retry was faster
                raise _not_failed(current)
            raise _not_retried(run, answer.guard)
        self._motor.wake(run.thread_id)
        return await self.get(run_id)


def _not_failed(run: Run) -> NotFailed:
    return NotFailed(f"The run {run.id!r} is {run.status}: only a failed run can be retried.")


def _not_retried(run: Run, guard: Guard) -> ToolwrightError:
    """Return the error that states why the failed run cannot be retried."""
    match guard:
        case "terminated":
            return ThreadTerminated(f"The session of the thread {run.thread_id!r} has ended.")
        case "busy":
            return ThreadBusy(
                f"A run is open in the thread {run.thread_id!r}. Retry this one after it has ended."
            )
        case "thread":
            return NotFound(f"There is no run {run.id!r}.")
        case _:
            return RunOver(
                f"The run {run.id!r} cannot be retried: its thread has continued with a later run."
            )


def _has_ended(run: Run) -> bool:
    return run.over


async def _any_event(followers: Iterable[Follower]) -> None:
    """Wait until one of the followers has an event, or until the next read of the journal."""
    waits = [asyncio.ensure_future(each.next(LOOK_AGAIN)) for each in followers]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
