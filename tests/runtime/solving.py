"""Composed requests for tests: what a model answers, and a request that is solved by such answers."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import toolwright as tw
from tests.printed import GREET, SUMMARY
from tests.watched import Watched
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse
from toolwright.testing import runtime

TOOL: JSONObject = {"type": "tool", "tool": {"greetUser": GREET}}
TEXT: JSONObject = {"type": "text", "text": "some prompt here"}
DONE: JSONObject = {"summary": "Done."}


def said(output: JSON, *calls: JSON) -> dict[str, str]:
    """A turn with that output and these calls."""
    return {"text": json.dumps({"output": output, "calls": [*calls]})}


def greet(name: object, **more: JSON) -> JSON:
    """A call of greetUser."""
    return {"_tool": "greetUser", "userName": name, **more}  # type: ignore[dict-item]  # any JSON


class Raw:
    """A model that answers with these texts as they are, the last for ever, and keeps what it is asked."""

    name = "test:raw"

    def __init__(self, *answers: str | ModelResponse) -> None:
        self._answers = answers
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        yield ModelResponse(text=answer) if isinstance(answer, str) else answer


def greeting() -> tw.Registry:
    """A registry with a handler that greets; the tool itself is in the request."""
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
    """The solution by these turns, and the model that gave them."""
    model = Watched(turns)
    async with runtime(app or tw.App(registry=greeting())) as rt:
        return await rt.request({"model": model, **(config or {})}, schema, context), model
