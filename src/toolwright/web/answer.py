"""JSON answers: compact, ASCII, and never broken by half a character."""

from typing import Any

from fastapi import Response

from toolwright.core.json_value import JSON, JSONObject, dumps


class Answer(Response):
    """A JSON answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:  # as Starlette spells it: JSON by the callers of `answer`
        return dumps(content).encode("ascii")


def answer(shown: JSONObject, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """`shown` as an answer."""
    return Answer(shown, status, headers)


def listed(plural: str, items: list[JSONObject]) -> Answer:
    """A list as `{<plural>: […]}`."""
    shown: list[JSON] = [*items]
    return answer({plural: shown})
