"""Checks answers against the OpenAPI document, which is the same for every gateway (see `test_requests`)."""

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx2
import jsonschema_rs

from toolwright.adapters.system import SystemClock
from toolwright.web.gateway import open_gateway
from toolwright.web.options import GatewayOptions


@dataclass(frozen=True, eq=False)
class Document:
    """The parsed OpenAPI document. Validators are cached, since creating one takes longer than using it."""

    whole: dict[str, Any]  # JSON
    _validators: dict[tuple[str, str, str], jsonschema_rs.Validator] = field(
        default_factory=dict[tuple[str, str, str], jsonschema_rs.Validator]
    )

    async def check(self, response: httpx2.Response) -> None:
        """Check a JSON answer against the document. A response hook of httpx2."""
        await response.aread()
        method = response.request.method.lower()
        for path, item in self.whole["paths"].items():
            if method in item and _pattern(path).fullmatch(response.request.url.path):
                answers = item[method]["responses"]
                status = str(response.status_code)
                known = status if status in answers else "default"
                if "content" in answers[known]:
                    self._validator(path, method, known).validate(response.json())
                else:
                    assert response.content == b"", "the document says that nothing is answered"

    def _validator(self, path: str, method: str, status: str) -> jsonschema_rs.Validator:
        key = (path, method, status)
        if key not in self._validators:
            schema = self.whole["paths"][path][method]["responses"][status]["content"]["application/json"][
                "schema"
            ]
            whole = {**schema, "components": self.whole["components"]}
            self._validators[key] = jsonschema_rs.validator_for(whole, offline=True)
        return self._validators[key]


@cache
def document() -> Document:
    """Return the document of a gateway without any keys."""
    options = GatewayOptions(clock=SystemClock())
    return Document(open_gateway(lambda: nullcontext(), options).openapi())  # type: ignore[arg-type, return-value]  # not opened


@cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
