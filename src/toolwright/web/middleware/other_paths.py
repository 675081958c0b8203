"""Paths as the documents spell them: S3's smart spaces are spaces, S0's variables are those of `/api` (API §3)."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

_OLD, _NEW = "/api/smart-spaces", "/api/spaces"
_VARIABLES = re.compile("/threads/[^/]+/variables/[^/]+")


class OtherPaths:
    """Answers `/api/smart-spaces/…` as `/api/spaces/…`, and `/threads/…/variables/…` as the same below `/api`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, under the path that its route has."""
        path = scope.get("path", "")
        if scope["type"] == "http":
            raw = scope.get("raw_path") or path.encode()
            if path == _OLD or path.startswith(f"{_OLD}/"):
                scope = {
                    **scope,
                    "path": _NEW + path[len(_OLD) :],
                    "raw_path": _NEW.encode() + raw[len(_OLD) :],
                }
            elif _VARIABLES.fullmatch(path):
                scope = {**scope, "path": f"/api{path}", "raw_path": b"/api" + raw}
        await self._app(scope, receive, send)
