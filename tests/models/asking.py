"""Requests and their answers, as written in the tests of models."""

from datetime import UTC, datetime
from typing import Protocol, TypeVar

from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.json_value import JSON
from toolwright.core.model import Model, ModelEvent, ModelRequest, ModelResponse, ToolDefinition
from toolwright.core.threads.message import Message, MessageCall

NOW = datetime(2026, 11, 20, tzinfo=UTC)
SEARCH = ToolDefinition(
    name="search",
    description="Search the docs",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}},
)

Event = TypeVar("Event")


class MakeModel(Protocol):
    """Makes a model by name that talks to the wire server."""

    def __call__(self, name: str) -> PydanticAIModel: ...


def user(content: str, id: str = "m1") -> Message:
    """Return a user's message."""
    return Message(id=id, role="user", content=content, created_at=NOW)


def assistant(answer: ModelResponse, id: str = "m2", native: JSON = None) -> Message:
    """Return an answer as the journal stores it."""
    calls = tuple(
        MessageCall(id=f"ours_{call.id}", name=call.name, arguments=call.arguments, model_call_id=call.id)
        for call in answer.calls
    )
    return Message(id=id, role="assistant", content=answer.text, calls=calls, native=native, created_at=NOW)


def tool(call_id: str, content: str, *, name: str = "search", failed: bool = False) -> Message:
    """Return a tool's result."""
    return Message(
        id=f"result-{call_id}",
        role="tool",
        content=content,
        call_id=f"ours_{call_id}",
        model_call_id=call_id,
        tool_name=name,
        status="error" if failed else "success",
        created_at=NOW,
    )


def request(*messages: Message, tools: tuple[ToolDefinition, ...] = (SEARCH,)) -> ModelRequest:
    """Return a request with a system text."""
    return ModelRequest(messages=messages or (user("Hello"),), system="Be brief.", tools=tools)


async def ask(model: Model, asked: ModelRequest | None = None) -> list[ModelEvent]:
    """Return all events of the answer."""
    return [event async for event in model.respond(asked or request())]


async def answer_of(model: Model, asked: ModelRequest | None = None) -> ModelResponse:
    """Return the answer."""
    last = (await ask(model, asked))[-1]
    assert isinstance(last, ModelResponse)
    return last


def only(events: list[ModelEvent], kind: type[Event]) -> list[Event]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]
