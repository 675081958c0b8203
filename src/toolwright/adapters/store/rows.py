"""Values to rows and back: the one place that knows how a value lies in its table.

A row is a sequence in the order of the table's columns.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from toolwright.adapters.store.instants import instant, instant_or_none, micros, micros_or_none
from toolwright.core.call import Call
from toolwright.core.child import link_from_json, link_json
from toolwright.core.content import AttachmentRef
from toolwright.core.event import Event
from toolwright.core.inbox import InboxEvent
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.message import Message, MessageCall
from toolwright.core.run import QueuedCall, Run, Step, Usage
from toolwright.core.thread import Thread
from toolwright.core.units import Wake

Row: TypeAlias = Sequence[Any]  # a driver's row: its types are those of the table's columns
Params: TypeAlias = dict[str, "str | int | float | bool | None"]

_NO_USAGE = Usage()
_NO_USAGE_TEXT = "[0,0,0,0]"


def text_or_none(value: JSON) -> str | None:
    return None if value is None else dumps(value)


def _object_or_none(text: str | None) -> JSONObject | None:
    return None if text is None else json.loads(text)


def usage_text(usage: Usage) -> str:
    if usage == _NO_USAGE:
        return _NO_USAGE_TEXT
    counts: list[JSON] = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    ]
    return dumps(counts)


def _usage(text: str) -> Usage:
    if text == _NO_USAGE_TEXT:
        return _NO_USAGE
    read, written, cache_read, cache_write = json.loads(text)
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )


def thread_params(thread: Thread) -> Params:
    return {
        "id": thread.id,
        "agent": thread.agent,
        "user_id": thread.user_id,
        "parent_id": thread.parent_id,
        "name": text_or_none(thread.name),
        "tags": dumps(list(thread.tags)),
        "arguments": text_or_none(thread.arguments),
        "run_id": thread.run_id,
        "epoch": thread.epoch,
        "seq": thread.seq,
        "ev": thread.ev,
        "posted": thread.posted,
        "created_at": micros(thread.created_at),
        "begun": thread.begun,
        "next_run_id": thread.next_run_id,
        "space_id": thread.space_id,
        "active_agent": thread.active_agent,
        "activated": dumps(list(thread.activated)) if thread.activated else None,
        "link": None if thread.link is None else dumps(link_json(thread.link)),
        "report": thread.report,
        "state": thread.state,
    }


def thread(row: Row) -> Thread:
    return Thread(
        id=row[0],
        agent=row[1],
        user_id=row[2],
        parent_id=row[3],
        name=None if row[4] is None else json.loads(row[4]),
        tags=tuple(json.loads(row[5])),
        arguments=_object_or_none(row[6]),
        run_id=row[7],
        epoch=row[8],
        seq=row[9],
        ev=row[10],
        posted=row[11],
        created_at=instant(row[12]),
        begun=bool(row[13]),
        next_run_id=row[14],
        space_id=row[15],
        active_agent=row[16],
        activated=() if row[17] is None else tuple(json.loads(row[17])),
        link=None if row[18] is None else link_from_json(json.loads(row[18])),
        report=row[19],
        state=row[20],
    )


def run_params(run: Run) -> Params:
    return {
        "id": run.id,
        "thread_id": run.thread_id,
        "agent": run.agent,
        "status": run.status,
        "stop_reason": run.stop_reason,
        "error": text_or_none(run.error),
        "step_count": run.step_count,
        "turn": run.turn,
        "side": run.side,
        "chain_depth": run.chain_depth,
        "lives": run.lives,
        "held": run.held,
        "usage": usage_text(run.usage),
        "cost": run.cost,
        "output": dumps(run.output),
        "waiting": text_or_none(run.waiting),
        "cancel_requested_at": micros_or_none(run.cancel_requested_at),
        "created_at": micros(run.created_at),
        "started_at": micros_or_none(run.started_at),
        "completed_at": micros_or_none(run.completed_at),
        "revision": run.revision,
        "queued": dumps([[q.name, q.arguments, q.within] for q in run.queued]) if run.queued else None,
    }


def run(row: Row) -> Run:
    return Run(
        id=row[0],
        thread_id=row[1],
        agent=row[2],
        status=row[3],
        stop_reason=row[4],
        error=None if row[5] is None else json.loads(row[5]),
        step_count=row[6],
        turn=row[7],
        side=row[8],
        chain_depth=row[9],
        lives=row[10],
        held=bool(row[11]),
        usage=_usage(row[12]),
        cost=row[13],
        output=json.loads(row[14]),
        waiting=_object_or_none(row[15]),
        cancel_requested_at=instant_or_none(row[16]),
        created_at=instant(row[17]),
        started_at=instant_or_none(row[18]),
        completed_at=instant_or_none(row[19]),
        revision=row[20],
        queued=()
        if row[21] is None
        else tuple([QueuedCall(name=n, arguments=a, within=w) for n, a, w in json.loads(row[21])]),
    )


def step_params(step: Step) -> Params:
    return {
        "run_id": step.run_id,
        "number": step.number,
        "model": step.model,
        "usage": usage_text(step.usage),
        "cost": step.cost,
        "finish_reason": step.finish_reason,
        "created_at": micros(step.created_at),
    }


def step(row: Row) -> Step:
    return Step(
        run_id=row[0],
        number=row[1],
        model=row[2],
        usage=_usage(row[3]),
        cost=row[4],
        finish_reason=row[5],
        created_at=instant(row[6]),
    )


def message_params(message: Message, thread_id: str, seq: int) -> Params:
    return {
        "thread_id": thread_id,
        "seq": seq,
        "id": message.id,
        "run_id": message.run_id,
        "step": message.step,
        "role": message.role,
        "kept": message.kept,
        "body": dumps(_message_body(message)),
        "created_at": micros(message.created_at),
        "within": message.within,
    }


def _message_body(message: Message) -> JSONObject:
    body: JSONObject = {"content": message.content}
    if message.calls:
        body["calls"] = [[c.id, c.name, c.arguments, c.model_call_id] for c in message.calls]
    answered: list[JSON] = [message.call_id, message.model_call_id, message.tool_name, message.status]
    if any(part is not None for part in answered):
        body["call"] = answered
    if message.side is not None:
        body["side"] = message.side
    if message.by is not None:
        body["by"] = message.by
    if message.stack is not None:
        body["stack"] = message.stack
    if message.attachments:
        body["attachments"] = [_attachment_body(ref) for ref in message.attachments]
    if message.native is not None:
        body["native"] = message.native
    return body


def _attachment_body(ref: AttachmentRef) -> JSON:
    described: list[JSON] = [ref.width, ref.height, ref.description, ref.digest]
    return [ref.id, ref.path, ref.name, ref.mime_type, ref.size, *described]


def _attachment(body: Sequence[Any]) -> AttachmentRef:  # as written by _attachment_body
    return AttachmentRef(
        id=body[0],
        path=body[1],
        name=body[2],
        mime_type=body[3],
        size=body[4],
        width=body[5],
        height=body[6],
        description=body[7],
        digest=body[8],
    )


def message(row: Row) -> Message:
    body: dict[str, Any] = json.loads(row[7])  # as written by _message_body
    call_id, model_call_id, tool_name, status = body.get("call") or (None, None, None, None)
    return Message(
        id=row[2],
        role=row[5],
        content=body["content"],
        seq=row[1],
        run_id=row[3],
        step=row[4],
        calls=tuple(
            MessageCall(id=c[0], name=c[1], arguments=c[2], model_call_id=c[3]) for c in body.get("calls", ())
        ),
        side=body.get("side"),
        by=body.get("by"),
        within=row[9],
        call_id=call_id,
        model_call_id=model_call_id,
        tool_name=tool_name,
        status=status,
        stack=body.get("stack"),
        attachments=tuple(_attachment(ref) for ref in body.get("attachments", ())),
        native=cast("JSON", body.get("native")),
        kept=bool(row[6]),
        created_at=instant(row[8]),
    )


def call_params(call: Call) -> Params:
    return {
        "id": call.id,
        "thread_id": call.thread_id,
        "run_id": call.run_id,
        "step": call.step,
        "position": call.position,
        "name": dumps(call.name),
        "kind": call.kind,
        "arguments": dumps(call.arguments),
        "model_call_id": dumps(call.model_call_id),
        "status": call.status,
        "route": call.route,
        "result": text_or_none(call.result),
        "attempts": call.attempts,
        "deadline": micros_or_none(call.deadline),
        "expires_at": micros_or_none(call.expires_at),
        "created_at": micros(call.created_at),
        "started_at": micros_or_none(call.started_at),
        "completed_at": micros_or_none(call.completed_at),
        "visible": call.visible,
        "space_id": call.space_id,
        "repeatable": call.repeatable,
        "worker": text_or_none(call.worker),
        "leased_until": micros_or_none(call.leased_until),
        "agent": call.agent,
        "parent_id": call.parent_id,
    }


def call(row: Row) -> Call:
    return Call(
        id=row[0],
        thread_id=row[1],
        run_id=row[2],
        step=row[3],
        position=row[4],
        name=json.loads(row[5]),
        kind=row[6],
        arguments=json.loads(row[7]),
        model_call_id=json.loads(row[8]),
        status=row[9],
        route=row[10],
        result=_object_or_none(row[11]),
        attempts=row[12],
        deadline=instant_or_none(row[13]),
        expires_at=instant_or_none(row[14]),
        created_at=instant(row[15]),
        started_at=instant_or_none(row[16]),
        completed_at=instant_or_none(row[17]),
        visible=bool(row[18]),
        space_id=row[19],
        repeatable=bool(row[20]),
        worker=None if row[21] is None else json.loads(row[21]),
        leased_until=instant_or_none(row[22]),
        agent=row[23],
        parent_id=row[24],
    )


def inbox_params(event: InboxEvent, n: int) -> Params:
    return {
        "thread_id": event.thread_id,
        "event_id": event.event_id,
        "n": n,
        "type": event.type,
        "status": event.status,
        "run_id": event.run_id,
        "attempts": event.attempts,
        "content": dumps(event.content),
        "created_at": micros(event.created_at),
        "author": event.author,
        "promised": event.promised,
        "depth": event.depth,
    }


def inbox_event(row: Row) -> InboxEvent:
    return InboxEvent(
        thread_id=row[0],
        event_id=row[1],
        n=row[2],
        type=row[3],
        status=row[4],
        run_id=row[5],
        attempts=row[6],
        content=json.loads(row[7]),
        created_at=instant(row[8]),
        author=row[9],
        promised=row[10],
        depth=row[11],
    )


def event_params(event: Event) -> Params:
    return {
        "thread_id": event.thread_id,
        "n": event.n,
        "run_id": event.run_id,
        "agent": event.agent,
        "type": event.type,
        "payload": dumps(event.payload),
        "at": micros(event.at),
    }


def event(row: Row) -> Event:
    return Event(
        thread_id=row[0],
        n=row[1],
        run_id=row[2],
        agent=row[3],
        type=row[4],
        payload=json.loads(row[5]),
        at=instant(row[6]),
    )


def wake(row: Row) -> Wake:
    return Wake(thread_id=row[0], due=instant(row[1]), gen=row[2])
