"""Tables of what belongs to families of threads: values of their own, requests and what these ask for."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table, Text

from toolwright.adapters.store.engine.codecs import a_text, an_object
from toolwright.adapters.store.engine.columns import Instant, Json, metadata, one_of
from toolwright.adapters.store.engine.mapping import Mapping
from toolwright.core.env.env import RequestKind, Variable, VariablesRequest
from toolwright.core.json_value import dumps


def _variables(parsed: Sequence[Any]) -> tuple[Variable, ...]:  # as written by _variables_text
    return tuple([Variable(*each) for each in parsed])


def _variables_text(variables: Sequence[Variable]) -> str:
    return dumps([[v.name, v.type, v.required, v.scoped, v.description] for v in variables])


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
    Column("agent", Json(a_text), nullable=False),
    Column("required", Json(_variables, _variables_text), nullable=False),
    Column("child", Json(an_object)),
    Column("expires_at", Instant()),
    Column("created_at", Instant(), nullable=False),
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


REQUESTS = Mapping(requests, VariablesRequest)
