"""Forms: JSON validated strictly by pydantic models, with the path of each error."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    model_validator,
)
from pydantic.alias_generators import to_camel

from toolwright.core.env.env import MOST_NAMES
from toolwright.core.limits import MOST_ERRORS

_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "must be text",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "none_required": "must be null",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
_LENGTHS: Mapping[str, tuple[str, str]] = {
    "too_short": ("least", "min_length"),
    "string_too_short": ("least", "min_length"),
    "too_long": ("most", "max_length"),
    "string_too_long": ("most", "max_length"),
}


def limit_unknown_fields(value: object, form: type[BaseModel]) -> object:
    """Return the value to validate, limiting the unknown fields to the number that is reported."""
    if not isinstance(value, dict) or len(value) <= len(form.model_fields) + MOST_ERRORS:  # pyright: ignore[reportUnknownArgumentType]  # user input
        return value  # pyright: ignore[reportUnknownVariableType]  # user input
    names = {field.alias or name for name, field in form.model_fields.items()}
    fields = cast("dict[object, object]", value)
    unknown = [name for name in fields if name not in names]
    return {
        name: fields[name] for name in (*(name for name in fields if name in names), *unknown[:MOST_ERRORS])
    }


def form_error(error: Mapping[str, Any]) -> str:
    """Return the end of an error message that begins with the field's path.

    `error` is pydantic's error. The message contains no values.
    """
    kind, more = str(error["type"]), error.get("ctx", {})
    if kind in ("value_error", "assertion_error"):  # from a validator of ours, or of a user's model
        return str(more["error"]) or "is not accepted"
    if kind in _LENGTHS:
        return _length(kind, more, error.get("input"))
    if kind in _WORDS:
        return _WORDS[kind].format_map(more)
    return str(error["msg"]).replace("Input should be", "must be", 1)


def _length(kind: str, more: Mapping[str, Any], value: object) -> str:
    comparison, name = _LENGTHS[kind]
    limit = more[name]
    if limit == 1 and comparison == "least":
        return "must not be empty"
    unit = "character" if isinstance(value, str) or kind.startswith("string") else "item"
    return f"must have at {comparison} {limit} {unit}{'' if limit == 1 else 's'}"


NonEmptyText: TypeAlias = Annotated[str, Field(min_length=1)]
MOST_TOOLS = 10_000  # of one agent
TEXT, OBJECT = "(text)", "(object)"  # added by pydantic to the paths of errors; removed here


def kind_of(value: object) -> str:
    return OBJECT if isinstance(value, dict | BaseModel) else TEXT


class Form(BaseModel):
    """A part of a configuration: validated strictly, in camelCase, without unknown fields."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        frozen=True,
        defer_build=True,  # most apps are written in Python
    )

    @model_validator(mode="wrap")
    @classmethod
    def _few_unknown(cls, value: Any, validator: ModelWrapValidatorHandler[Self]) -> Self:  # any input
        return validator(limit_unknown_fields(value, cls))


class EnvVarForm(Form):
    """A value with its type."""

    value: str
    type: Literal["text", "secret"] = "secret"


def _few_names(value: object) -> object:
    if isinstance(value, dict) and len(value) > MOST_NAMES:  # pyright: ignore[reportUnknownArgumentType]  # user input
        raise ValueError(f"must have at most {MOST_NAMES} names")
    return value  # pyright: ignore[reportUnknownVariableType]  # user input


EnvForm: TypeAlias = Annotated[
    dict[
        str, Annotated[Annotated[str, Tag(TEXT)] | Annotated[EnvVarForm, Tag(OBJECT)], Discriminator(kind_of)]
    ],
    BeforeValidator(_few_names),
]
Names: TypeAlias = Annotated[list[str], Field(max_length=MOST_NAMES)]
