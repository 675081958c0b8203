"""Models and an embedder without a provider, for tests and demos: scripts, functions, trigrams."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Literal, Self, TypeAlias, cast
from uuid import uuid4
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from toolwright.core import errors
from toolwright.core.checks import brief_value
from toolwright.core.forms import form_error
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.model import (
    CallDelta,
    ModelCall,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
)
from toolwright.core.text import sentence
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import CutReason, Usage

_SAYS = ("text", "json", "calls", "thinking", "fail")
_TEXT_PIECE = 24
_ARGUMENTS_PIECE = 64
_CHARACTERS_PER_TOKEN = 4

_Count = Annotated[int, Field(ge=0)]
MAX_PIECES = 10_000  # of a text, so that a long one is not millions of events
_TOKENS_PER_MESSAGE = 20
SIZE = 4_096


class _ScriptForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class UsageForm(_ScriptForm):
    """Token usage that a turn reports."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_read_tokens: _Count = 0
    cache_write_tokens: _Count = 0


class CallForm(_ScriptForm):
    """A scripted call; `args` can be raw text, to script malformed JSON."""

    name: str = Field(min_length=1)
    args: dict[str, JsonValue] | str = Field(default_factory=dict)


class TurnForm(_ScriptForm):
    """A scripted turn; `value` is its `json`, which distinguishes null from absent."""

    text: str = ""
    value: JsonValue = Field(default=None, alias="json")  # pydantic models have a method with this name
    calls: list[CallForm] = Field(default_factory=list[CallForm])
    thinking: str = ""
    when: str | None = None
    delay: float = Field(default=0, ge=0)
    fail: Literal["unavailable", "refused", "too_long"] | None = None
    message: str | None = None
    stop_reason: CutReason | None = None
    usage: UsageForm | None = None


_KEYS = {name: field.alias or name for name, field in TurnForm.model_fields.items()}
"""Keys of a turn, by the form's field names."""
_PARTS = {"calls": ("a call", CallForm), "usage": ("usage", UsageForm)}
"""Parts of a turn that have keys of their own, with what an error calls them."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer: `form` as written, `text` is its text, and `deltas` are its events except the last."""

    form: TurnForm
    text: str
    calls: tuple[ModelCall, ...]
    deltas: tuple[ModelEvent, ...]
    output_tokens: int
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Script:
    """The turns for one agent or prompt; those with `when` are separate."""

    plain: tuple[Turn, ...]
    conditional: tuple[tuple[str, Turn], ...]

    def turn(self, step: int, last_message: str) -> Turn | None:
        """Return the turn for step 1, 2, …; see the rules in `ScriptedModel`."""
        for when, turn in self.conditional:
            if when in last_message:
                return turn
        if step <= len(self.plain):
            return self.plain[step - 1]
        if self.conditional and self.plain and not self.plain[-1].calls:
            return self.plain[-1]
        return None


def read_script(turns: object, source: str) -> Script:
    """Validate and prepare a list of turns; `source` begins error messages."""
    if not isinstance(turns, Sequence) or isinstance(turns, str | bytes):
        raise errors.DefinitionError(f"{source}: a script must be a list of turns, not {turns!r}.")
    turn_list = list[object](turns)  # pyright: ignore[reportUnknownArgumentType]  checked turn by turn
    read = [read_turn(turn, f"{source}, turn {number}") for number, turn in enumerate(turn_list, 1)]
    return Script(
        plain=tuple(turn for turn in read if turn.form.when is None),
        conditional=tuple((turn.form.when, turn) for turn in read if turn.form.when is not None),
    )


def read_turn(value: object, where: str) -> Turn:
    """Validate and prepare one turn; `where` begins error messages."""
    form = _form(value, where)
    calls = tuple(ModelCall(id="", name=call.name, arguments=_arguments(call, where)) for call in form.calls)
    text = form.text
    if "value" in form.model_fields_set:
        text = _json_text(form.value, f"{where}: json is")
    written = len(text) + len(form.thinking) + sum(len(c.name) + len(c.arguments) for c in calls)
    return Turn(
        form=form,
        text=text,
        calls=calls,
        deltas=_deltas(form.thinking, text, calls),
        output_tokens=written // _CHARACTERS_PER_TOKEN + 1,
        usage=Usage(**form.usage.model_dump()) if form.usage else None,
    )


def _form(value: object, where: str) -> TurnForm:
    try:
        form = TurnForm.model_validate(value)
    except ValidationError as error:
        raise errors.DefinitionError(f"{where}: {_first_error(error)}") from error
    keys = {key for name, key in _KEYS.items() if name in form.model_fields_set}
    if not keys.intersection(_SAYS):
        raise errors.DefinitionError(f"{where}: needs one of {', '.join(_SAYS)}.")
    if {"text", "json"} <= keys:
        raise errors.DefinitionError(
            f"{where}: text and json are two forms of the same answer. Keep one of them."
        )
    return form


