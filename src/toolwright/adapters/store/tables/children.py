"""Tables of what belongs to families of threads: values of their own, requests and what these ask for."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    micros,
    micros_or_none,
    read,
    read_instant,
    read_instant_or_none,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.env.variable import RequestKind, Variable, VariablesRequest
from toolwright.core.json_value import JSON, dumps

thread_values = Table(
    "thread_values",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("thread_id", "key"),
)

requests = Table(
    "requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("kind", Text, nullable=False, info=one_of(RequestKind)),
    Column("agent", Text, nullable=False),
    Column("required", Text, nullable=False),
    Column("child", Text),
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Index("requests_by_thread", "thread_id"),
)

asked = Table(
    "asked",
    metadata,
    Column("name", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    PrimaryKeyConstraint("name", "request_id"),
    Index("asked_by_request", "request_id"),
)


def request_params(request: VariablesRequest) -> Params:
    return {
        "id": request.id,
        "thread_id": request.thread_id,
        "kind": request.kind,
        "agent": dumps(request.agent),
        "required": dumps([_variable_body(each) for each in request.required]),
        "child": text_or_none(request.child),
        "expires_at": micros_or_none(request.expires_at),
        "created_at": micros(request.created_at),
    }


def request(row: Row) -> VariablesRequest:
    return VariablesRequest(
        id=row[0],
        thread_id=row[1],
        kind=row[2],
        agent=read(row, 3, a_text),
        required=read(row, 4, _variables),
        child=read_or_none(row, 5, an_object),
        expires_at=read_instant_or_none(row, 6),
        created_at=read_instant(row, 7),
    )


def _variable_body(each: Variable) -> JSON:
    return [each.name, each.type, each.required, each.scoped, each.description]


def _variables(written: Sequence[Any]) -> tuple[Variable, ...]:  # as written by _variable_body
    return tuple([Variable(*each) for each in written])
