"""Context window: fits requests into a model's limit with references, summaries and, as a last resort, omission."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.prompt import DEFAULT_CONTEXT, Context
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.logs import logger
from toolwright.core.errors import ContextTooLong, ToolwrightError
from toolwright.core.journal.space_effects import Compact
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Result
from toolwright.core.model import Model, ModelRequest, ToolDefinition, window_of
from toolwright.core.requests.speaker import ComposedForm
from toolwright.core.threads.call import OPEN
from toolwright.core.threads.compaction import (
    Cause,
    Compaction,
    Measure,
    cut_by_all,
    has_media,
    header,
    measure_of,
    message_tokens,
    refers,
    text_tokens,
    texts,
)
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.core.threads.state_report import report_text
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame, RequestParts, as_formed
from toolwright.runtime.model.answer import CORRECTION, total_cost
from toolwright.runtime.model.fitting import (
    WORTH_CLEARING,
    Fitting,
    identity_of,
    limit_of,
    may_be_open,
    step_of,
)
from toolwright.runtime.model.sent_records import SentRecords
from toolwright.runtime.model.summaries import (
    MAX_SUMMARY,
    AskWithin,
    Key,
    Order,
    Summaries,
    Summary,
)
from toolwright.wire.event import compacted_event

log = logger("toolwright.models")

MAX_LOGGED = 100  # models for summaries that could not be created
# factors, by attempt, for the tokens of a request that was rejected without a limit
SHRINK = (0.8, 0.7, 0.5, 0.4, 0.3)
SUMMARY_SHARE = 0.2  # share of the budget that a summary can take
AT_ONCE = 1_000_000  # characters that are counted without a thread
MAX_CACHED_READERS = 100
MAX_CACHED_LIMITS = 1_000
MAX_OVER = 2  # factor by which an estimate can exceed the maximum tokens by mistake
MAX_OPEN = 50  # open calls that always stay
MAX_KEPT = (
    150  # messages that stay: a statement names the positions of up to three rows, and SQLite takes 500
)
MAX_WAIT = 60.0  # seconds that an answer waits for a summary
MAX_EDITS = 10  # number of times that a request is rebuilt because a summary was edited in the meantime


Tell: TypeAlias = Callable[[int], Awaitable[Mapping[str, str]]]
"""Builds the parts of the agent's state for a request of so many tokens."""


class ConversationChanged(Exception):
    """The conversation was changed while it was compacted, for example by an edited summary: the request is rebuilt."""


