"""Forms: JSON validated strictly by pydantic models; the texts of errors in forms, arguments and answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from toolwright.core.json_value import spell
from toolwright.core.limits import MAX_ERRORS, MAX_NAMES
from toolwright.core.text import brief, quantity, sentence

LIMITS: Mapping[str, tuple[str, str]] = {
    "minimum": ("must be at least {}", ""),
    "maximum": ("must be at most {}", ""),
    "exclusiveMinimum": ("must be more than {}", ""),
    "exclusiveMaximum": ("must be less than {}", ""),
    "multipleOf": ("must be a multiple of {}", ""),
    "pattern": ("must match the pattern {}", ""),
    "format": ("must be text in the format {}", ""),
    "minLength": ("must have at least {}", "character"),
    "maxLength": ("must have at most {}", "character"),
    "minItems": ("must have at least {}", "item"),
    "maxItems": ("must have at most {}", "item"),
    "additionalItems": ("must have at most {}", "item"),
    "minProperties": ("must have at least {}", "property"),
    "maxProperties": ("must have at most {}", "property"),
}
"""The texts about limits, by the keyword of JSON Schema; those about sizes with the noun of their number."""
# Pydantic's names of errors, with the type, the keyword and the name of the limit that JSON Schema has for each.
_TYPES: Mapping[str, str] = {
    "string_type": "string",
    "int_type": "integer",
    "int_parsing": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "float_parsing": "number",
    "bool_type": "boolean",
    "bool_parsing": "boolean",
    "list_type": "array",
    "tuple_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "dataclass_type": "object",
    "none_required": "null",
}
_KEYWORDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("exclusiveMinimum", "gt"),
    "greater_than_equal": ("minimum", "ge"),
    "less_than": ("exclusiveMaximum", "lt"),
    "less_than_equal": ("maximum", "le"),
    "multiple_of": ("multipleOf", "multiple_of"),
    "string_pattern_mismatch": ("pattern", "pattern"),
    "string_too_short": ("minLength", "min_length"),
    "string_too_long": ("maxLength", "max_length"),
    "too_short": ("minItems", "min_length"),
    "too_long": ("maxItems", "max_length"),
}
_OTHERS: Mapping[str, str] = {
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "int_parsing_size": "must be a smaller number",
    "finite_number": "must be a finite number",
}
MAX_TOOLS = 10_000  # of one agent
TEXT, OBJECT = "(text)", "(object)"  # added by pydantic to the paths of errors; removed here


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The texts about missing and unknown names, and the names of JSON's types by their names in JSON Schema."""

    missing: str
    unknown: str
    types: Mapping[str, str]


FIELDS = Vocabulary(
    missing="is required",
    unknown="is not a known field",
    types={
        "string": "text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "array": "a list",
        "object": "an object",
        "null": "null",
    },
)
"""Texts for authors of configurations and requests."""
ARGUMENTS = Vocabulary(
    missing="is missing",
    unknown="is not a known argument",
    types={
        "string": "a string",
        "integer": "an integer",
        "number": "a number",
        "boolean": "a boolean",
        "array": "an array",
        "object": "an object",
        "null": "null",
    },
)
"""Texts for models, which read JSON Schemas: about arguments, results and answers."""
_FORMS = frozenset({*_TYPES, "missing", "extra_forbidden", "literal_error", "enum"})


def limit_unknown_fields(value: object, form: type[BaseModel]) -> object:
    """Return the value to validate, limiting the unknown fields to the number that is reported."""
    if not isinstance(value, dict) or len(value) <= len(form.model_fields) + MAX_ERRORS:  # pyright: ignore[reportUnknownArgumentType]  # user input
        return value  # pyright: ignore[reportUnknownVariableType]  # user input
    names = {field.alias or name for name, field in form.model_fields.items()}
    fields = cast("dict[object, object]", value)
    unknown = [name for name in fields if name not in names]
    return {
        name: fields[name] for name in (*(name for name in fields if name in names), *unknown[:MAX_ERRORS])
    }


def limit_error(keyword: str, limit: Any) -> str:  # JSON, mostly a number
    """Return the end of an error message about one of the `LIMITS`."""
    text, noun = LIMITS[keyword]
    if limit == 1 and noun and keyword.startswith("min"):
        return "must not be empty"
    return text.format(quantity(limit, noun) if noun else limit)


def form_error(error: Mapping[str, Any], words: Vocabulary = FIELDS) -> str:
    """Return the end of an error message that begins with the field's path.

    `error` is pydantic's error. The message contains no values.
    """
    kind, more = str(error["type"]), error.get("ctx", {})
    if kind in ("value_error", "assertion_error"):  # from a validator of ours, or of a user's model
        return str(more["error"]) or "is not accepted"
    if kind in _TYPES:
        return f"must be {words.types[_TYPES[kind]]}"
    if kind in _KEYWORDS:
        keyword, name = _KEYWORDS[kind]
        return limit_error(_sized(keyword, error.get("input"), words), more[name])
    if kind in _OTHERS:
        return _OTHERS[kind].format_map(more)
    if kind == "missing":
        return words.missing
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return words.unknown
    return str(error["msg"]).replace("Input should be", "must be", 1)


def exception_text(error: BaseException) -> str:
    """Return the text of an exception of a user's code; pydantic's own as one sentence, without the values."""
    if not isinstance(error, ValidationError):
        return str(error)
    details = error.errors(include_url=False)
    texts = dict.fromkeys(_located(each) for each in details)
    more = f"; and {len(texts) - MAX_ERRORS} more" if len(texts) > MAX_ERRORS else ""
    return sentence(f"Invalid {error.title}: {'; '.join([*texts][:MAX_ERRORS])}{more}")


def _located(error: ErrorDetails) -> str:
    text = form_error(error, ARGUMENTS)
    return brief(f"{spell(error['loc'])}: {text}" if error["loc"] else text)


def _sized(keyword: str, value: object, words: Vocabulary) -> str:
    """Return the keyword for a value of this type: pydantic calls everything with a length a list."""
    is_object = words is ARGUMENTS and isinstance(
        value, dict
    )  # authors of configurations read `items` for both
    unit = "Length" if isinstance(value, str) else "Properties" if is_object else "Items"
    return keyword.replace("Items", unit)


def is_of_another_form(error: Mapping[str, Any]) -> bool:
    """Return whether pydantic's error is about the form of a value: its type, its names or its constants."""
    return error["type"] in _FORMS


NonEmptyText: TypeAlias = Annotated[str, Field(min_length=1)]


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
        return validator(
            value if cls.model_config.get("extra") == "allow" else limit_unknown_fields(value, cls)
        )


class EnvVarForm(Form):
    """A value with its type."""

    value: str
    type: Literal["text", "secret"] = "secret"


def _few_names(value: object) -> object:
    if isinstance(value, dict) and len(value) > MAX_NAMES:  # pyright: ignore[reportUnknownArgumentType]  # user input
        raise ValueError(f"must have at most {MAX_NAMES} names")
    return value  # pyright: ignore[reportUnknownVariableType]  # user input


EnvForm: TypeAlias = Annotated[
    dict[
        str, Annotated[Annotated[str, Tag(TEXT)] | Annotated[EnvVarForm, Tag(OBJECT)], Discriminator(kind_of)]
    ],
    BeforeValidator(_few_names),
]
Names: TypeAlias = Annotated[list[str], Field(max_length=MAX_NAMES)]
