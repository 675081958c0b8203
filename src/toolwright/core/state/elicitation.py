"""Questions that a handler asks a person while it works: what is asked, what is answered (MCP's elicitation)."""

import json
from typing import Literal, TypeAlias, cast

from pydantic import BaseModel

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSONObject
from toolwright.core.plain import plain
from toolwright.core.state import checks as given
from toolwright.core.threads.call import Call
from toolwright.core.value import value

Action: TypeAlias = Literal["accept", "decline", "cancel"]

ELICIT = "elicit"
"""The name of the calls that are questions."""

ELICIT_TIMEOUT = 3600.0
"""Seconds that a question waits for its answer."""


@value
class Elicited:
    """The answer to a question. `content` is the input, or None unless the action is `accept` and it was a form.

    `cancel` is also the answer to a question that was not answered in time; `reason` says why.
    """

    action: Action
    content: JSONObject | None = None
    reason: str | None = None


def question(
    message: object, schema: object = None, url: object = None, source: str | None = None
) -> JSONObject:
    """The arguments of the call that is a question. Raises `InvalidRequest` for an invalid one."""
    asked: JSONObject = {"message": given.message(message)}
    if schema is not None and url is not None:
        raise InvalidRequest("A question has a schema or a URL, not both.")
    if url is not None:
        asked["url"] = given.text("The URL of a question", url)
    else:
        asked["requestedSchema"] = form_of(schema)
    if source is not None:
        asked["source"] = given.text("The source of a question", source)
    return asked


def form_of(schema: object) -> JSONObject:
    """The JSON Schema of what is to be entered: an object of plain fields. Raises `InvalidRequest`."""
    if schema is None:
        return {"type": "object", "properties": {}}
    if isinstance(schema, type) and issubclass(cast("type[object]", schema), BaseModel):
        schema = cast("type[BaseModel]", schema).model_json_schema()
    copy = plain(schema)
    if not isinstance(copy, dict) or copy.get("type") != "object":
        raise InvalidRequest(
            f"The schema of a question is that of an object, or a model, not {brief_value(schema)}."
        )
    return copy


def question_of(call: Call) -> JSONObject | None:
    """What is asked by a call within another one, None for a call that is no question."""
    if call.name != ELICIT or call.kind != "space" or call.parent_id is None:
        return None
    asked = json.loads(call.arguments)
    return asked if "requestedSchema" in asked or "url" in asked else None
