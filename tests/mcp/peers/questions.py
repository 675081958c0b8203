"""Peers that ask during a call: a person by a form or a URL, or the host's model."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from tests.mcp.peers.peer import Asked, JSONObject, Peer, text, tool

FORM: JSONObject = {
    "type": "object",
    "properties": {
        "email": {"type": "string", "format": "email", "description": "Where to write to"},
        "size": {"type": "string", "enum": ["S", "M", "L"], "default": "M"},
        "amount": {"type": "integer", "minimum": 1, "maximum": 9},
        "gift": {"type": "boolean", "default": False},
    },
    "required": ["email"],
}
ADDRESS = "https://shop.example/pay?order=5"
SAMPLING: JSONObject = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}],
    "maxTokens": 100,
    "systemPrompt": "Answer in one word.",
}


class InputRequired(Exception):
    """The answer of 2026-07-28 that requests more input."""

    def __init__(self, result: JSONObject) -> None:
        super().__init__("more input is required")
        self.result = result


async def ask(asked: Asked, key: str, method: str, params: JSONObject) -> JSONObject:
    """Return the client's answer to one question: by a request in 2025-11-25, by a retry in 2026-07-28.

    In 2026-07-28 `InputRequired` is raised. All answers of earlier rounds are in the state that the client sends
    back.
    """
    if not asked.modern:
        return await request(asked, method, params)
    answers: JSONObject = {**_state(asked), **(asked.params.get("inputResponses") or {})}
    if key in answers:
        return answers[key]
    requests = {key: {"method": method, "params": params}}
    raise InputRequired(
        {"resultType": "input_required", "inputRequests": requests, "requestState": json.dumps(answers)}
    )


def _state(asked: Asked) -> JSONObject:
    state: str | None = asked.params.get("requestState")
    return json.loads(state) if state else {}


async def request(asked: Asked, method: str, params: JSONObject) -> JSONObject:
    """Send a request to a client of 2025-11-25, on the stream of the call that it belongs to."""
    made: Any = types.ElicitRequest if method == "elicitation/create" else types.CreateMessageRequest
    result: Any = types.ElicitResult if method == "elicitation/create" else types.CreateMessageResult
    metadata = ServerMessageMetadata(related_request_id=asked.context.request_id)
    message = made.model_validate({"method": method, "params": params}, by_name=False)
    answer = await asked.context.session.send_request(message, result, metadata=metadata)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def form(message: str = "Where shall it go?", schema: JSONObject = FORM) -> JSONObject:
    """Return the parameters of a form elicitation."""
    return {"mode": "form", "message": message, "requestedSchema": schema}


def _question(method: str, *rounds: JSONObject) -> Callable[[Asked], Awaitable[JSONObject]]:
    """Return a tool that asks these questions one after another, and returns all answers."""

    async def call(asked: Asked) -> JSONObject:
        try:
            answers = [await ask(asked, f"round_{n}", method, params) for n, params in enumerate(rounds)]
        except InputRequired as more:
            return more.result
        return text(json.dumps(answers), structuredContent={"answers": answers})

    return call


def elicits(**more: Any) -> Peer:  # JSON on the wire
    """`form`, `address` and `twice` ask a person and return the answers; the other tools' questions have no answer.

    Their definitions have `more`.
    """
    address = {"mode": "url", "message": "Please pay.", "url": ADDRESS, "elicitationId": "pay_5"}
    local = {**address, "url": "file:///etc/passwd"}
    nested = {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
    }
    rounds = {
        "form": [form()],
        "address": [address],
        "local_address": [local],
        "twice": [form("First?"), form("Second?")],
        "nested_form": [form("Nested?", nested)],
        "empty_form": [form("Sure?", {"type": "object", "properties": {}})],
        "long_form": [form("word " * 20_000)],
    }
    calls = {name: _question("elicitation/create", *each) for name, each in rounds.items()}
    return Peer(tools=[tool(name, **more) for name in calls], calls=calls)


def elicits_for_ever() -> Peer:
    """`form` accepts no answer."""

    async def call(asked: Asked) -> JSONObject:
        if not asked.modern:
            while True:
                await request(asked, "elicitation/create", form())
        requests = {"again": {"method": "elicitation/create", "params": form()}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": "same"}

    return Peer(tools=[tool("form")], calls={"form": call})


def elicits_at_once() -> Peer:
    """`both` asks two questions at once, a form and a URL (in 2025-11-25 one after the other)."""
    address = {"mode": "url", "message": "Please pay.", "url": ADDRESS, "elicitationId": "pay_5"}

    async def call(asked: Asked) -> JSONObject:
        if not asked.modern:
            return await _question("elicitation/create", form(), address)(asked)
        answers = asked.params.get("inputResponses")
        if answers:
            return text(
                json.dumps(answers), structuredContent={"answers": [answers["where"], answers["pay"]]}
            )
        requests = {
            "where": {"method": "elicitation/create", "params": form()},
            "pay": {"method": "elicitation/create", "params": address},
        }
        return {"resultType": "input_required", "inputRequests": requests}

    return Peer(tools=[tool("both")], calls={"both": call})


def samples() -> Peer:
    """`sample` and `ask_model` ask the host's model and return its answer; `greedy` requests a million tokens."""
    rounds = {"sample": SAMPLING, "ask_model": SAMPLING, "greedy": {**SAMPLING, "maxTokens": 1_000_000}}
    calls = {name: _question("sampling/createMessage", params) for name, params in rounds.items()}
    return Peer(tools=[tool(name) for name in calls], calls=calls)


def asks_unknown() -> Peer:
    """`ask` sends a request unknown to all clients: a method that does not exist, in 2026-07-28 as an input."""

    async def call(asked: Asked) -> JSONObject:
        if not asked.modern:
            try:
                await request(asked, "sampling/createMessage", {"messages": [], "maxTokens": 1})
            except MCPError as error:
                return text(str(error))
        requests: JSONObject = {"x": {"method": "phone/call", "params": {}}}
        return {"resultType": "input_required", "inputRequests": requests}

    return Peer(tools=[tool("ask")], calls={"ask": call})
