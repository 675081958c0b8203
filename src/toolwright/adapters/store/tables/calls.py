"""The table of calls, and which of them are on offer to outside workers."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text, false, text

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    long_text_or_none,
    micros,
    micros_or_none,
    read,
    read_instant,
    read_instant_or_none,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.json_value import dumps, dumps_unescaped
from toolwright.core.threads.call import Call, CallStatus, Route
from toolwright.core.tools.tool import Kind

ON_OFFER = "kind = 'external' AND completed_at IS NULL"
"""Among which calls those are that outside workers may claim: a query that is to use the indexes says it so."""

_BELOW = text("parent_id IS NOT NULL")
_OFFERED, _LEASED = text(ON_OFFER), text(f"{ON_OFFER} AND leased_until IS NOT NULL")

calls = Table(
    "calls",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False, info=one_of(Kind)),
    Column("arguments", Text, nullable=False),
    Column("model_call_id", Text, nullable=False),
    Column("status", Text, nullable=False, info=one_of(CallStatus)),
    Column("route", Text, info=one_of(Route)),
    Column("result", Text),
    Column("attempts", Integer, nullable=False),
    Column("deadline", BigInteger),
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("visible", Boolean, nullable=False, server_default=false()),
    Column("space_id", Text),
    Column("repeatable", Boolean, nullable=False, server_default=false()),
    Column("worker", Text),
    Column("leased_until", BigInteger),
    Column("agent", Text),
    Column("parent_id", Text),
    Index("calls_by_parent", "parent_id", sqlite_where=_BELOW, postgresql_where=_BELOW),
    Index("calls_by_run", "run_id", "step", "position"),
    Index("calls_by_status", "status", "created_at"),
    Index("calls_by_space", "space_id", "created_at"),
    Index("calls_on_offer", "started_at", "id", sqlite_where=_OFFERED, postgresql_where=_OFFERED),
    Index("calls_leased", "leased_until", sqlite_where=_LEASED, postgresql_where=_LEASED),
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
        "arguments": dumps_unescaped(call.arguments),
        "model_call_id": dumps(call.model_call_id),
        "status": call.status,
        "route": call.route,
        "result": long_text_or_none(call.result),
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
        name=read(row, 5, a_text),
        kind=row[6],
        arguments=read(row, 7, a_text),
        model_call_id=read(row, 8, a_text),
        status=row[9],
        route=row[10],
        result=read_or_none(row, 11, an_object),
        attempts=row[12],
        deadline=read_instant_or_none(row, 13),
        expires_at=read_instant_or_none(row, 14),
        created_at=read_instant(row, 15),
        started_at=read_instant_or_none(row, 16),
        completed_at=read_instant_or_none(row, 17),
        visible=bool(row[18]),
        space_id=row[19],
        repeatable=bool(row[20]),
        worker=read_or_none(row, 21, a_text),
        leased_until=read_instant_or_none(row, 22),
        agent=row[23],
        parent_id=row[24],
    )
