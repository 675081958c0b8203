"""Model answers in the journal: a message, a step, and the requested calls."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.limits import CALLS_PER_UNIT
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.threads.call import Call
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import CORRECTION, MAX_REASONING, SENT_BACK, Message, MessageCall, Sent
from toolwright.core.threads.run import CUTS, CutReason, QueuedCall, Run, Step
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame

_CUT = "cut_"
"""Prefix of the ids of answers that are not whole."""
MAX_CUT = 2
"""Maximum number of consecutive answers with cut calls after which the model is asked again."""
EMPTY = "Your last answer was empty. Give your answer."


def new_call(
    context: RunContext,
    active: ActiveAgent | None,
    asked: ModelCall | QueuedCall,
    at: datetime,
    *,
    ids: tuple[str, str],
    place: tuple[int, int],
    parent_id: str | None = None,
    tools: Mapping[str, Tool] | None = None,
) -> Call:
    """Return the row of a call of `active`: `ids` are ours and the model's, `place` is its step and position.

    `tools` are the tools among which it is looked up, by default those of `active`.
    """
    if tools is None and active is not None:
        tools = active.by_name
    tool = None if tools is None else tools.get(asked.name)
    kind = "function" if tool is None else tool.kind
    if tool is not None and tool.meta is not None:
        kind = tool.kind_of(asked.arguments)
    return Call(
        id=ids[0],
        thread_id=context.thread.id,
        run_id=context.run.id,
        agent=context.thread.answering if active is None else active.agent_id,
        step=place[0],
        position=place[1],
        name=asked.name,
        kind=kind,
        arguments=asked.arguments,
        model_call_id=ids[1],
        status="created",
        visible=tool is not None and tool.visible,
        repeatable=tool is not None and tool.repeatable,
        parent_id=parent_id,
        created_at=at,
    )


def calls_of(context: RunContext, response: ModelResponse, step: int, at: datetime) -> list[Call]:
    """Return the calls requested by the model. A call id that is repeated or missing is replaced by ours (D3).

    Our ids of nested calls are derived from their parent's, so that they are the same after a crash.
    """
    calls: list[Call] = []
    used_ids: set[str] = set()
    active, parent = context.active, context.frame.call
    parent_id = None if parent is None else parent.id
    first = 0 if parent is None else context.frame.next_position
    for position, model_call in enumerate(response.calls, first):
        call_id = f"{parent.id}.{position}" if parent is not None else context.call_ids.get(position)
        call_id = call_id or context.new_id("call")
        model_call_id = call_id if not model_call.id or model_call.id in used_ids else model_call.id
        used_ids.add(model_call_id)
        ids, place = (call_id, model_call_id), (step, position)
        calls.append(new_call(context, active, model_call, at, ids=ids, place=place, parent_id=parent_id))
    return calls


def assistant_message(
    context: RunContext,
    response: ModelResponse,
    calls: list[Call],
    step: int,
    seq: int,
    at: datetime,
    *,
    is_sent_back: bool = False,
) -> Message:
    """Return the answer as a message of the current conversation, at the position `seq`."""
    frame = context.frame
    kind = "msg" if response.finish_reason not in CUTS else _CUT.rstrip("_")
    return Message(
        id=context.new_id(SENT_BACK.rstrip("_") if is_sent_back else kind),
        role="assistant",
        content=response.text,
        seq=seq,
        run_id=context.run.id,
        step=step,
        side=context.side if frame.call is None else None,
        within=None if frame.call is None else frame.call.id,
        by=context.by,
        calls=message_calls(calls),
        native=response.native,
        sent=sent_with(frame, response),
        state=frame.state,
        decided=frame.decided if context.active.is_dynamic else None,
        reasoning=_kept_reasoning(response, context.active) if response.reasoning else None,
        reasoning_shared=bool(response.reasoning) and context.active.agent.reasoning == "everyone",
        created_at=at,
    )


def _kept_reasoning(response: ModelResponse, active: ActiveAgent) -> str | None:
    return None if active.agent.reasoning == "nobody" else response.reasoning[:MAX_REASONING]


def sent_with(frame: Frame, response: ModelResponse) -> Sent | None:
    """Return the record of the answered request, with the token count of the provider."""
    counted = response.usage.input_tokens or None
    return frame.sent if frame.sent is None or counted is None else changed(frame.sent, counted=counted)


def is_asked_again(messages: Sequence[Message], run_id: str, response: ModelResponse) -> bool:
    """Return whether the model is asked again after an answer that is not whole; `messages` precede the answer.

    An empty answer is asked for again once. Calls that the output limit has cut are reported to the model, as results.
    """
    before = 0
    for message in reversed(messages):
        is_answer = message.role == "assistant"
        is_same = message.id.startswith(_CUT) and bool(message.calls) == bool(response.calls)
        if message.run_id != run_id or (is_answer and not is_same):
            break
        before += is_answer
    if response.cut == "empty":
        return before == 0
    return response.cut == "max_tokens" and bool(response.calls) and before < MAX_CUT


def has_called(messages: Sequence[Message], run_id: str, by: str | None) -> bool:
    """Return whether the prompt `by` has made a call in the run. Calls that were cut do not count."""
    for message in reversed(messages):
        if message.run_id != run_id:
            return False
        if message.calls and message.by == by and not message.id.startswith(_CUT):
            return True
    return False


def as_cut(response: ModelResponse, cut: CutReason) -> ModelResponse:
    """Return an answer that is not whole, with its reason and as many calls as one unit can settle."""
    return changed(response, finish_reason=cut, calls=response.calls[:CALLS_PER_UNIT])


def correction_message(context: RunContext, text: str, step: int, seq: int) -> Message:
    """Return a user message at the position `seq`, after an answer, that says what is wrong with the answer."""
    return Message(
        id=context.new_id(CORRECTION.rstrip("_")),
        role="user",
        content=text,
        seq=seq,
        run_id=context.run.id,
        step=step,
        within=context.frame.id,
        created_at=context.clock.now(),
    )


def ask_again(context: RunContext, changes: Changes) -> None:
    """Add a user message to a retried run whose last answer was rejected: a model continues from a user message."""
    messages, active = context.root.messages, context.root.active
    if active is None or active.form is None or not messages or messages[-1].role != "assistant":
        return
    message = Message(
        id=context.new_id("again"),
        role="user",
        content="Your last answer was not accepted. Answer again, in the required form.",
        seq=context.next_seq(changes),
        run_id=context.run.id,
        step=context.run.step_count + 1,
        created_at=context.clock.now(),
    )
    context.add_message(changes, message)


def corrections(messages: Sequence[Message], run_id: str) -> int:
    """Return the number of the run's last answers in a row that were rejected."""
    count, sent_back = 0, False
    for message in reversed(messages):
        if (
            message.run_id != run_id
            or message.role == "tool"
            or (message.role == "assistant" and not sent_back)
        ):
            break
        if message.role == "assistant":
            sent_back = False
        elif message.id.startswith(CORRECTION):
            count, sent_back = count + 1, True
    return count


