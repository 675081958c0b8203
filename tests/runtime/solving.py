"""Composed requests for tests: answers of a model, and a request that such answers solve."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import toolwright as tw
from tests.kit import Watched
from tests.printed import GREET, SUMMARY
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse
from toolwright.testing import runtime

TOOL: JSONObject = {"type": "tool", "tool": {"greetUser": GREET}}
TEXT: JSONObject = {"type": "text", "text": "some prompt here"}
DONE: JSONObject = {"summary": "Done."}


def said(output: JSON, *calls: JSON) -> dict[str, str]:
    """Return a turn with that output and these calls."""
    return {"text": json.dumps({"output": output, "calls": [*calls]})}


def greet(name: object, **more: JSON) -> JSON:
    """Return a call of greetUser."""
    return {"_tool": "greetUser", "userName": name, **more}  # type: ignore[dict-item]  # any JSON


class Raw:
    """A model that answers with these texts unchanged, repeats the last one, and records its requests."""

    name = "test:raw"

    def __init__(self, *answers: str | ModelResponse) -> None:
        self._answers = answers
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        yield ModelResponse(text=answer) if isinstance(answer, str) else answer


def greeting() -> tw.Registry:
    """Return a registry with a handler that greets; the tool itself is in the request."""
    registry = tw.Registry()
    registry.handler("greetUser", hello)
    return registry


def hello(userName: str) -> str:  # noqa: N803 - as S1 spells it
    return f"Hello {userName}"


async def solved(
    turns: Sequence[object],
    context: Sequence[object] | str = (TOOL, TEXT),
    schema: object = SUMMARY,
    config: Mapping[str, Any] | None = None,
    app: tw.App | None = None,
) -> tuple[tw.Solution, Watched]:
    """Return the solution by these turns, and the model that produced them."""
    model = Watched(turns)
    async with runtime(app or tw.App(registry=greeting())) as rt:
        return await rt.request({"model": model, **(config or {})}, schema, context), model
