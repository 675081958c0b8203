"""A model provider on loopback: it speaks the wires of OpenAI (chat, Responses, embeddings) and Anthropic, by script.

async with WireServer() as server:
    server.answer(text=("Hel", "lo"))
    …  # a client with base URL f"{server.base_url}/v1" (OpenAI) or server.base_url (Anthropic)
    assert server.requests[0].body["model"] == "gpt-6.1-terra"
"""

import asyncio
import json
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, Self, TypeAlias

import uvicorn

from tests.models import wire_anthropic, wire_embeddings, wire_openai_chat, wire_openai_responses
from tests.models.wire_answer import Ending, Stop, WireAnswer, WireCall
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ToolDefinition
from toolwright.core.schemas.provider_rules import MAX_DESCRIPTION, broken_rule

__all__ = ["WireAnswer", "WireCall", "WireRequest", "WireServer"]

_WIRES: Final = {
    "/v1/chat/completions": wire_openai_chat,
    "/v1/responses": wire_openai_responses,
    "/v1/messages": wire_anthropic,
    "/v1/embeddings": wire_embeddings,
}
# Any: ASGI messages and callables are dicts and callables of no fixed type
_ASGI = Any


@dataclass(frozen=True)
class WireRequest:
    """A received request; header names are in lower case. `size` are the bytes of its body."""

    path: str
    headers: dict[str, str]
    body: JSONObject
    size: int = 0


Answering: TypeAlias = Callable[[WireRequest], WireAnswer]


class WireServer:
    """Answers requests in the order of the script; a request past its end gets a 500 that reports it.

    With `answering` it calls that function for each answer instead, and keeps no requests.

    `requests` are the received ones. `gone` is set when a client disconnected before its answer was complete. A
    request with a tool, a file or an image that breaks a rule of its provider is refused, and so is one with a tool in
    `dislikes`, by the provider's name for it.
    """

    def __init__(self, *, checks: bool = True, answering: Answering | None = None) -> None:
        self._checks = checks
        self._answering = answering
        self.requests: list[WireRequest] = []
        self.dislikes: set[str] = set()
        self.gone = asyncio.Event()
        self.stalled = asyncio.Event()
        self._answers: deque[WireAnswer] = deque()
        # named as TCP, otherwise asyncio leaves Nagle on and each small frame waits 40 ms
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        config = uvicorn.Config(
            self._app, interface="asgi3", lifespan="off", log_config=None, timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)

    @property
    def base_url(self) -> str:
        """URL of the server, without a path."""
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    def answer(
        self,
        *,
        text: Sequence[str] = (),
        calls: Sequence[WireCall] = (),
        thinking: Sequence[str] = (),
        signature: str = "sig",
        refusal: Sequence[str] = (),
        vectors: Sequence[Sequence[float]] = (),
        input_tokens: int = 11,
        output_tokens: int = 7,
        cached_tokens: int = 0,
        written_tokens: int = 0,
        ending: Ending = "whole",
        stop: Stop | None = None,
        error: str = "",
        code: str | None = None,
        kind: str | None = None,
    ) -> None:
        """Set the answer to the next request."""
        answer = WireAnswer(
            text=(text,) if isinstance(text, str) else tuple(text),
            calls=tuple(calls),
            thinking=(thinking,) if isinstance(thinking, str) else tuple(thinking),
            signature=signature,
            refusal=(refusal,) if isinstance(refusal, str) else tuple(refusal),
            vectors=tuple([tuple(vector) for vector in vectors]),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            written_tokens=written_tokens,
            ending=ending,
            stop=stop,
            error=error,
            code=code,
            kind=kind,
        )
        self._answers.append(answer)

    def send(self, *bodies: str, content_type: str = "text/event-stream") -> None:
        """Set the bodies of the next answers, byte for byte."""
        self._answers.extend(WireAnswer(body=body, content_type=content_type) for body in bodies)

    def fail(
        self,
        status: int,
        error: str = "",
        *,
        code: str | None = None,
        kind: str | None = None,
        retry_after: str | None = None,
        times: int = 1,
    ) -> None:
        """Set the error for the next requests."""
        headers = {} if retry_after is None else {"retry-after": retry_after}
        answer = WireAnswer(status=status, error=error, code=code, kind=kind, headers=headers)
        self._answers.extend([answer] * times)

    async def __aenter__(self) -> Self:
        self._socket.bind(("127.0.0.1", 0))
        config = self._server.config
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[self._socket])
        return self

    async def __aexit__(self, *error: object) -> None:
        """Shut down without uvicorn's grace of a tenth of a second if no client is connected."""
        for _ in range(3):
            await asyncio.sleep(0)  # connections that their clients have closed are noticed here
        if self._server.server_state.connections or self._server.server_state.tasks:
            await self._server.shutdown(sockets=[self._socket])
            return
        for listening in self._server.servers:
            listening.close()
        self._socket.close()

    async def _app(self, scope: _ASGI, receive: _ASGI, send: _ASGI) -> None:
        request = await _read(scope, receive)
        if self._answering is None:
            self.requests.append(request)
        wire = _WIRES[request.path]
        refusal = refused(request, self.dislikes) or refused_content(request) if self._checks else None
        if refusal is not None:
            await _send_json(send, 400, refusal, {})
            return
        if request.path == "/v1/messages" and request.size > wire_anthropic.MAX_BYTES:
            too_large = WireAnswer(status=413, error="Request exceeds the maximum size")
            await _send_json(send, 413, wire.error(too_large), {})
            return
        if self._answering is not None:
            answer = self._answering(request)
        else:
            answer = self._answers.popleft() if self._answers else _PAST_THE_END
        if answer.body is not None:
            await _send_head(send, 200, {"content-type": answer.content_type})
            await send({"type": "http.response.body", "body": answer.body.encode()})
        elif answer.status != 200:
            await _send_json(send, answer.status, wire.error(answer), answer.headers)
        elif not request.body.get("stream"):
            await self._send_whole(answer, wire.whole(answer, str(request.body["model"])), receive, send)
        else:
            await self._stream(answer, wire, str(request.body["model"]), receive, send)

    async def _send_whole(self, answer: WireAnswer, body: JSON, receive: _ASGI, send: _ASGI) -> None:
        if answer.ending == "stalled":
            await self._wait_for_the_client_to_go(receive)
        elif answer.ending == "whole":
            await _send_json(send, 200, body, {})

    async def _stream(
        self, answer: WireAnswer, wire: ModuleType, model: str, receive: _ASGI, send: _ASGI
    ) -> None:
        await _send_head(send, 200, {"content-type": "text/event-stream; charset=utf-8"})
        await _send_events(send, wire.stream(answer, model))
        if answer.ending == "dropped":
            return  # uvicorn closes the connection of an answer that was not finished
        if answer.ending == "stalled":
            await self._wait_for_the_client_to_go(receive)
            return
        if answer.ending == "whole":
            await _send_events(send, wire.ending(answer, model))
        if answer.ending == "failed":
            await _send_events(send, wire.failure(answer, model))
        done = b"data: [DONE]\n\n" if wire is wire_openai_chat else b""
        await send({"type": "http.response.body", "body": done, "more_body": False})

    async def _wait_for_the_client_to_go(self, receive: _ASGI) -> None:
        self.stalled.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()


