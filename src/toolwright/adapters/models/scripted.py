"""A model that says what a script says: offline runs, demos and tests."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from os import PathLike
from typing import Self
from uuid import uuid4

from toolwright.adapters.models.script import Script, Turn, read_script
from toolwright.adapters.models.turn_stream import stream_turn
from toolwright.core.errors import ModelRefused
from toolwright.core.model import ModelEvent, ModelRequest


class ScriptedModel:
    """Answers from a list of turns, or from such lists by agent or prompt name.

    A turn is `{"text": …}`, `{"calls": [{"name": …, "args": …}]}` or both; `args` may be raw text, also
    malformed JSON. `{"json": …}` has any JSON value, written as the text. Which turn a step gets:

    1. the first one in the list whose `when` text is in the last message's content;
    2. else, at step n of a run, the n-th of the turns without `when`;
    3. in a script that has turns with `when`, the last turn without one, if it makes no calls, serves all
       later steps too.

    There is no turn past that: the model refuses. A list by name is looked up by the prompt's name first,
    then the agent's. More keys of a turn: `thinking`; `delay` (seconds before each piece); `fail`
    (`unavailable`, `refused` or `too_long`, with `message`), after what the turn says; `usage`. `window` is the most
    tokens that the model says it takes; nothing here counts them.
    """

    def __init__(
        self,
        turns: Sequence[object] | Mapping[str, Sequence[object]],
        *,
        name: str = "scripted",
        window: int | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self._name = name
        self._window = window
        self._sleep = sleep
        self._new_id = new_id
        self._scripts: dict[str, Script] | Script = (
            {key: read_script(value, f"{name}, {key!r}") for key, value in turns.items()}
            if isinstance(turns, Mapping)
            else read_script(turns, name)
        )

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> Self:
        """Read the same form from a YAML file.

        Raises:
            DefinitionError: the file cannot be read or is not a script; the message names file and turn.
        """
        from toolwright.adapters.models.script_file import read_turns  # noqa: PLC0415 - loads the reader of YAML

        return cls(read_turns(path), name=f"scripted:{path}")

    @property
    def name(self) -> str:
        """The model's name, as in `scripted:demo.yaml`."""
        return self._name

    @property
    def window(self) -> int | None:
        """The most tokens of a request, as it was given."""
        return self._window

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the turn for this step.

        Raises:
            ModelRefused: the script has no turn for it, or the turn says so.
            ContextTooLong, ModelUnavailable: the turn says so.
        """
        turn = self._turn(request, request.messages[-1].content if request.messages else "")
        async for event in stream_turn(turn, request, self._name, self._sleep, self._new_id):
            yield event

    def _turn(self, request: ModelRequest, last: str) -> Turn:
        script, step = self._script(request)
        turn = script.turn(step, last)
        if turn is None:
            raise ModelRefused(f"The script {self._name!r} has no turn for step {step}.")
        return turn

    def _script(self, request: ModelRequest) -> tuple[Script, int]:
        """The list, and the number of the step in it: a prompt's own counts that prompt's steps only."""
        who = request.who
        if isinstance(self._scripts, Script):
            return self._scripts, request.step
        for name in reversed(who):
            if name in self._scripts:
                return self._scripts[name], request.turn if name == who[-1] else request.step
        names = " or ".join(map(repr, who)) or "an unnamed agent"
        raise ModelRefused(f"The script {self._name!r} has no turns for {names}.")
