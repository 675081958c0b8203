"""The turns of a scripted model: their form, checked, and made ready to stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.form_faults import form_fault
from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.model import CallDelta, ModelCall, ModelEvent, TextDelta, ThinkingDelta
from toolwright.core.text import sentence
from toolwright.core.threads.run import Usage

_SAYS = ("text", "json", "calls", "thinking", "fail")
_TEXT_PIECE = 24
_ARGUMENTS_PIECE = 64
_CHARACTERS_PER_TOKEN = 4

_Count = Annotated[int, Field(ge=0)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class UsageForm(_Form):
    """Tokens that a turn claims to have used."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cache_read_tokens: _Count = 0
    cache_write_tokens: _Count = 0


class CallForm(_Form):
    """A call as it is written; `args` may be raw text, to script malformed JSON."""

    name: str = Field(min_length=1)
    args: dict[str, JsonValue] | str = Field(default_factory=dict)


class TurnForm(_Form):
    """A turn as it is written; `value` is its `json`, which is null as well as absent."""

    text: str = ""
    value: JsonValue = Field(default=None, alias="json")  # pydantic's models have a method of that name
    calls: list[CallForm] = Field(default_factory=list[CallForm])
    thinking: str = ""
    when: str | None = None
    delay: float = Field(default=0, ge=0)
    fail: Literal["unavailable", "refused", "too_long"] | None = None
    message: str | None = None
    usage: UsageForm | None = None


_KEYS = {name: field.alias or name for name, field in TurnForm.model_fields.items()}
"""Keys of a turn, by the names of the form's fields."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer: `form` as written, `text` what it says, `deltas` its events but the last."""

    form: TurnForm
    text: str
    calls: tuple[ModelCall, ...]
    deltas: tuple[ModelEvent, ...]
    output_tokens: int
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Script:
    """The turns for one agent or prompt, those with `when` apart."""

    plain: tuple[Turn, ...]
    conditional: tuple[tuple[str, Turn], ...]

    def turn(self, step: int, last_message: str) -> Turn | None:
        """The turn for step 1, 2, …: the rule is in `ScriptedModel`."""
        for when, turn in self.conditional:
            if when in last_message:
                return turn
        if step <= len(self.plain):
            return self.plain[step - 1]
        if self.conditional and self.plain and not self.plain[-1].calls:
            return self.plain[-1]
        return None


def read_script(turns: object, source: str) -> Script:
    """Check and prepare a list of turns; `source` says in errors where it comes from."""
    if not isinstance(turns, Sequence) or isinstance(turns, str | bytes):
        raise DefinitionError(f"{source}: a script must be a list of turns, not {turns!r}.")
    given = list[object](turns)  # pyright: ignore[reportUnknownArgumentType]  checked turn by turn
    read = [read_turn(turn, f"{source}, turn {number}") for number, turn in enumerate(given, 1)]
    return Script(
        plain=tuple(turn for turn in read if turn.form.when is None),
        conditional=tuple((turn.form.when, turn) for turn in read if turn.form.when is not None),
    )


def read_turn(given: object, where: str) -> Turn:
    """Check and prepare one turn; `where` says in errors where it comes from."""
    form = _form(given, where)
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


def _form(given: object, where: str) -> TurnForm:
    try:
        form = TurnForm.model_validate(given)
    except ValidationError as error:
        raise DefinitionError(f"{where}: {_first_fault(error)}") from error
    keys = {key for name, key in _KEYS.items() if name in form.model_fields_set}
    if not keys.intersection(_SAYS):
        raise DefinitionError(f"{where}: needs one of {', '.join(_SAYS)}.")
    if {"text", "json"} <= keys:
        raise DefinitionError(f"{where}: text and json are two forms of one thing; keep one of them.")
    return form


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in fault["loc"] if "[" not in str(part)) or "the turn"
    if fault["type"] == "extra_forbidden":
        return f"unknown key {path!r}; the keys of a turn are {', '.join(_KEYS.values())}."
    return sentence(f"{path}: {form_fault(fault)}")


def _arguments(call: CallForm, where: str) -> str:
    if isinstance(call.args, str):
        return call.args
    return _json_text(call.args, f"{where}: the args of {call.name!r} are")


def _json_text(value: JSON, what: str) -> str:
    """The value as JSON; `what` begins the sentence of the error where it is none."""
    try:
        return dumps_unescaped(value)
    except InvalidJSON as error:
        raise DefinitionError(f"{what} not JSON. {error}") from error


def _deltas(thinking: str, text: str, calls: Sequence[ModelCall]) -> tuple[ModelEvent, ...]:
    deltas: list[ModelEvent] = [ThinkingDelta(text=piece) for piece in _pieces(thinking, _TEXT_PIECE)]
    deltas += [TextDelta(text=piece) for piece in _pieces(text, _TEXT_PIECE)]
    for index, call in enumerate(calls):
        deltas.append(CallDelta(index=index, name=call.name, arguments=""))
        deltas += [
            CallDelta(index=index, name=call.name, arguments=piece)
            for piece in _pieces(call.arguments, _ARGUMENTS_PIECE)
        ]
    return tuple(deltas)


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
