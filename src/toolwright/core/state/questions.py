"""Questions of a handler: to a person (elicitation) and to the agent's model (sampling)."""

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

from pydantic import BaseModel

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest, ModelError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import plain
from toolwright.core.results.result import ToolResult
from toolwright.core.state import checks as given
from toolwright.core.threads.call import Call
from toolwright.core.value import value

Action: TypeAlias = Literal["accept", "decline", "cancel"]

ELICIT = "elicit"
"""Name of the calls that represent questions."""

ELICIT_TIMEOUT = 3600.0
"""Seconds within which a question must be answered."""


@value
class Elicited:
    """The answer to a question. `content` is the input of an accepted form, otherwise None.

    `cancel` is also the answer to a question that was not answered in time; `reason` says why.
    """

    action: Action
    content: JSONObject | None = None
    reason: str | None = None


def question(
    message: object, schema: object = None, url: object = None, source: str | None = None
) -> JSONObject:
    """Return the arguments of the call that represents a question. Raises `InvalidRequest` for an invalid question."""
    arguments: JSONObject = {"message": given.message(message)}
    if schema is not None and url is not None:
        raise InvalidRequest("A question must have either a schema or a URL, not both.")
    if url is not None:
        arguments["url"] = given.text("The URL of a question", url)
    else:
        arguments["requestedSchema"] = form_of(schema)
    if source is not None:
        arguments["source"] = given.text("The source of a question", source)
    return arguments


def form_of(schema: object) -> JSONObject:
    """Return the JSON Schema of the requested input: an object of plain fields. Raises `InvalidRequest`."""
    if schema is None:
        return {"type": "object", "properties": {}}
    model = model_of(schema)
    if model is not None:
        schema = model.model_json_schema()
    copy = plain(schema)
    if not isinstance(copy, dict) or copy.get("type") != "object":
        raise InvalidRequest(
            f"The schema of a question must be an object schema or a pydantic model, not {brief_value(schema)}."
        )
    return copy


def model_of(schema: object) -> type[BaseModel] | None:
    """Return the pydantic model that a handler gave as the form of a question, or None for a JSON Schema."""
    if isinstance(schema, type) and issubclass(cast("type[object]", schema), BaseModel):
        return cast("type[BaseModel]", schema)
    return None


def question_of(call: Call) -> JSONObject | None:
    """Return the question asked by a nested call, or None if the call is not a question."""
    if call.name != ELICIT or call.kind != "space" or call.parent_id is None:
        return None
    arguments = json.loads(call.arguments)
    return arguments if "requestedSchema" in arguments or "url" in arguments else None


SAMPLE = "sample"
"""Name of the calls that the agent's model answers."""

MOST_MESSAGES = 1_000
_SPEAKERS = ("user", "assistant")


@value
class Sampled:
    """The model's answer, and its name."""

    text: str
    model: str = ""


def sampling(
    messages: object, system: object, max_tokens: object, temperature: object, source: object
) -> JSONObject:
    """Return the arguments of a sampling call. Raises `InvalidRequest` if they are invalid."""
    arguments: JSONObject = {"messages": _messages(messages)}
    if system is not None:
        arguments["system"] = given.text("The system prompt", system)
    if max_tokens is not None:
        if type(max_tokens) is not int or max_tokens < 1:
            raise InvalidRequest(f"max_tokens must be a whole number from 1, not {brief_value(max_tokens)}.")
        arguments["maxTokens"] = max_tokens
    if temperature is not None:
        if isinstance(temperature, bool) or not isinstance(temperature, int | float) or temperature < 0:
            raise InvalidRequest(f"temperature must be a number from 0, not {brief_value(temperature)}.")
        arguments["temperature"] = temperature
    if source is not None:
        arguments["source"] = given.text("The source of a question", source)
    return arguments


def _messages(messages: object) -> list[JSON]:
    if isinstance(messages, str):
        return [{"role": "user", "content": given.message(messages)}]
    if not isinstance(messages, Sequence) or not 0 < len(cast("Sequence[object]", messages)) <= MOST_MESSAGES:
        raise InvalidRequest(f"The messages must be a text, or 1 to {MOST_MESSAGES} pairs of role and text.")
    checked: list[JSON] = []
    for each in cast("Sequence[object]", messages):
        if not isinstance(each, tuple) or len(cast("tuple[object, ...]", each)) != 2:
            raise InvalidRequest(
                f"A message must be a pair of role and text, not {brief_value(cast('object', each))}."
            )
        role, content = cast("tuple[object, object]", each)
        if role not in _SPEAKERS:
            raise InvalidRequest(f"The role must be 'user' or 'assistant', not {brief_value(role)}.")
        checked.append({"role": cast("str", role), "content": given.text("A message", content)})
    return checked


def sampling_of(call: Call) -> JSONObject | None:
    """Return the request of a nested sampling call that waits for a host, or None for any other call."""
    if call.name != SAMPLE or call.kind != "space" or call.parent_id is None:
        return None
    return cast("JSONObject", json.loads(call.arguments))


def sampled(result: ToolResult) -> Sampled:
    """Return the model's answer in a call's result. Raises `ModelError` for a failed call."""
    answer = result.result
    if result.status == "error" or not isinstance(answer, dict):
        raise ModelError(result.error or "The model gave no answer.")
    return Sampled(text=str(answer.get("text", "")), model=str(answer.get("model", "")))