def refused(request: WireRequest, dislikes: Set[str] = frozenset()) -> JSONObject | None:
    """Return the error of the first tool that the provider refuses, in its own form, or None if it accepts them all."""
    anthropic = request.path == "/v1/messages"
    tools: Any = request.body.get("tools") or []  # the provider's JSON
    for number, tool in enumerate(tools):
        told = tool.get("function", tool)
        schema = told["input_schema" if anthropic else "parameters"]
        definition = ToolDefinition(name=told["name"], description=told["description"], parameters=schema)
        if request.path == "/v1/chat/completions" and len(definition.description) > MAX_DESCRIPTION:
            return _too_long(number, len(definition.description))
        broken = broken_rule(definition, "anthropic" if anthropic else "openai")
        if broken is None and definition.name not in dislikes:
            continue
        why = "it is not liked" if broken is None else f"{broken[0].text} (at {broken[1]!r})"
        if anthropic:
            error: JSONObject = {
                "type": "invalid_request_error",
                "message": f"tools.{number}.custom.input_schema: {why}",
            }
            return {"type": "error", "error": error}
        message = f"Invalid schema for function '{definition.name}': {why}"
        return {
            "error": {
                "message": message,
                "type": "invalid_request_error",
                "param": f"tools[{number}].parameters",
                "code": "invalid_function_parameters",
            }
        }
    return None


def refused_content(request: WireRequest) -> JSONObject | None:
    """Return the error of the first content part that the provider refuses, in its own form, or None."""
    match request.path:
        case "/v1/messages":
            return wire_anthropic.refused_content(request.body)
        case "/v1/responses":
            return wire_openai_responses.refused_content(request.body)
        case "/v1/chat/completions":
            return wire_openai_chat.refused_content(request.body)
        case _:
            return None


def _too_long(number: int, length: int) -> JSONObject:
    where = f"tools[{number}].function.description"
    message = (
        f"Invalid '{where}': string too long. Expected a string with maximum length {MAX_DESCRIPTION}, "
        f"but got a string with length {length} instead."
    )
    error: JSONObject = {
        "message": message,
        "type": "invalid_request_error",
        "param": where,
        "code": "string_above_max_length",
    }
    return {"error": error}


_PAST_THE_END = WireAnswer(status=500, error="The wire server's script has no answer left.")


async def _read(scope: _ASGI, receive: _ASGI) -> WireRequest:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    return WireRequest(scope["path"], headers, json.loads(body), len(body))


async def _send_head(send: _ASGI, status: int, headers: dict[str, str]) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _send_json(send: _ASGI, status: int, body: JSON, headers: dict[str, str]) -> None:
    await _send_head(send, status, {"content-type": "application/json", **headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


async def _send_events(send: _ASGI, events: Iterable[tuple[str | None, JSON]]) -> None:
    for kind, event in events:
        head = f"event: {kind}\n" if kind else ""
        frame = f"{head}data: {json.dumps(event)}\n\n".encode()
        await send({"type": "http.response.body", "body": frame, "more_body": True})