def _first_error(error: ValidationError) -> str:
    first_error = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in first_error["loc"] if "[" not in str(part)) or "the turn"
    if first_error["type"] == "extra_forbidden":
        what, keys = "a turn", _KEYS.values()
        if len(first_error["loc"]) > 1:
            what, form = _PARTS[str(first_error["loc"][0])]
            keys = form.model_fields
        return f"unknown key {path!r}; the keys of {what} are {', '.join(keys)}."
    return sentence(f"{path}: {form_error(first_error)}")


def _arguments(call: CallForm, where: str) -> str:
    if isinstance(call.args, str):
        return call.args
    return _json_text(call.args, f"{where}: the args of {call.name!r} are")


def _json_text(value: JSON, what: str) -> str:
    """Return the value as JSON. `what` begins the error message if it is not JSON."""
    try:
        return dumps_unescaped(value)
    except errors.InvalidJSON as error:
        raise errors.DefinitionError(f"{what} not JSON. {error}") from error


def _deltas(thinking: str, text: str, calls: Sequence[ModelCall]) -> tuple[ModelEvent, ...]:
    deltas: list[ModelEvent] = [ReasoningDelta(text=piece) for piece in _pieces(thinking, _TEXT_PIECE)]
    deltas += [TextDelta(text=piece) for piece in _pieces(text, _TEXT_PIECE)]
    for index, call in enumerate(calls):
        deltas.append(CallDelta(index=index, name=call.name, arguments=""))
        deltas += [
            CallDelta(index=index, name=call.name, arguments=piece)
            for piece in _pieces(call.arguments, _ARGUMENTS_PIECE)
        ]
    return tuple(deltas)


