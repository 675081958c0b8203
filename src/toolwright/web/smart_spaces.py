"""S3's older paths: what it calls smart spaces are spaces (API §3)."""

from starlette.types import ASGIApp, Receive, Scope, Send

_OLD, _NEW = "/api/smart-spaces", "/api/spaces"


class SmartSpaces:
    """Answers `/api/smart-spaces/…` as `/api/spaces/…`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, under its newer path."""
        path = scope.get("path", "")
        if scope["type"] == "http" and (path == _OLD or path.startswith(f"{_OLD}/")):
            raw = scope.get("raw_path") or path.encode()
            scope = {**scope, "path": _NEW + path[len(_OLD) :], "raw_path": _NEW.encode() + raw[len(_OLD) :]}
        await self._app(scope, receive, send)
