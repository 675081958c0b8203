"""Run worker: claim a thread's next run, execute it, release the thread. The motor calls it once a thread at a time."""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from datetime import timedelta
from typing import NamedTuple

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import LogContext, logger, logging_without
from toolwright.core.errors import ServerFailed, StoreError, ToolwrightError
from toolwright.core.journal.child_effects import CloseRequest
from toolwright.core.journal.store import KnownMessages, ThreadView
from toolwright.core.journal.telemetry import RunTrace, Telemetry
from toolwright.core.journal.units import Claim, Committed, Leave, Leaving, Takeover
from toolwright.core.json_value import is_large
from toolwright.core.limits import nth_delay
from toolwright.core.ports import Clock, RetryInIsolation, Verdict
from toolwright.core.text import error_text, quantity
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.inbox import InboxChange, InboxEvent, batch
from toolwright.core.threads.run import Run, RunStatus
from toolwright.core.value import changed
from toolwright.runtime.agents.deps import deps_of_run, deps_type_of
from toolwright.runtime.agents.speakers import Speakers, UnknownAgent
from toolwright.runtime.calls.settle import CallSettler
from toolwright.runtime.calls.variables import still_missing
from toolwright.runtime.context.commit import Answered, Changes, Listeners, ThreadLost
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.journal import Services
from toolwright.runtime.model.answer import ask_again
from toolwright.runtime.runs.act import Actions
from toolwright.runtime.runs.ends import RunEnds
from toolwright.runtime.runs.finish import leaving_after, presence
from toolwright.runtime.runs.hook_actions import HookActions
from toolwright.runtime.runs.loop import execute
from toolwright.runtime.runs.outage import back_off_end, is_left_to_others, retries, unknown_agent
from toolwright.runtime.runs.reading import InboxReader, starting
from toolwright.runtime.spaces.membership import Membership
from toolwright.runtime.threads.inbox import cleaned_texts, depth_of
from toolwright.runtime.threads.thread_tree import Lineages, first_run
from toolwright.wire.event import run_event, step_event

log = logger("toolwright.runtime")
failures = logger("toolwright.runs")

SUSPECT_LIVES = 3
"""Processes that have ended while a run was executed, without a commit of the run, at which it is a suspect."""
LAST_ISOLATED = 10
"""Processes that have ended while a run was the only suspect that was executed, at which it fails."""
APP_CODE = frozenset({"function", "prompt"})
"""Kinds of tools whose calls can execute the app's own code: a prompt tool's conversation can call functions."""
LOST_PAUSE = 1.0  # seconds before a thread whose owner has changed is checked again
STRAGGLERS = 20.0  # seconds within which a commit that was in progress when a run was suspended has finished
# threads whose messages are kept in memory, and maximum characters of each
MAX_CACHED_THREADS, MAX_CACHED_TEXT = (32, 1_000_000)
LAST_WORD = 5.0  # seconds to release a run
MAX_UNRELEASED = 10_000  # runs of which a process knows that it has not released them


def _agent_name(context: RunContext) -> str:
    """Return the name of the active agent, or the agent's id if it is no longer configured."""
    active = context.root.active
    return context.run.agent if active is None else active.agent.name


def _log_end(context: RunContext, began: float, clock: Clock, failed: int) -> None:
    """Log how the run ended, was suspended or released here. Failed runs are logged at level `failed`."""
    run, active = context.run, context.root.active
    if run.status == "failed":
        model = None if active is None else getattr(active.model, "name", active.model)
        failures.log(
            failed,
            "Run %s of the agent %r failed (model %s, code %s): %s",
            run.id, _agent_name(context), model or "of the settings", run.error_code or "none", run.error,
        )  # fmt: skip
    elif failures.isEnabledFor(logging.INFO):
        reason = run.stop_reason or (run.waiting or {}).get("reason")
        failures.info(
            "Run %s of the agent %r is %s%s after %s and %.1f s here; %d tokens in, %d out.",
            run.id, _agent_name(context), run.status, f" ({reason})" if reason else "",
            quantity(run.step_count, "step"), clock.monotonic() - began,
            run.usage.input_tokens, run.usage.output_tokens,
        )  # fmt: skip


