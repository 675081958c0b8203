"""Rows of what belongs to families of threads: requests for values."""

from collections.abc import Sequence
from typing import Any

from toolwright.adapters.store.engine.codecs import (
    Params,
    Row,
    a_text,
    an_object,
    read,
    read_instant,
    read_instant_or_none,
    read_or_none,
    text_or_none,
)
from toolwright.adapters.store.engine.instants import micros, micros_or_none
from toolwright.core.env.request import VariablesRequest
from toolwright.core.env.variable import Variable
from toolwright.core.json_value import JSON, dumps


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
