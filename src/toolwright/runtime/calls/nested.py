"""Calls within calls: what a prompt tool says and calls, and what a handler calls with `invoke_tool`.

They have rows of their own, named after the call that made them, and no place in the thread's conversation. A call
that runs again after a crash finds what it has made, and goes on from there.
"""

from collections.abc import Callable, Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.files.drafts import FileDrafts
from toolwright.core.journal.store import Store
from toolwright.core.model import ModelResponse
from toolwright.core.results.content import AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.compaction import refers
from toolwright.core.threads.message import Message
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.runtime.calls.prompt_tools import answer_of, as_heard, config_of, opening, paths
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import heard_by
from toolwright.runtime.context.frame import Frame
from toolwright.runtime.env.redaction import clean_arguments, clean_message
from toolwright.runtime.model.answer import in_message, new_call, sent_with
from toolwright.runtime.state.state import RunState
from toolwright.wire.result import result_from_json


class Nested:
    """Reads what lies below a call."""

    def __init__(self, store: Store, with_reader: Callable[[ActiveAgent, bool], ActiveAgent]) -> None:
        self._store = store
        self._with_reader = with_reader

    async def frame(self, context: RunContext, call: Call, prepared: PreparedCall) -> Frame | ToolResult:
        """The conversation within this call of a prompt tool, from its beginning or from where it was.

        An error result if it cannot begin.
        """
        tool = prepared.tool
        config = config_of(tool)
        try:
            files = await self._files(context, paths(prepared.arguments, config.init_attachments_property))
        except (InvalidRequest, NotFound) as error:
            return ToolResult.fail(error.message, error_code=error.code)
        said = await context.retry_until_available(lambda: self._store.children.within(call.id))
        messages = [clean_message(each, context.redactor) for each in said]  # of what is a secret since then
        below = await context.retry_until_available(lambda: self._store.children.nested(call.id))
        last = next((m for m in reversed(messages) if m.role == "assistant"), None)
        asked = set[str]() if last is None else {each.id for each in last.calls}
        active = context.active.nested[tool.name]
        frame = Frame.of(active, messages, [each for each in below if each.id in asked])
        frame.call = call
        if context.thread.compacted:
            rows = await context.retry_until_available(
                lambda: self._store.compactions(context.thread.id, call.id)
            )
            if rows:
                frame.compactions = {each.side: context.clean_row(each) for each in rows}
                frame.active = self._with_reader(active, refers(rows))
        begun = opening(active, config, call, prepared.arguments, _chat(context), files)
        frame.opening = tuple([clean_message(each, context.redactor) for each in begun])
        return frame

    async def _files(self, context: RunContext, named: Sequence[str]) -> list[AttachmentRef]:
        if not named:
            return []
        drafts = FileDrafts(context.files)
        return [(await drafts.get(path)).ref for path in named]

    async def answer(self, context: RunContext, frame: Frame) -> ToolResult:
        """Result of a prompt tool's call, once its model has said its last word."""
        assert frame.call is not None, "only a prompt tool's conversation has an answer"
        call_id, prepared = frame.call.id, context.prepared.get(frame.call.id)
        assert prepared is not None, "the call goes on"
        below = await context.retry_until_available(lambda: self._store.children.nested(call_id))
        results = {
            each.id: result
            for each in below
            if (result := as_heard(each, frame) if each.result is None else result_from_json(each.result))
        }
        return answer_of(config_of(prepared.tool), frame, below, results)

    async def recorded(
        self, context: RunContext, state: RunState, name: str, arguments: str
    ) -> tuple[str, int, Call | None]:
        """The id and the number of the next call that a handler makes, and its row if it was made before.

        The `arguments` are without secrets; those of the row may have values that have become secrets since.
        """
        while True:
            state.number += 1
            call_id = f"{state.call_id}.{state.number}"
            call = await context.retry_until_available(lambda one=call_id: self._store.call(one))
            if call is None:
                return call_id, state.number, None
            if call.name == name and clean_arguments(call.arguments, context.redactor) == arguments:
                return call_id, state.number, call

    async def left_open(self, context: RunContext, parent: Call) -> list[Call]:
        """The calls below one that is over which have no end of their own, the deepest first."""
        calls: list[Call] = []
        for each in await context.retry_until_available(lambda: self._store.children.nested(parent.id)):
            if not is_over(each.status) and each.status != "pending":
                calls += [*await self.left_open(context, each), each]
        return calls

    async def open_below(self, context: RunContext) -> list[Call]:
        """`left_open` of all calls of the step that are in progress, whoever has begun them."""
        at_work = [call for call in context.root.unanswered() if call.status == "running"]
        return [each for call in at_work for each in await self.left_open(context, call)]


def _chat(context: RunContext) -> list[Message]:
    """Messages before, as whoever calls the prompt has heard them."""
    if context.frame.call is not None:
        return context.frame.shown(None)
    active = context.active
    if len(active.sides) < 2:
        return context.root.shown(None)
    return heard_by(active.side, context.root.shown(context.side), active.agent.sides)


def nested_calls(context: RunContext, frame: Frame, response: ModelResponse) -> list[Call]:
    """The calls that a prompt tool asks for, as rows; their ids are made of the call's, in order."""
    assert frame.call is not None and frame.active is not None, "a prompt tool's conversation has both"
    first = sum(len(message.calls) for message in frame.messages) + 1
    calls: list[Call] = []
    seen: set[str] = set()
    for number, asked in enumerate(response.calls, first):
        call_id = f"{frame.call.id}.{number}"
        model_call_id = call_id if not asked.id or asked.id in seen else asked.id
        seen.add(model_call_id)
        ids, place = (call_id, model_call_id), (frame.call.step, number)
        parent_id, at = frame.call.id, context.clock.now()
        calls.append(new_call(context, frame.active, asked, at, ids=ids, place=place, parent_id=parent_id))
    return calls


def nested_message(
    context: RunContext, frame: Frame, response: ModelResponse, calls: Sequence[Call], seq: int
) -> Message:
    """The answer within a prompt tool as a message; of one that no model has given it says nobody's name."""
    assert frame.active is not None, "a prompt tool's conversation has one"
    return Message(
        id=context.new_id("msg"),
        role="assistant",
        content=response.text,
        seq=seq,
        run_id=context.run.id,
        step=context.run.step_count,
        within=frame.id,
        by=frame.active.prompt.name if response.model else None,
        calls=in_message(calls),
        native=response.native,
        sent=sent_with(frame, response) if response.model else None,
        created_at=context.clock.now(),
    )