def _executed_app_code(view: ThreadView) -> bool:
    """Return whether a call of the app's own code was in progress when the process ended."""
    return any(call.status == "running" and call.kind in APP_CODE for call in view.calls)


class _Unreleased(NamedTuple):
    """A run that this process has claimed with this epoch and left without a release, and whether it was isolated.

    It is held in the journal, like the run of a process that has ended. The next claim by anyone raises the epoch.
    """

    epoch: int
    is_isolated: bool


class RunWorker:
    """Executes the runs of threads. The state of a run is discarded when its thread is released."""

    def __init__(
        self,
        services: Services,
        actions: Actions,
        settler: CallSettler,
        speakers: Speakers,
        ends: RunEnds,
        lineages: Lineages,
        listeners: Listeners,
        membership: Membership,
        reader: InboxReader,
        hooks: HookActions,
        lifespan: object = None,
    ) -> None:
        self._hooks = hooks
        self._lifespan = lifespan
        self._membership = membership
        self._reader = reader
        self._telemetry = services.telemetry
        self._listeners = listeners
        self._store = services.store
        self._callers = services.callers
        self._actions = actions
        self._settler = settler
        self._speakers = speakers
        self._ends = ends
        self._lineages = lineages
        self._clock = services.clock
        self._new_id = services.new_id
        self._holds: dict[str, RunContext] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._known: OrderedDict[str, KnownMessages] = OrderedDict()
        self._unreleased: OrderedDict[str, _Unreleased] = OrderedDict()  # by thread
        self._stopping = False
        # threads whose joined claim was not written: the next one is a unit of its own
        self._unclaimed: set[str] = set()
        self.raised: set[str] = set()  # threads whose run failures are raised to a waiting caller

    async def __call__(
        self, thread_id: str, *, alone: bool = False, suspects: int = 1, node: str | None = None
    ) -> Verdict:
        """Execute one run of the thread, then release it. In a cluster the `node` must hold the thread's lease.

        `alone` executes a suspect; `suspects` is the number that is executed at the same time.
        """
        view = await self._store.view(thread_id, self._known.get(thread_id))
        if view is None:
            return await self._drop_stale_wake(thread_id)
        if view.wake is None:
            return "done"
        run = view.run
        rest = back_off_end(view, self._clock)
        if rest is not None:
            put_off = view.wake.due != rest
            return await self._leave(thread_id, Leaving(gen=view.wake.gen, due=rest)) if put_off else "done"
        if run is None and (not view.inbox or view.thread.is_over):
            return await self._leave(thread_id, Leaving(gen=view.wake.gen))
        if run is not None and (early := await self._early(view, run, alone)) is not None:
            return early
        try:
            serving = self._serve(view, run or self._new_run(view), node, is_isolated=alone and suspects == 1)
            return await self._callers.in_context(thread_id, serving)
        except ThreadLost as lost:
            log.info("%s", lost)
            await self._clock.sleep(LOST_PAUSE)  # not to compete with the worker that owns it now
            return "again"

    def stop(self) -> None:
        """Release the current runs after their current call or answer: the process stops."""
        self._stopping = True
        for context in self._holds.values():
            context.stop()

    def nudge(self, thread_id: str) -> None:
        """Handle a wake-up of a thread in progress: a result or a cancellation can have arrived."""
        context = self._holds.get(thread_id)
        if context is None:
            return
        context.nudged.set()
        task = start_task(self._check_cancel(context), f"nudge {thread_id}")
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check_cancel(self, context: RunContext) -> None:
        try:
            await context.check_cancel()
            await context.reload_env()
        except StoreError as error:  # the next commit of the run detects it
            log.debug("Cannot see whether run %s was cancelled: %s", context.run.id, error)
        except ToolwrightError as error:
            log.warning("Cannot see whether run %s was cancelled: %s", context.run.id, error)

    async def _early(self, view: ThreadView, run: Run, alone: bool) -> Verdict | None:
        """Return the verdict for a run that cannot continue now, because it waits or must run alone. None if it can."""
        assert view.wake is not None, "checked by the caller"
        if run.status == "waiting" and run.cancel_requested_at is None:
            left = await self._time_left(view, run)
            if left > 0:
                due = None if math.isinf(left) else self._clock.now() + timedelta(seconds=left)
                return await self._leave(view.thread.id, Leaving(gen=view.wake.gen, due=due))
        is_left_here = self._left_here(view.thread.id, view.thread.epoch) is not None
        lives = run.lives if is_left_here else run.lives + 1
        suspected = run.held and lives >= SUSPECT_LIVES and _executed_app_code(view)
        if suspected and not alone and run.cancel_requested_at is None:
            return RetryInIsolation(nth_delay(lives - SUSPECT_LIVES), lives)
        return None

    def _left_here(self, thread_id: str, epoch: int) -> _Unreleased | None:
        """Return the claim that this process has left, or None, also if another process has claimed since."""
        left = self._unreleased.get(thread_id)
        return left if left is not None and left.epoch == epoch else None

    def _note_unreleased(self, context: RunContext) -> None:
        """Remember a run that is left without a release, so that the next claim here does not count it as a crash."""
        if context.is_held_here:
            self._unreleased[context.thread.id] = _Unreleased(context.epoch, context.is_isolated)
            if len(self._unreleased) > MAX_UNRELEASED:
                self._unreleased.popitem(last=False)
        elif not context.run.held:
            self._unreleased.pop(context.thread.id, None)

    async def _time_left(self, view: ThreadView, run: Run) -> float:
        """Return the seconds that a suspended run still has to wait, as far as known."""
        if (run.waiting or {}).get("reason") == "variables":
            return await self._seconds_until_variables(view, run)
        open_calls = [call for call in view.calls if call.status == "waiting"]
        if not open_calls:
            open_calls = await self._waited_within(run, {call.id for call in view.calls})
        return min([self._settler.seconds_left(each, self._clock) for each in open_calls], default=0.0)

    async def _waited_within(self, run: Run, known: Set[str]) -> list[Call]:
        """Return the nested call that a suspended run still waits for, if any; `known` calls have ended."""
        named = (run.waiting or {}).get("callIds")
        ids = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
        ids = [each for each in ids if each not in known]
        calls = [await self._store.call(each) for each in ids]
        return [call for call in calls if call is not None and call.status == "waiting"]

    async def _seconds_until_variables(self, view: ThreadView, run: Run) -> float:
        """Return the seconds that a run waits for variables. It checks again after commits that were in progress."""
        active = await self._speakers.agent_for(view.thread, run)
        if isinstance(active, str):
            return 0.0
        resolve = await self._lineages.resolver(view.thread)
        names = (run.waiting or {}).get("missing")
        asked = names if isinstance(names, list) else []
        if not still_missing(lambda each: resolve(view.thread, each, view.env), active, asked):
            return 0.0
        request = await self._store.children.request(str((run.waiting or {}).get("requestId")))
        if request is None:
            return 0.0
        settled = (request.created_at - self._clock.now()).total_seconds() + STRAGGLERS
        return settled if settled > 0 else math.inf

    async def _drop_stale_wake(self, thread_id: str) -> Verdict:
        """Remove the wake-up of a deleted thread; it would otherwise stay due forever."""
        wake = await self._store.wake(thread_id)
        return "done" if wake is None else await self._leave(thread_id, Leaving(gen=wake.gen))

    async def _leave(self, thread_id: str, leaving: Leaving) -> Verdict:
        unit = Leave(token=self._new_id("unit"), at=self._clock.now(), thread_id=thread_id, leaving=leaving)
        answer = await self._store.commit(unit)
        return "done" if isinstance(answer, Committed) and answer.left else "again"

    async def _serve(self, view: ThreadView, run: Run, node: str | None, *, is_isolated: bool) -> Verdict:
        agent = await self._speakers.agent_for(view.thread, run)
        if node is not None and isinstance(agent, UnknownAgent) and is_left_to_others(view.run):
            return "elsewhere"
        context = await self._context(view, run, agent)
        context.node, context.is_isolated = node, is_isolated
        if self._stopping:
            context.stop()
        self._holds[context.thread.id] = context
        self._known.pop(context.thread.id, None)
        if self._telemetry is not None:
            context.trace = _trace(self._telemetry, context, view)
        try:
            with logging_without(lambda: context.redactor, _log_place(context)):
                try:
                    await self._lead(context, view, agent)
                    await self._hooks.tell_end(context, self._new_id)
                finally:
                    await context.dependencies.close()
        finally:
            if context.trace is not None:
                context.trace.end(context.run)
                context.trace = None
            del self._holds[context.thread.id]
            self._note_unreleased(context)
            if context.is_unclaimed:
                self._unclaimed.add(context.thread.id)
            else:
                self._unclaimed.discard(context.thread.id)
            if context.run.over:
                self._speakers.forget(context.thread)
                self._keep_messages(context)
        if node is not None and isinstance(agent, UnknownAgent) and is_left_to_others(context.run):
            return "elsewhere"
        return "again" if context.is_due and not self._stopping else "done"

    async def _context(self, view: ThreadView, run: Run, agent: ActiveAgent | str) -> RunContext:
        return RunContext(
            view,
            run,
            self._store,
            self._clock,
            self._new_id,
            await self._lineages.resolver(view.thread),
            self._lineages.redactor,
            agent if isinstance(agent, ActiveAgent) else None,
            self._listeners,
            self._membership,
            self._ends,
            self._lifespan,
        )

    async def after_run(self, run_id: str) -> None:
        """Ask the hooks of a run whose process has died after its end."""
        run = await self._store.run(run_id)
        view = None if run is None else await self._store.view(run.thread_id)
        if run is None or view is None or not run.over:
            return
        agent = await self._speakers.agent_for(view.thread, run)
        context = await self._context(view, run, agent)
        with logging_without(lambda: context.redactor, _log_place(context)):
            await self._hooks.tell_end(context, self._new_id)

    def _keep_messages(self, context: RunContext) -> None:
        """Keep the messages of a run of calls in memory, so that the next call does not read the whole thread again."""
        known = context.known if context.run.calls_only else None
        if known is None or sum(len(each.content) for each in known.messages) > MAX_CACHED_TEXT:
            return
        self._known[context.thread.id] = known
        if len(self._known) > MAX_CACHED_THREADS:
            self._known.popitem(last=False)

    async def _lead(self, context: RunContext, view: ThreadView, agent: ActiveAgent | str) -> None:
        is_shared = context.node is not None
        began, raised = self._clock.monotonic(), context.thread.id in self.raised
        try:
            await self._claim(context, view, agent)
            if context.run.deps is not None:
                context.deps_type = deps_type_of(self._speakers.catalog, context.run.agent)
            if failures.isEnabledFor(logging.INFO):
                failures.info(
                    "Run %s of the agent %r begins or continues.", context.run.id, _agent_name(context)
                )
            if (
                isinstance(agent, UnknownAgent)
                and context.run.cancel_requested_at is None
                and not context.run.over
            ):
                waiting = unknown_agent(context, agent, is_shared=is_shared)
                await self._ends.wait(context, waiting, is_shared=is_shared)
            elif isinstance(agent, str) and not context.run.over:
                await self._ends.fail(context, agent)
            elif isinstance(agent, ActiveAgent) and not context.run.over:
                await self._execute(context)
        except (ThreadLost, StoreError):
            raise
        except asyncio.CancelledError:
            await self._give_back(context)
            raise
        except Exception as error:
            log.exception("Run %s cannot continue.", context.run.id)
            await self._ends.fail(context, f"The run cannot continue: {error_text(error)}", ServerFailed.code)
        _log_end(context, began, self._clock, logging.INFO if raised else logging.WARNING)
        if not context.left:
            await self._give_back(context)

    async def _execute(self, context: RunContext) -> None:
        try:
            await execute(context, self._actions.do)
        finally:
            # finished, released, or owned by another process
            if context.run.status not in ("queued", "waiting"):
                for frame in context.frames:
                    self._settler.forget(frame.calls)
                self._settler.forget(context.nested)

    async def _claim(self, context: RunContext, view: ThreadView, agent: ActiveAgent | str) -> None:
        """Claim a waiting run, or take over a run whose process crashed."""
        if context.run.held:
            await self._take_over(context)
            return
        claim = Claim if view.thread.run_id is not None else _opening_claim
        if context.run.started_at is None:
            await self._begin(context, claim, batch(view.inbox, context.run.id), agent)
        else:
            await self._resume(context, claim, agent)

    async def _take_over(self, context: RunContext) -> None:
        """Take over a run whose process has ended. It fails if it alone was suspected for `LAST_ISOLATED` of them.

        A run that this process has left itself is taken over too, but no process has ended then.
        """
        run, left = context.run, self._left_here(context.thread.id, context.epoch)
        ended = max(run.isolated - 1, 0) if left is not None and left.is_isolated else run.isolated
        taken = _running(
            run, lives=run.lives + (left is None), isolated=ended + 1 if context.is_isolated else ended
        )
        await context.write(Takeover, Changes(events=[run_event(taken)]), taken)
        if left is None:
            log.warning("Run %s is taken over: the process that executed it has ended.", taken.id)
        else:
            log.info("Run %s continues: this process had left it without a release.", taken.id)
        if ended >= LAST_ISOLATED:
            await self._ends.fail(
                context, f"The process died {quantity(ended, 'time')} while it executed this run."
            )

    async def _resume(
        self, context: RunContext, claim: Callable[..., Claim], agent: ActiveAgent | str
    ) -> None:
        """Claim a run that was suspended or reopened."""
        run = context.run
        taken = _running(run)
        is_first = context.thread.id not in self._unclaimed
        if is_first and isinstance(agent, ActiveAgent) and _only_delivers(context, agent):
            context.claim_with_next(Changes(events=[run_event(taken)]), taken)
            return
        changes = Changes(events=[] if retries(run) else [run_event(taken)])
        asked = (run.waiting or {}).get("requestId")
        if isinstance(asked, str):
            changes.effects += (CloseRequest(thread_id=context.thread.id, id=asked),)
        renewed = isinstance(asked, str) or retries(run) or run.is_reopened
        if renewed and isinstance(agent, ActiveAgent) and agent.agent_id == run.agent:
            taken = changed(taken, revision=agent.agent.revision)
        if run.is_reopened and not run.calls_only:
            ask_again(context, changes)
        if run.is_reopened:
            await context.space.check(changes, context.base)
            changes.effects += (*presence(context, context.space.space_id, "agent.active"),)
        await context.write(claim, changes, taken)

    async def _begin(
        self,
        context: RunContext,
        claim: Callable[..., Claim],
        waiting: list[InboxEvent],
        agent: ActiveAgent | str,
    ) -> None:
        """Claim a new run, which reads the waiting inbox events."""
        taken = _running(context.run, started_at=self._clock.now())
        taken = changed(
            taken,
            revision=agent.agent.revision if isinstance(agent, ActiveAgent) else None,
            chain_depth=depth_of(waiting, taken),
            calls_only=taken.calls_only and all(event.type == "call" for event in waiting),
            deps=await deps_of_run(self._store, self._speakers.catalog, taken, waiting),
        )
        if context.trace is not None:
            taken = changed(taken, traceparent=context.trace.traceparent)
        try:
            answer: Answered = "file"
            while answer == "file":  # a file name that was taken in the meantime
                changes = await self._reader.start(context, taken, waiting)
                changes.events.append(step_event("step.started", 1))
                await context.space.check(changes, context.base)
                at_work_in = await context.space.enter_for(waiting, context.author)
                changes.effects += (*presence(context, at_work_in, "agent.active"),)
                answer = await context.write(claim, changes, taken)
        except (ThreadLost, StoreError):
            raise
        except Exception as error:
            log.exception("Run %s cannot begin.", taken.id)
            await self._refuse(
                context, claim, waiting, context.redactor.text(f"The run cannot begin: {error_text(error)}")
            )

    async def _refuse(
        self, context: RunContext, claim: Callable[..., Claim], waiting: list[InboxEvent], error: str
    ) -> None:
        """Fail a run whose messages cannot be read: its own messages are kept, the others are requeued (D21)."""
        now = self._clock.now()
        status: RunStatus = "failed" if context.run.cancel_requested_at is None else "cancelled"
        over = changed(context.run, status=status, error=error, started_at=now, completed_at=now)
        own = [event for event in waiting if event.run_id == context.run.id]
        back = [event.requeued(1) for event in waiting if event not in own]
        try:
            read = starting(context, over, own, await cleaned_texts(own))
            await self._write_refusal(context, claim, read, over, back)
        except (ThreadLost, StoreError):
            raise
        except Exception:
            log.exception("The messages of the run %s could not be stored in its thread.", context.run.id)
            back += [event.parked() for event in own]
            await self._write_refusal(context, claim, Changes(events=[run_event(over)]), over, back)

    async def _write_refusal(
        self,
        context: RunContext,
        claim: Callable[..., Claim],
        changes: Changes,
        over: Run,
        back: Sequence[InboxChange],
    ) -> None:
        changes.inbox, changes.leaving = tuple(back), leaving_after(context, back, self._clock.now())
        await self._ends.add_family_effects(context, changes, over)
        await context.write(claim, changes, over)

    def _new_run(self, view: ThreadView) -> Run:
        return first_run(view.thread, self._new_id("run"), 0, self._clock)

    async def _give_back(self, context: RunContext) -> None:
        """Release the run when the process stops, so that the next owner does not count a crash."""
        if context.run.status not in ("queued", "running"):
            return
        try:
            async with asyncio.timeout(LAST_WORD):
                await context.release()
        except (ThreadLost, ToolwrightError, TimeoutError) as error:
            log.warning(
                "Run %s could not be released: %s",
                context.run.id,
                str(error) or "the journal does not answer",
            )


