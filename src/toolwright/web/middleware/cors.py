"""Pages of other origins: allowed by name only."""

from fastapi.middleware.cors import CORSMiddleware
from starlette.datastructures import Headers
from starlette.responses import Response

from toolwright.core.errors import Forbidden
from toolwright.web.answers.answer import answer

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
HEADERS = ("x-secret-key", "x-public-key", "authorization", "content-type", "last-event-id")
MCP_HEADERS = ("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name")
"""Headers of MCP hosts that are pages; the first is in answers too."""


class Cors(CORSMiddleware):
    """CORS whose refusals are JSON like every other error; a subclass, for there is no seam to wrap."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        kept = {name: value for name, value in response.headers.items() if not name.startswith("content-")}
        return answer(
            {"error": bytes(response.body).decode(), "code": Forbidden.code}, response.status_code, kept
        )
