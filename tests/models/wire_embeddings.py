"""The OpenAI embeddings wire."""

from tests.models.wire_answer import WireAnswer
from tests.models.wire_openai_chat import error
from toolwright.core.json_value import JSON, JSONObject

__all__ = ["error", "whole"]


def whole(answer: WireAnswer, model: str) -> JSONObject:
    """Return the answer. The vectors are sent in reverse, since only `index` defines their order."""
    data: list[JSON] = [
        {"object": "embedding", "index": index, "embedding": [*vector]}
        for index, vector in enumerate(answer.vectors)
    ]
    return {"object": "list", "data": data[::-1], "model": model, "usage": {"prompt_tokens": 1}}
