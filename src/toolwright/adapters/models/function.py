"""A model that is a function: each turn is made of the messages so far."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias, cast
from uuid import uuid4

from toolwright.adapters.models.script import read_turn
from toolwright.adapters.models.turn_stream import stream_turn
from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.model import ModelEvent, ModelRequest
from toolwright.core.threads.message import Message

TurnMaker: TypeAlias = Callable[[tuple[Message, ...]], object]
"""Makes a turn, or what it is awaited from, of the messages that a model is told."""


class FunctionModel:
    """Answers with what a function says: `fn(messages)` gives a turn in the form of `ScriptedModel`'s.

    `{"text": …}`, `{"calls": [{"name": …, "args": …}]}` and the other keys, but for `when`. The function may be
    async; a plain one is called on the event loop, and waits for nothing. What it raises ends the run as `failed`.
    `window` is the most tokens that the model says it takes; nothing here counts them.
    """

    def __init__(
        self,
        fn: TurnMaker,
        *,
        name: str | None = None,
        window: int | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        if not callable(fn) or isinstance(fn, type):
            raise DefinitionError(
                f"A FunctionModel takes a function of the messages that returns a turn, not {brief_value(fn)}."
            )
        if name is None:
            own = getattr(fn, "__name__", type(fn).__name__)
            name = f"function:{own}"
        self._fn = fn
        self._name = name
        self._window = window
        self._sleep = sleep
        self._new_id = new_id

    @property
    def name(self) -> str:
        """The model's name, `function:` and the function's own unless another was given."""
        return self._name

    @property
    def window(self) -> int | None:
        """The most tokens of a request, as it was given."""
        return self._window

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the turn that the function makes of the request's messages.

        Raises:
            DefinitionError: what it makes is no turn.
            ContextTooLong, ModelRefused, ModelUnavailable: the turn says so.
        """
        where = f"The turn of {self._name!r} for step {request.step}"
        made = self._fn(request.messages)
        if inspect.isawaitable(made):
            made = cast("object", await made)  # whatever it yields
        if not isinstance(made, dict):
            raise DefinitionError(
                f"{where} is {brief_value(made)}, but a turn is a dict such as {{'text': 'Done.'}} or "
                "{'calls': [{'name': 'search', 'args': {}}]}."
            )
        turn = read_turn(cast("object", made), where)
        if turn.form.when is not None:
            raise DefinitionError(f"{where}: when is for scripts; let the function look at the messages.")
        async for event in stream_turn(turn, request, self._name, self._sleep, self._new_id):
            yield event
