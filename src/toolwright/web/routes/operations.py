"""Routes for operators: health, readiness, liveness and metrics."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.responses import Response

from toolwright.core.errors import NotFound, StoreError, install
from toolwright.core.json_value import JSONObject
from toolwright.web.answers import ApiResponse, answer, failures, status_of
from toolwright.web.dependencies import Scraper, Serving, ServingDep
from toolwright.web.route import noun
from toolwright.wire.server import Health

health_router = noun("", "health")
metrics_router = noun("", "metrics")

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NONE = (
    f"No metrics are kept here: {install('telemetry')}, and set OTEL_METRICS_EXPORTER=prometheus "
    "or an OTLP endpoint. A program with a MeterProvider of its own has them there."
)


@health_router.get(
    "/health",
    responses={
        200: {"model": Health, "description": "The database and the file store are writable."},
        503: {"model": Health, "description": "The database or the file store is not writable."},
    },
)
async def health(serving: ServingDep) -> ApiResponse:
    """Check whether the journal and the file store are writable; open to everyone."""
    return await _answer(serving, serving.runtime.health.check)


@health_router.get(
    "/ready",
    responses={
        200: {"model": Health, "description": "Requests can be sent to this process."},
        503: {
            "model": Health,
            "description": "The database or the file store is unavailable, or this node executes no runs.",
        },
    },
)
async def ready(serving: ServingDep) -> ApiResponse:
    """Check whether this process can serve requests: like `/health`, and its node has a heartbeat; open to everyone."""
    return await _answer(serving, serving.runtime.health.check_ready)


@health_router.get("/live", responses={200: {"model": Health, "description": "This process is alive."}})
async def live(serving: ServingDep) -> ApiResponse:
    """Check whether this process responds, regardless of its database; open to everyone.

    Restart a process that does not respond. A process that lost its database recovers by itself.
    """
    return answer({"status": "ok", "version": serving.options.version})


async def _answer(serving: Serving, check: Callable[[], Awaitable[None]]) -> ApiResponse:
    body: JSONObject = {"status": "ok", "version": serving.options.version}
    try:
        await check()
    except StoreError as error:
        unavailable: JSONObject = {"status": "unavailable", "error": error.message}
        return answer(body | unavailable, status_of(type(error)), {"Retry-After": "1"})
    warning = await serving.runtime.health.warning()
    return answer(body if warning is None else body | {"warning": warning})


@metrics_router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Metrics in the Prometheus text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    }
    | failures(404),
)
async def metrics(_: Scraper, serving: ServingDep) -> Response:
    """Get metrics of calls, runs, tokens and queues in the Prometheus text format.

    The secret key can also be sent as a bearer token.
    """
    telemetry = serving.runtime.telemetry
    text = None if telemetry is None else await asyncio.to_thread(telemetry.exposition)
    if text is None:
        raise NotFound(_NONE)
    return Response(text, media_type=MEDIA_TYPE)