def _pieces(text: str, size: int) -> list[str]:
    size = max(size, len(text) // MAX_PIECES + 1)
    return [text[start : start + size] for start in range(0, len(text), size)]


async def stream_turn(
    turn: Turn,
    request: ModelRequest,
    model: str,
    sleep: Callable[[float], Awaitable[object]],
    new_id: Callable[[], str],
) -> AsyncGenerator[ModelEvent]:
    """Yield the turn as the answer of the model with the given name.

    Raises:
        ContextTooLong, ModelRefused, ModelUnavailable: the turn has the corresponding `fail`.
    """
    for delta in turn.deltas:
        if turn.form.delay:
            await sleep(turn.form.delay)
        yield delta
    match turn.form.fail:
        case "unavailable":
            raise errors.ModelUnavailable(turn.form.message)
        case "refused":
            raise errors.ModelRefused(turn.form.message)
        case "too_long":
            raise errors.ContextTooLong(turn.form.message)
        case None:
            pass
    yield _response(turn, request, model, new_id)


def _response(turn: Turn, request: ModelRequest, model: str, new_id: Callable[[], str]) -> ModelResponse:
    last = request.messages[-1].content if request.messages else ""
    read = (len(request.system) + len(last)) // _CHARACTERS_PER_TOKEN
    answer = new_id() if turn.calls else ""
    return ModelResponse(
        text=turn.text,
        calls=tuple(
            ModelCall(id=f"call_{answer}_{index}", name=call.name, arguments=call.arguments)
            for index, call in enumerate(turn.calls)
        ),
        usage=turn.usage
        or Usage(
            input_tokens=read + _TOKENS_PER_MESSAGE * len(request.messages),
            output_tokens=turn.output_tokens,
        ),
        finish_reason=turn.form.stop_reason or ("tool_call" if turn.calls else "stop"),
        model=model,
        reasoning=turn.form.thinking,
    )


class ScriptedModel:
    """Model that answers from a list of turns, or from lists of turns by agent or prompt name.

    A turn is `{"text": …}`, `{"calls": [{"name": …, "args": …}]}` or both; `args` can be raw text, including malformed
    JSON. `{"json": …}` is any JSON value, serialized as the text. The turn of a step is:

    1. the first turn in the list whose `when` text is in the last message's content;
    2. otherwise, at step n of a run, the n-th turn without `when`;
    3. after the last turn without `when`, that turn again, if it makes no calls and the script has turns with `when`.

    Otherwise the model raises `ModelRefused`. Lists by name are looked up by the prompt's name first, then by the
    agent's. Other keys of a turn: `thinking`; `delay` (seconds before each piece); `fail` (`unavailable`, `refused` or
    `too_long`, with `message`), raised after the turn's content; `stop_reason` (`max_tokens`, `refusal` or
    `content_filter`) of an answer that is not whole; `usage`. `window` is the context window in tokens that the model
    reports; it is not enforced.
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
        """Create the model from a YAML file with the same content.

        Raises:
            DefinitionError: the file cannot be read or is not a script; the message names file and turn.
        """
        from toolwright.adapters.models.script_file import read_turns  # noqa: PLC0415 - loads the reader of YAML

        return cls(read_turns(path), name=f"scripted:{path}")

    @property
    def name(self) -> str:
        """The model's name, e.g. `scripted:demo.yaml`."""
        return self._name

    @property
    def window(self) -> int | None:
        """The context window in tokens, as configured."""
        return self._window

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the turn for this step.

        Raises:
            ModelRefused: the script has no turn for the step, or the turn has this `fail`.
            ContextTooLong, ModelUnavailable: the turn has the corresponding `fail`.
        """
        turn = self._turn(request, request.messages[-1].content if request.messages else "")
        async for event in stream_turn(turn, request, self._name, self._sleep, self._new_id):
            yield event

    def _turn(self, request: ModelRequest, last: str) -> Turn:
        script, step = self._script(request)
        turn = script.turn(step, last)
        if turn is None:
            raise errors.ModelRefused(f"The script {self._name!r} has no turn for step {step}.")
        return turn

    def _script(self, request: ModelRequest) -> tuple[Script, int]:
        """Return the list and the number of the step in it. A list for a prompt counts only that prompt's steps."""
        who = request.who
        if isinstance(self._scripts, Script):
            return self._scripts, request.step
        for name in reversed(who):
            if name in self._scripts:
                return self._scripts[name], request.turn if name == who[-1] else request.step
        names = " or ".join(map(repr, who)) or "an unnamed agent"
        raise errors.ModelRefused(f"The script {self._name!r} has no turns for {names}.")


TurnMaker: TypeAlias = Callable[[tuple[Message, ...]], object]
"""Function that returns a turn, or an awaitable of one, for the messages sent to a model."""


class FunctionModel:
    """Model that answers with a function: `fn(messages)` returns a turn in the form of `ScriptedModel`.

    A turn is `{"text": …}` or `{"calls": [{"name": …, "args": …}]}` with the other keys, except `when`. The function
    can be async. A plain function is called on the event loop and must not block. An exception that it raises ends the
    run as `failed`. `window` is the context window in tokens that the model reports; it is not enforced.
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
            raise errors.DefinitionError(
                f"FunctionModel requires a function that takes the messages and returns a turn, not {brief_value(fn)}."
            )
        if name is None:
            function_name = getattr(fn, "__name__", type(fn).__name__)
            name = f"function:{function_name}"
        self._fn = fn
        self._name = name
        self._window = window
        self._sleep = sleep
        self._new_id = new_id

    @property
    def name(self) -> str:
        """The model's name: `function:` and the function's name, unless another was given."""
        return self._name

    @property
    def window(self) -> int | None:
        """The context window in tokens, as configured."""
        return self._window

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the turn that the function returns for the request's messages.

        Raises:
            DefinitionError: the function does not return a valid turn.
            ContextTooLong, ModelRefused, ModelUnavailable: the turn has the corresponding `fail`.
        """
        where = f"The turn of {self._name!r} for step {request.step}"
        answer = self._fn(request.messages)
        if inspect.isawaitable(answer):
            answer = cast("object", await answer)  # of any type
        if not isinstance(answer, dict):
            raise errors.DefinitionError(
                f"{where} is {brief_value(answer)}, but a turn is a dict such as {{'text': 'Done.'}} or "
                "{'calls': [{'name': 'search', 'args': {}}]}."
            )
        turn = read_turn(cast("object", answer), where)
        if turn.form.when is not None:
            raise errors.DefinitionError(
                f"{where}: `when` is only for scripts. Check the messages in the function instead."
            )
        async for event in stream_turn(turn, request, self._name, self._sleep, self._new_id):
            yield event


class TrigramEmbedder:
    """Embedder that counts letter trigrams within words: `garden` is similar to `Gardener` and `gardens`, not `flower`.

    Vectors are deterministic: the same text has the same vector in every process.
    """

    name = "trigrams"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector of 4,096 numbers for each text."""
        return [_vector(text) for text in texts]


def _vector(text: str) -> list[float]:
    vector = [0.0] * SIZE
    for word in text.casefold().split():
        letters = f" {word} ".encode("utf-32-le", "replace")  # four bytes each
        for start in range(0, 4 * len(word), 4):
            vector[crc32(letters[start : start + 12]) % SIZE] += 1
    return vector
