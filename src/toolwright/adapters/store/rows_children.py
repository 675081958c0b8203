"""Rows of what belongs to families of threads: requests for values."""

import json

from toolwright.adapters.store.instants import instant, instant_or_none, micros, micros_or_none
from toolwright.adapters.store.rows import Params, Row, text_or_none
from toolwright.core.json_value import JSON, dumps
from toolwright.core.request import VariablesRequest
from toolwright.core.variable import Variable


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
        agent=json.loads(row[3]),
        required=tuple([Variable(*each) for each in json.loads(row[4])]),
        child=None if row[5] is None else json.loads(row[5]),
        expires_at=instant_or_none(row[6]),
        created_at=instant(row[7]),
    )


def _variable_body(each: Variable) -> JSON:
    return [each.name, each.type, each.required, each.scoped, each.description]