def _running(run: Run, **fields: object) -> Run:
    """Return the claimed run. The outage that it has waited for is kept until its model answers."""
    return changed(run, status="running", waiting=run.waiting if retries(run) else None, **fields)


def _only_delivers(context: RunContext, agent: ActiveAgent) -> bool:
    """Return whether the resumed run has waited for a call whose result has arrived, and records it first.

    A process that dies before the first unit leaves no trace of that, so only work that is small is done before it: a
    large result, or an agent whose tools are read from elsewhere, needs a claim of its own.
    """
    if agent.relations or agent.mcp:
        return False
    run, call = context.run, next(iter(context.root.open.values()), None)
    is_answered = call is not None and is_over(call.status) and not is_large(call.result)
    return is_answered and "callIds" in (run.waiting or {}) and run.cancel_requested_at is None


def _trace(telemetry: Telemetry, context: RunContext, view: ThreadView) -> RunTrace | None:
    agent = context.run.agent if context.base is None else context.base.agent.name
    return telemetry.lead(context.run, agent, view.calls)


def _log_place(context: RunContext) -> LogContext:
    traceparent = None if context.trace is None else context.trace.traceparent
    trace_id = None if traceparent is None else traceparent.split("-")[1]
    return LogContext(run_id=context.run.id, thread_id=context.thread.id, trace_id=trace_id)


def _opening_claim(**fields: object) -> Claim:
    return Claim(opens=True, **fields)  # type: ignore[arg-type]  # the fields of a Claim, as Hold provides them
