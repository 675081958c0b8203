"""Composed requests (S1): config, output schema and context, validated together, with every error."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Tag,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from toolwright.core.agents.config import ContextForm
from toolwright.core.errors import InvalidConfiguration, InvalidJSON
from toolwright.core.forms import form_error
from toolwright.core.json_text import HALF, HalfCharacter, refuse_halves
from toolwright.core.json_value import (
    JSON,
    NOT_ONE_LINE,
    NOT_WRITABLE,
    JSONObject,
    dumps,
    has_more_values,
    one_line,
    plain,
    spell,
    surely_longer,
    unwritable,
)
from toolwright.core.limits import MAX_ERRORS, MAX_ID, MAX_JSON_VALUES, MAX_NAME, MAX_SYSTEM
from toolwright.core.model import ModelSettings, Reasoning
from toolwright.core.text import sentence

MAX_REQUEST = 10 * 1024 * 1024
"""Maximum size in bytes of a request: config, schema and context together."""
_EFFORTS = get_args(get_args(Reasoning)[0])
_NO_TYPE = "message"
_TYPES = ("text", "tool", "data", "input", "state", _NO_TYPE)
Role: TypeAlias = Literal["user", "assistant", "system"]


def _checked_text(text: str) -> str:
    if unwritable(text):
        raise ValueError(NOT_WRITABLE)
    return text


def _checked_line(name: str) -> str:
    if not one_line(name):
        raise ValueError(NOT_ONE_LINE)
    return name


Text: TypeAlias = Annotated[str, AfterValidator(_checked_text)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(_checked_line)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000_000)]


class _RequestPart(BaseModel):
    """A part of a request: strict, in snake_case or camelCase, without unknown fields."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        frozen=True,
        defer_build=True,
    )


def _checked_effort(effort: object) -> Reasoning:
    """Validate the reasoning effort. A union of types would report an error for each member."""
    if effort is not None and type(effort) is not bool and effort not in _EFFORTS:
        raise ValueError(f"must be one of {', '.join(map(repr, _EFFORTS))}, true or false")
    return cast("Reasoning", effort)


class RequestContextForm(ContextForm):
    """The context policy of a request, in snake_case or camelCase."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)


class ConfigForm(_RequestPart):
    """Model and limits of a request; None means the default of the settings or the provider.

    `name` is the request's name in scripts of models. With `call_reasoning` each call has a reason. `context` limits
    the length of the requests to its model.
    """

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] = "request"
    model: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None = None
    system: Annotated[Text, Field(max_length=MAX_SYSTEM)] = ""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Count | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    reasoning: Annotated[Reasoning, PlainValidator(_checked_effort)] = None
    max_steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    call_reasoning: bool = False
    context: RequestContextForm | None = None

    @property
    def settings(self) -> ModelSettings:
        """Settings of the model."""
        return ModelSettings(
            temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens, seed=self.seed
        )


class TextForm(_RequestPart):
    """A text with the role `user` or another role, for one instance or for none."""

    type: Literal["text"]
    text: Text
    role: Role = "user"
    instance: Name | None = None


class MessageForm(_RequestPart):
    """A message of an earlier conversation."""

    type: Literal["message"] = "message"
    role: Role
    content: Text


def _checked_tools(tool: JSON) -> JSON:
    names = [*tool] if isinstance(tool, dict | list) else [tool]
    if not all(isinstance(name, str) and 0 < len(name) <= MAX_NAME for name in names):
        raise ValueError("must be schemas by name, the name of a tool of the app, or a list of such names")
    return tool


class ToolForm(_RequestPart):
    """Tools that can be called: schemas by name, or names of the app's tools."""

    type: Literal["tool"]
    tool: Annotated[JsonValue, AfterValidator(_checked_tools)]

    @property
    def listed(self) -> list[str | tuple[str, JSON]]:
        """The tools as a list."""
        if isinstance(self.tool, dict):
            return [*self.tool.items()]
        names = self.tool if isinstance(self.tool, list) else [self.tool]
        return [name for name in names if isinstance(name, str)]


class DataForm(_RequestPart):
    """A JSON value shown to the model, for one instance or for none."""

    type: Literal["data"]
    data: JsonValue
    name: Annotated[str, Field(max_length=MAX_NAME)] | None = None
    instance: Name | None = None


class InputForm(_RequestPart):
    """Input to which arguments refer as `†input.…`, for one instance or for none."""

    type: Literal["input"]
    input: dict[str, JsonValue]
    instance: Name | None = None


class StateForm(_RequestPart):
    """Initial state to which arguments refer as `†state.…`, for one instance or for none."""

    type: Literal["state"]
    state: dict[str, JsonValue]
    instance: Name | None = None


