"""The figures of this process, for Prometheus."""

import asyncio

from starlette.responses import Response

from toolwright.core.errors import NotFound
from toolwright.web.answers.shapes import failures
from toolwright.web.dependencies import Service
from toolwright.web.routes.router import noun
from toolwright.web.serving import Here

router = noun("", "metrics")

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NONE = (
    "No figures are kept here: install toolwright[telemetry], and set OTEL_METRICS_EXPORTER=prometheus "
    "or an OTLP endpoint. A program with a MeterProvider of its own has them there."
)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Figures in Prometheus' text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    }
    | failures(404),
)
async def metrics(_: Service, serving: Here) -> Response:
    """Calls, runs, tokens and what waits, in Prometheus' text format."""
    telemetry = serving.runtime.telemetry
    text = None if telemetry is None else await asyncio.to_thread(telemetry.exposition)
    if text is None:
        raise NotFound(_NONE)
    return Response(text, media_type=MEDIA_TYPE)