class ContextWindows:
    """Compacts conversations before they exceed their model's limit, and after a provider has rejected a request.

    `default` is the app's policy, `reader` the tool that opens results which are no longer shown. `models` returns the
    model that writes summaries. A limit learned from a provider's rejection is stored per model object, not per model
    name, because another account can have another limit.
    """

    def __init__(
        self,
        store: Store,
        models: Callable[[object], Awaitable[Model]],
        reader: Tool,
        default: Context | None = None,
    ) -> None:
        self._store = store
        self._models = models
        self._unusable: list[object] = []  # models for summaries that could not be created, already logged
        self.reader = reader
        self._default = default or DEFAULT_CONTEXT
        self.summaries = Summaries()
        self._learned: OrderedDict[tuple[int, int | None], tuple[Model, int]] = OrderedDict()
        self.records = SentRecords()
        self._readers: OrderedDict[int, tuple[ActiveAgent, ActiveAgent]] = OrderedDict()

    def with_reader(self, active: ActiveAgent, refers: bool = False) -> ActiveAgent:
        """Return the agent with the tool that opens results which are no longer shown.

        An agent without tools has no results, unless the conversation `refers` to results of a previous agent. An agent
        that writes its calls into its answers writes calls of this tool there too.
        """
        form = active.form
        writes = isinstance(form, ComposedForm)
        has_tools = active.by_name if writes else len(active.tools)
        if self.reader.name in active.by_name or not (has_tools or refers):
            return active
        cached = self._readers.get(id(active))
        if cached is None or cached[0] is not active:
            tools = () if writes else (*active.tools, self.reader)
            extended = active.offering(tools, (*active.by_name.values(), self.reader))
            if isinstance(form, ComposedForm):
                extended = changed(extended, form=form.with_tool(self.reader))
            cached = active, extended
            self._readers[id(active)] = cached
            if len(self._readers) > MAX_CACHED_READERS:
                self._readers.popitem(last=False)
        return cached[1]

    async def fit(
        self,
        context: RunContext,
        frame: Frame,
        parts: RequestParts,
        request: ModelRequest,
        ask: AskWithin,
    ) -> ModelRequest:
        """Return the request, compacted if necessary. The compaction is committed; `frame.sent` records the request.

        Its messages are those of the conversation even if answers have a form; `formed` converts them for the model.
        Raises `ContextTooLong` if a single message does not fit.
        """
        active, model, budget = parts.active, parts.model, parts.budget
        sent = request if active.form is None else formed(context, request)
        side, tokens = active.side, 0
        if budget is not None:
            fixed, policy = self._fixed(request), self._policy(active)
            counted = frame.count_at_once(sent.messages, side, most=AT_ONCE)
            if counted is None:
                counted = await asyncio.to_thread(frame.count, sent.messages, side)
            tokens = counted + fixed
            is_ready = self.summaries.has_any and self.summaries.is_ready(_key(context, frame))
            factor = frame.factor(context.side)
            if is_ready or tokens * factor > limit_of(budget, fixed * factor, policy):
                fitting = self._fitting(context, frame, model, request, policy, budget)
                try:
                    await self._shorten(context, frame, fitting, ask, "budget")
                except ContextTooLong:
                    declared = self._declared(active, model)
                    most = MAX_OVER if policy.max_tokens is None else 1
                    if declared is not None and fitting.tokens > declared * most:
                        raise
                    # Too long only by an estimate or a learned limit: the provider decides.
                    frame.is_over = True
                request = self._changed(context, frame, fitting, request)
                sent = formed(context, request)
                tokens = frame.count(sent.messages, side) + self._fixed(request)
        self.records.record(context, frame, request, tokens, budget)
        return request

    async def refit(
        self,
        context: RunContext,
        frame: Frame,
        model: Model,
        request: ModelRequest,
        ask: AskWithin,
        refused: ContextTooLong,
        attempt: int,
        tell: Tell | None = None,
    ) -> ModelRequest:
        """Return a shorter request after the provider has rejected one for its length, in the given attempt.

        A limit that the provider names is learned. `tell` builds the agent's state for so many tokens. Raises
        `ContextTooLong` if the request cannot be shortened, or was rejected too often.
        """
        frame.parts, frame.is_over = None, False  # the budget is smaller from now on
        fitting = self._fitting(context, frame, model, request, self._policy(context.active), 1)
        fitting.refused = refused
        await in_thread_if_large(texts(fitting.messages), fitting.count)
        limit, asked = identity_of(refused, fitting.estimate)
        if asked is not None:
            fitting.factor = asked / max(fitting.estimate, 1)
        was = fitting.tokens
        if attempt > len(SHRINK):
            fitting.budget = was
            raise fitting.too_long()
        shorter = int(was * SHRINK[attempt - 1])
        fitting.is_guess = limit is None or attempt > 1 or limit >= was
        fitting.budget = min(limit or shorter, shorter) if fitting.is_guess else limit or shorter
        if limit is not None:
            self._learn(context.active, model, limit)
        if tell is not None:
            fitting.fixed -= frame.state_tokens
            frame.state_parts = await tell(fitting.budget)
            fitting.fixed += frame.state_tokens
        log.info(
            "%s rejected a request of about %d tokens. A shorter one is sent. %s",
            model.name,
            was,
            refused.message,
        )
        await self._shorten(context, frame, fitting, ask, "refused")
        request = self._changed(context, frame, fitting, request)
        self.records.record(context, frame, request, fitting.estimate, fitting.budget)
        return request

    def accepted(self, frame: Frame, active: ActiveAgent, model: Model) -> None:
        """Record that the model accepted the last request's size, after it rejected longer ones.

        A limit is not learned earlier, because a rejection for the size of a file says nothing about other
        conversations. A learned limit below an accepted request is removed.
        """
        if frame.is_over:
            frame.is_over, frame.parts = False, None
            self._learned.pop((id(model), _answer_of(active)), None)
        elif frame.sent is not None and frame.sent.budget is not None and not _has_media(frame.messages):
            self._learn(active, model, frame.sent.budget)

    def _learn(self, active: ActiveAgent, model: Model, limit: int) -> None:
        key = id(model), _answer_of(active)  # the room for the answer can be a part of the limit
        previous = self._learned.pop(key, (model, limit))[1]
        self._learned[key] = model, min(limit, previous)
        if len(self._learned) > MAX_CACHED_LIMITS:
            self._learned.popitem(last=False)

    # ── budgets ─────────────────────────────────────────────────────────────────────────────────────────────

    def _policy(self, active: ActiveAgent) -> Context:
        return active.prompt.context or active.agent.context or self._default

    def budget(self, context: RunContext, frame: Frame, active: ActiveAgent, model: Model) -> int | None:
        """Return the maximum tokens of a request, by the policy, the model's window or the provider's rejection."""
        row, budget = frame.compaction(context.side), self.most_tokens(active, model)
        if row is None or row.refused_by != model.name or row.budget is None:
            return budget
        return row.budget if budget is None else min(budget, row.budget)

    def most_tokens(self, active: ActiveAgent, model: Model | None) -> int | None:
        """Return the maximum tokens of a request without a conversation in the journal."""
        learned = self._learned.get((id(model), _answer_of(active)))
        budgets = [self._declared(active, model), None if learned is None else learned[1]]
        return min([each for each in budgets if each is not None], default=None)

    def _declared(self, active: ActiveAgent, model: Model | None) -> int | None:
        """Return the maximum tokens of a request by the policy or the model's window."""
        return self._policy(active).budget(None if model is None else window_of(model), _answer_of(active))

    def _fixed(self, request: ModelRequest, tools: tuple[ToolDefinition, ...] | None = None) -> int:
        """Return the estimated tokens of the system text, the report of the state, and the tools.

        The tools are the request's own by default.
        """
        offered = request.tools if tools is None else tools
        reported = 0 if request.state is None else text_tokens(report_text(request.state))
        return text_tokens(request.system) + reported + len(self.records.tools_text(offered)[0]) // 4

    def _fitting(
        self,
        context: RunContext,
        frame: Frame,
        model: Model,
        request: ModelRequest,
        policy: Context,
        budget: int,
    ) -> Fitting:
        row, active = frame.compaction(context.side), context.active
        if row is None:
            thread_id, now = context.thread.id, context.clock.now()
            row = Compaction(thread_id=thread_id, number=0, created_at=now)
        # Omitted messages can have reported any part of the state, which the request reports again then.
        whole = changed(request, state=None)
        fixed, form = self._fixed(whole, self.with_reader(active).tools.model_definitions), active.form
        fixed += frame.state_tokens
        opening = sum(map(message_tokens, form.opening)) if isinstance(form, ComposedForm) else 0
        return Fitting(
            messages=[*request.messages],
            row=changed(row, side=context.side or "", within=frame.id or "", usage=None, cost=None),
            policy=policy,
            budget=budget,
            fixed=fixed + opening,
            opening=opening,
            factor=frame.factor(context.side),
            last=context.seq,
            who=active.agent.name,
            model=model,
            keep=partial(self._kept, context),
            form=form.written if isinstance(form, ComposedForm) else None,
        )

    def _changed(
        self, context: RunContext, frame: Frame, fitting: Fitting, request: ModelRequest
    ) -> ModelRequest:
        """Return the request with its shortened messages, and with the tool that opens results."""
        if frame.compactions:
            active = self.with_reader(context.active, refers(frame.compactions.values()))
            if frame is not context.root:
                context.activate(frame, active)
            elif active is not context.active and context.base is not None:
                context.set_speaker(context.base, active)
        form = context.active.form
        return changed(
            request,
            messages=tuple(fitting.messages),
            tools=context.active.tools.model_definitions,
            answer=None if form is None else form.schema,
            state=frame.report(context.active.agent_id, fitting.messages),
        )

    # ── compaction ──────────────────────────────────────────────────────────────────────────────────────────

    async def _shorten(
        self, context: RunContext, frame: Frame, fitting: Fitting, ask: AskWithin, cause: Cause
    ) -> None:
        """Compact the messages by the mildest sufficient measure, and commit the compaction."""
        await in_thread_if_large(texts(fitting.messages), fitting.count)
        base, before, key = fitting.row, fitting.tokens, _key(context, frame)
        limit, urgent = fitting.limit, before > fitting.budget
        written = await self._waited_for(
            context, key, self.summaries.pop(key, (base.cut, base.summary), wait=urgent)
        )
        if written is not None:
            digest = await in_thread_if_large(texts(fitting.messages), fitting.digest, written.covers)
            if written.digest == digest:
                await fitting.leave_out(written.covers, written)
            else:  # its messages were edited or dropped in the meantime: it is paid for, but not used
                context.run = _paying(context.run, written)
        if fitting.tokens > limit:
            fitting.clear(fitting.policy.keep, least=0 if urgent else fitting.budget * WORTH_CLEARING)
        if fitting.tokens > limit:
            await self._leave_out_older(context, key, fitting, ask, urgent=fitting.tokens > fitting.budget)
        if context.abort.aborted:
            return  # the model is not called any more
        if fitting.tokens > fitting.budget:
            await fitting.squeeze()
        if fitting.row is not base:
            if fitting.is_guess:  # a request shorter than the rejected one can be short enough
                fitting.budget = max(fitting.budget, fitting.tokens)
            await self._commit(context, frame, fitting, before, cause, measure_of(fitting.row, base))
        if fitting.tokens > fitting.budget:
            raise fitting.too_long()

    async def _leave_out_older(
        self, context: RunContext, key: Key, fitting: Fitting, ask: AskWithin, *, urgent: bool
    ) -> None:
        """Replace older turns by a summary: now if `urgent`, otherwise after it has been written."""
        policy, count = fitting.policy, fitting.older(fitting.policy.keep)
        covers = fitting.place(count)
        if covers <= fitting.row.cut or not (urgent or policy.summarize):
            return
        summary = None
        if policy.summarize:
            order = await self._order(context.active, fitting, count, covers)
            if not urgent:
                if order is None:
                    return
                base, trace = (fitting.row.cut, fitting.row.summary), context.trace
                if trace is not None:
                    order = replace(order, model=trace.summarizer(order.model))
                self.summaries.start(key, base, order, partial(ask, context, False))
                return
            if order is not None:
                asking = partial(ask, context, True)
                summary = await self._waited_for(context, key, self.summaries.now(key, order, asking))
        await fitting.leave_out(covers, summary)

    async def _waited_for(
        self, context: RunContext, key: Key, writing: Coroutine[object, object, Summary | None]
    ) -> Summary | None:
        """Return the summary, or None if it takes too long, the run is cancelled, or the run is out of time."""
        task = asyncio.ensure_future(writing)
        aborted = asyncio.ensure_future(context.abort.wait())
        seconds = MAX_WAIT if context.time_limit is None else min(max(context.seconds_left(), 0.0), MAX_WAIT)
        try:
            done, _ = await asyncio.wait(
                {task, aborted}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                self.summaries.pause(key)
            summary = task.result() if task in done and not task.cancelled() else None
            if summary is None or summary.text:
                return summary
            context.run = _paying(context.run, summary)
            return None
        finally:
            aborted.cancel()
            task.cancel()

    async def _order(self, active: ActiveAgent, fitting: Fitting, count: int, covers: int) -> Order | None:
        """Return the order for a summary, or None if its model cannot be created."""
        policy, model = fitting.policy, fitting.model
        if policy.summarize_with is not None:
            try:
                model = await self._models(policy.summarize_with)
            except ToolwrightError as error:
                known = policy.summarize_with in self._unusable
                if not known and len(self._unusable) < MAX_LOGGED:
                    self._unusable.append(policy.summarize_with)
                    log.warning("Summaries are not written for %s: %s", active.agent.name, error.message)
                return None
        own = Context().budget(window_of(model), MAX_SUMMARY) or fitting.budget
        return Order(
            messages=fitting.messages[:count],
            covers=covers,
            digest=await in_thread_if_large(texts(fitting.messages), fitting.digest, covers),
            model=model,
            room=min(own, fitting.budget) if model is fitting.model else own,
            tokens=min(MAX_SUMMARY, int(fitting.budget * SUMMARY_SHARE)),
            instructions=policy.instructions,
            who=active.who,
        )

    async def _kept(self, context: RunContext, omitted: Sequence[Message], room: int) -> set[int]:
        """Return the positions of messages that stay for now: the run's start, and open calls with their results."""
        seqs = set[int]()
        for message in omitted:
            if (
                message.role != "user"
                or message.by is not None  # written by the other side, which is a user for this side
                or message.run_id != context.run.id
                or message.id.startswith(CORRECTION)
            ):
                continue
            room -= message_tokens(message)
            if room >= 0 and message.seq is not None and len(seqs) < MAX_KEPT:
                seqs.add(message.seq)
        open_calls = [each.call_id for each in omitted if each.role == "tool" and may_be_open(each)]
        for call_id in open_calls[-MAX_OPEN:]:
            if call_id is None:
                continue
            call = await context.retry_until_available(lambda one=call_id: self._store.call(one))
            step = step_of(omitted, call_id) if call is not None and call.status in OPEN else set[int]()
            if len(seqs | step) <= MAX_KEPT:
                seqs |= step
        return seqs

    async def _commit(
        self, context: RunContext, frame: Frame, fitting: Fitting, before: int, cause: Cause, measure: Measure
    ) -> None:
        """Commit the compaction. The run pays for the summary.

        Raises `ConversationChanged`, after which the request is rebuilt.
        """
        run, paid = context.run, fitting.unpaid
        before_it, refused_by = frame.compaction(context.side), fitting.model.name
        if before_it is not None and (before_it.refused_by, before_it.budget) == (refused_by, fitting.budget):
            cause = "refused"  # its limit applies to later compactions too
        is_limit = cause == "refused" and not (fitting.is_guess and _has_media(frame.messages))
        row = changed(
            fitting.row,
            number=context.thread.compacted + 1,
            budget=fitting.budget,
            refused_by=refused_by if is_limit else None,
            cause=cause,
            edited_by=None,
            run_id=run.id,
            step=run.step_count + 1,
            created_at=context.clock.now(),
        )
        if paid is not None:
            row = changed(row, usage=paid.usage, cost=paid.cost)
            run = _paying(run, paid)
        cut = None
        if not row.within:
            cut = cut_by_all({**frame.compactions, row.side: row}.values())
        changes = Changes(
            effects=(Compact(compaction=row, cut=cut),),
            events=[compacted_event(row, measure, before, fitting.tokens)],
        )
        answer = await context.write(Result, changes, run)
        if answer != "done":
            log.info(
                "The thread %s was changed while its conversation was shortened (%s).",
                context.thread.id,
                answer,
            )
            context.run = run  # it pays even for a summary that is not used
            raise ConversationChanged
        if fitting.begins_with_header:
            fitting.messages[0] = header(row)


def _paying(run: Run, summary: Summary) -> Run:
    return changed(run, usage=run.usage + summary.usage, cost=total_cost(run.cost, summary.cost))


def _answer_of(active: ActiveAgent) -> int | None:
    """Return the maximum tokens of an agent's answers, or None if the provider decides."""
    return None if active.settings is None else active.settings.max_tokens


def formed(context: RunContext, request: ModelRequest) -> ModelRequest:
    """Return the request as sent to its model: with the messages in the form of the agent's answers."""
    active = context.active
    if active.form is None:
        return request
    messages = as_formed([*request.messages], active)
    return changed(request, messages=tuple(messages))


def _has_media(messages: Sequence[Message]) -> bool:
    """Return whether a rejection can be caused by the size of a file."""
    return any(map(has_media, messages))


def _key(context: RunContext, frame: Frame) -> Key:
    return context.thread.id, frame.id or "", context.side or ""
