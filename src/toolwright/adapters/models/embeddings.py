"""Embeddings from OpenAI and servers compatible with its `/embeddings`, over plain HTTP."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import httpx2

from toolwright.adapters.models.resolve import check_key, check_provider
from toolwright.adapters.system import check_certificates
from toolwright.core.errors import ModelError, ModelRefused, ModelUnavailable
from toolwright.core.text import brief

TIMEOUT = 60.0  # seconds; callers have shorter timeouts
_PASSING = frozenset({408, 409, 425, 429})
_MAX_MESSAGE = 500  # characters of a provider's message


class OpenAIEmbedder:
    """Gets vectors of a model from `base_url`, e.g. `https://api.openai.com/v1`. `aclose` closes its connections.

    Raises `DefinitionError` if the trusted certificates cannot be read, and `ModelRefused` if no header takes the key.
    """

    def __init__(self, model: str, *, key: str, base_url: str) -> None:
        check_certificates()
        check_key(f"The embedder 'openai:{model}'", key)
        self._model = model
        self.name = f"openai:{model}"
        self._client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT)
        self._url = f"{base_url.rstrip('/')}/embeddings"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of the texts. Raises `ModelUnavailable` or `ModelRefused`."""
        check_provider(self.name)
        body = {"model": self._model, "input": [*texts], "encoding_format": "float"}
        try:
            answer = await self._client.post(self._url, json=body)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ModelUnavailable(f"{self.name} is unavailable: {reason}") from error
        if answer.status_code != HTTPStatus.OK:
            raise self._refusal(answer)
        try:
            return _vectors(answer.json(), len(texts))
        except (ValueError, TypeError, LookupError) as error:
            raise ModelUnavailable(f"{self.name} did not return vectors.") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _refusal(self, answer: httpx2.Response) -> ModelError:
        status = answer.status_code
        answer_line = f"{self.name} ({status}): {brief(answer.text.strip(), _MAX_MESSAGE)}"
        if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _PASSING:
            return ModelRefused(f"The request was refused by {answer_line}")
        return ModelUnavailable(f"No answer from {answer_line}")


# Any: a provider's JSON; unexpected values raise
def _vectors(parsed: Any, count: int) -> list[list[float]]:
    vectors = {each["index"]: [float(number) for number in each["embedding"]] for each in parsed["data"]}
    return [vectors[n] for n in range(count)]
