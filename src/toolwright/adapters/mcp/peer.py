"""The caller of a request to an MCP server, and the session that the request belongs to."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import mcp_types as types

SILENCE = 300.0
"""Seconds that an answer may take, and a stream say nothing, if no call waits for it."""


class Peer(Protocol):
    """Answers what the server asks in the middle of its call; `unheard` is set where the server has refused the call
    before it looked at it, since it knows nothing of the session. `silence` is for how many seconds the answer may say
    nothing; `thread_id` is the thread of the call, None where it is of none.
    """

    unheard: bool
    silence: float
    thread_id: str | None

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """The answer of a person."""
        ...

    async def sample(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """The answer of a model."""
        ...


class Nobody:
    """The peer of a request for the result of a task: no run waits for it in memory, so nobody can be asked."""

    def __init__(self) -> None:
        self.unheard = False
        self.silence = SILENCE
        self.thread_id: str | None = None

    async def elicit(self, params: types.ElicitRequestParams) -> types.ErrorData:
        """Word that there is nobody."""
        return nobody()

    async def sample(self, params: types.CreateMessageRequestParams) -> types.ErrorData:
        """Word that there is nobody."""
        return nobody()


def nobody() -> types.ErrorData:
    """The answer where it is not known which call a question belongs to, or that call is not waited for any more."""
    return types.ErrorData(code=types.INVALID_REQUEST, message="Nobody can be asked any more.")


CALLER: ContextVar[Peer | None] = ContextVar("mcp_caller", default=None)
"""Who has made the request that is sent, or whose answer is read: over HTTP the SDK carries contexts there and back."""

SESSION: ContextVar[str | None] = ContextVar("mcp_session", default=None)
"""The session of an earlier process in which a request is sent, instead of the connection's own."""


@contextmanager
def within(session: str | None) -> Generator[None]:
    """Requests that are sent within this belong to that HTTP session; to the connection's own for None."""
    token = SESSION.set(session)
    try:
        yield
    finally:
        SESSION.reset(token)