def _type(item: object) -> str:
    if isinstance(item, BaseModel):  # during serialization
        return str(getattr(item, "type", ""))
    kind = cast("JSONObject", item).get("type", _NO_TYPE) if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else ""


Item: TypeAlias = Annotated[
    Annotated[TextForm, Tag("text")]
    | Annotated[ToolForm, Tag("tool")]
    | Annotated[DataForm, Tag("data")]
    | Annotated[InputForm, Tag("input")]
    | Annotated[StateForm, Tag("state")]
    | Annotated[MessageForm, Tag(_NO_TYPE)],
    Discriminator(
        _type,
        custom_error_type="item_type",
        custom_error_message=f"must have a type: {', '.join(_TYPES)}",
    ),
]


class RequestForm(_RequestPart):
    """A composed request, also as stored: in a thread's arguments, or in the file of a saved request."""

    config: ConfigForm = Field(default_factory=ConfigForm)
    output: dict[str, JsonValue] = Field(alias="schema")
    context: Annotated[list[Item], Field(max_length=10_000)] = Field(default_factory=list[Item])

    @property
    def as_json(self) -> JSONObject:
        """The request as JSON, for storage."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {"schema": self.output}

    @property
    def instances(self) -> tuple[str, ...]:
        """The instances that the context names, in order."""
        instances = [getattr(item, "instance", None) for item in self.context]
        return tuple(dict.fromkeys([name for name in instances if isinstance(name, str)]))

    @property
    def tools(self) -> list[str | tuple[str, JSON]]:
        """The tools of the context: names of app tools, or names with schemas."""
        listed = [each for item in self.context if isinstance(item, ToolForm) for each in item.listed]
        keys = [each if isinstance(each, str) else (each[0], dumps(each[1])) for each in listed]
        return [*dict(zip(keys, listed, strict=True)).values()]

    def items_of(self, instance: str | None) -> list[Item]:
        """Return the context parts of the given instance, or the parts without an instance."""
        return [item for item in self.context if getattr(item, "instance", None) in (None, instance)]

    def input_of(self, instance: str | None) -> JSONObject:
        """Return `†input` for a call of that instance: its own names override the names without an instance."""
        inputs = [item for item in self.context if isinstance(item, InputForm)]
        common = [item.input for item in inputs if item.instance is None]
        own = [item.input for item in inputs if item.instance is not None and item.instance == instance]
        return _merged([*common, *own])

    def state_of(self, instance: str | None) -> JSONObject:
        """Return the initial state of that instance, or the state without an instance."""
        states = [item for item in self.context if isinstance(item, StateForm)]
        return _merged([item.state for item in states if item.instance == instance])


def _merged(objects: Sequence[Mapping[str, JSON]]) -> JSONObject:
    merged: JSONObject = {}
    for each in objects:
        merged.update(each)
    return merged


def read_request(what: str, written: object) -> RequestForm:
    """Parse a request, given as `{"config", "schema", "context"}`. Its error messages begin with `what`.

    A context that is a string is one text. Raises `InvalidConfiguration` with the path of every error.
    """
    try:
        parsed = plain(written)
    except InvalidJSON as error:
        raise _invalid_value(what, [{"path": "", "message": error.message.rstrip(".")}]) from error
    if has_more_values(parsed, MAX_JSON_VALUES) or surely_longer(parsed, MAX_REQUEST):
        size = f"must have at most {MAX_REQUEST} bytes and {MAX_JSON_VALUES} values"
        raise _invalid_value(what, [{"path": "", "message": size}])
    try:
        refuse_halves(parsed)
    except HalfCharacter as error:
        raise _invalid_value(what, [{"path": spell(error.path), "message": HALF}]) from None
    if isinstance(parsed, dict) and isinstance(parsed.get("context"), str):
        parsed["context"] = [{"type": "text", "text": parsed["context"]}]
    try:
        form = RequestForm.model_validate(parsed)
    except ValidationError as error:
        errors = [_error_detail(each["loc"], form_error(each)) for each in error.errors(include_url=False)]
        raise _invalid_value(what, errors[:MAX_ERRORS]) from None
    return form


def _error_detail(path: tuple[int | str, ...], message: str) -> dict[str, str]:
    """Return the error of one field. The path omits the kind of item that pydantic selected."""
    steps = [str(part) for number, part in enumerate(path) if not (number == 2 and path[0] == "context")]
    return {"path": ".".join(steps), "message": message}


def _invalid_value(what: str, errors: list[dict[str, str]]) -> InvalidConfiguration:
    text = f"{errors[0]['path']} {errors[0]['message']}".strip()
    return InvalidConfiguration(sentence(f"{what}: {text}"), errors)