def requested_call(
    context: RunContext,
    queued: QueuedCall,
    position: int,
    parent: Call | None = None,
    tools: Mapping[str, Tool] | None = None,
) -> Call:
    """Return a call that no model has requested, but a handler or the definition of a prompt.

    `parent` is the call of a handler that makes it, by default the call that the current conversation answers.
    """
    parent = context.frame.call if parent is None else parent
    call_id = context.new_id("call") if parent is None else f"{parent.id}.{position}"
    step = context.run.step_count if parent is None else parent.step
    parent_id = None if parent is None else parent.id
    ids, place, at = (call_id, call_id), (step, position), context.clock.now()
    return new_call(
        context, context.active, queued, at, ids=ids, place=place, parent_id=parent_id, tools=tools
    )


def queued_message(context: RunContext, calls: list[Call], seq: int) -> Message:
    """Return calls that no model has requested as a message of the active agent; `by` is None."""
    return Message(
        id=context.new_id("msg"),
        role="assistant",
        content="",
        seq=seq,
        run_id=context.run.id,
        step=calls[0].step,
        side=context.side if context.frame.call is None else None,
        within=context.frame.id,
        calls=message_calls(calls),
        created_at=context.clock.now(),
    )


def outside_calls(context: RunContext, events: Sequence[InboxEvent], step: int) -> list[Call]:
    """Return the external calls of that step."""
    active, first, at = context.root.active, len(context.root.calls), context.clock.now()
    calls: list[Call] = []
    for position, event in enumerate(events, first):
        call_id, name, arguments = (str(event.content[field]) for field in ("callId", "name", "arguments"))
        queued = QueuedCall(
            name=name,
            arguments=arguments,
        )
        ids, place = (call_id, call_id), (step, position)
        calls.append(new_call(context, active, queued, at, ids=ids, place=place))
    return calls


def message_calls(calls: Sequence[Call]) -> tuple[MessageCall, ...]:
    """Return calls in the form of the message that requests them."""
    return tuple(
        [
            MessageCall(id=c.id, name=c.name, arguments=c.arguments, model_call_id=c.model_call_id)
            for c in calls
        ]
    )


def step_row(context: RunContext, response: ModelResponse, number: int, at: datetime) -> Step:
    """Return the step's row."""
    return Step(
        run_id=context.run.id,
        number=number,
        model=response.model,
        usage=response.usage,
        cost=response.cost,
        finish_reason=response.finish_reason,
        created_at=at,
    )


def total_cost(before: float | None, cost: float | None) -> float | None:
    """Return the sum, or None until a price is known."""
    return before if cost is None else (before or 0.0) + cost


def paying(run: Run, response: ModelResponse) -> Run:
    """Return the run with the cost of an answer, and without the outage that the answer has ended."""
    cost = run.cost if response.cost is None else total_cost(run.cost, response.cost)
    return changed(run, usage=run.usage + response.usage, cost=cost, error=None, waiting=None)
