"""The promises of our OpenAPI document, tested with thousands of requests of all kinds: no violation is found."""

# schemathesis leaves the type of its cases open:
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false, reportArgumentType=false

import asyncio
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.rig import serving
from toolwright.adapters.system import SystemClock
from toolwright.testing import ScriptedModel
from toolwright.web.gateway import open_gateway
from toolwright.web.options import GatewayOptions

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# Of the module, on one line: `make test` then does not import it, since its tests are made at the import.
pytestmark = pytest.mark.slow
EXAMPLES = 12  # per operation and phase


class Served:
    """A gateway that runs in a separate thread."""

    def __init__(self) -> None:
        self.url = ""
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> "Served":
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        async with serving(ScriptedModel([{"text": "Hi."}])) as api:
            self.url = str(api.client.base_url)
            self._ready.set()
            await self._end.wait()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as at_work:
        yield at_work


def _document() -> dict[str, Any]:  # the OpenAPI document
    """Return our document without streams, which never end, and without keys, which loopback does not need."""
    options = GatewayOptions(clock=SystemClock())
    document = open_gateway(lambda: nullcontext(), options).openapi()  # type: ignore[arg-type, return-value]  # not opened
    document["components"].pop("securitySchemes")
    for path in [path for path in document["paths"] if path.endswith(("/stream", "/sse"))]:
        del document["paths"][path]
    for item in document["paths"].values():
        for operation in item.values():
            operation.pop("security", None)
    return document


schema = schemathesis.openapi.from_dict(_document())


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_does_as_documented(case: schemathesis.Case, served: Served) -> None:
    case.call_and_validate(base_url=served.url, checks=CHECKS)
