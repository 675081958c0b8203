"""Ways in which a secret could leak, and the places that must not contain it."""

import base64
import json
import logging
from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, quote_plus

import toolwright as tw
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse, TextDelta

CANARY = 'c4nary/"Tweet+\\ö/&%=sing'
"""A secret with every character that an encoding changes."""

KEY = "kEy-of-the-service-0123456789"


def forms(secret: str) -> list[str]:
    """The forms in which a search would find the secret, also within other text."""
    found = [secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret))[3:-3]]
    found += [quote(secret), quote(secret, safe=""), quote_plus(secret)]
    for before in range(3):
        text = base64.b64encode(b"x" * before + secret.encode()).decode()
        middle = text[4 : len(text) - len(text) % 4 - 4]
        found += [middle, middle.replace("+", "-").replace("/", "_")]
    return found


def leaked(text: str, *secrets: str) -> list[str]:
    """Return the forms of the secrets that the text contains."""
    return [form for secret in secrets for form in forms(secret) if form in text]


def leaked_on_disk(folder: Path, *secrets: str) -> list[str]:
    """Search all files of a folder, byte by byte: databases, WALs, files, except keys."""
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.endswith(".key"):
            raw = path.read_bytes()
            found += [f"{path.name}: {f}" for s in secrets for f in forms(s) if f.encode() in raw]
    return found


@tw.tool(description="Leak.")
async def leak(state: tw.ThreadState, way: str) -> JSON | tw.ToolResult:
    """Try to leak the secret in that way."""
    secret = await state.env("CANARY") or ""
    state.emit(f"seen {secret}", {"value": secret, secret: [secret]})
    state.progress(1, 2, f"at {secret}")
    logging.getLogger("toolwright.runtime").warning("A tool says %s", secret)
    match way:
        case "object":
            return {"a": [secret, {secret: f"x{secret}y"}]}
        case "text":
            return f"Bearer {secret}!"
        case "json":
            return json.dumps({"token": secret, "again": json.dumps({"token": secret})})
        case "url":
            return f"https://x.test/?q={quote(secret)}&r={quote_plus(secret)}&s={quote(secret, safe='')}"
        case "base64":
            return base64.b64encode(f"user:{secret}".encode()).decode()
        case "error":
            return tw.ToolResult.fail(
                f"no {secret}", stack=secret, error_code="x", error_data={"k": secret, secret: 1}
            )
        case "raise":
            raise RuntimeError(f"failed with {secret}")
        case "long":
            return ("x" * 1_010 + secret) * 3
        case "file":
            told = await state.write_file("told.txt", "x", f"text/{secret}")
            named = tw.Attachment(name=f"{secret}.txt", mime_type=f"text/{secret}", data="aGk=")
            return tw.ToolResult.ok("Here.", (named, replace(told, description=f"It is {secret}")))
        case "new":
            state.set_env("NEW", KEY)
            return f"The new key is {KEY}."
        case _:
            return secret


WAYS = ("object", "text", "json", "url", "base64", "error", "raise", "long", "file", "new", "plain")


class Calling:
    """A model that calls the tools which leak, in each of the ways, and records its requests."""

    name = "test:calling"

    def __init__(self, ways: Iterable[str] = WAYS) -> None:
        self._ways = list(ways)
        self.requests: list[str] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(repr((request.system, request.messages, request.tools)))
        yield TextDelta(text="I call.")
        if request.step > len(self._ways):
            yield ModelResponse(text="Done.")
            return
        way = self._ways[request.step - 1]
        name, given = ("die", "{}") if way == "die" else ("leak", json.dumps({"way": way}))
        yield ModelResponse(
            text="I call.", calls=(ModelCall(id=f"c{request.step}", name=name, arguments=given),)
        )
