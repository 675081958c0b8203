"""Validation errors of arguments, forms and answers, as messages with every path (D3); and strict forms of JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias, cast

import jsonschema_rs
import pydantic
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from toolwright.core.env.env import MOST_NAMES
from toolwright.core.json_value import JSON, Path, dumps_unescaped, spell
from toolwright.core.limits import MOST_ERRORS
from toolwright.core.text import brief, quantity


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
_FORMS = frozenset({*_TYPES, "missing", "extra_forbidden", "literal_error", "enum"})


def limit_unknown_fields(value: object, form: type[pydantic.BaseModel]) -> object:
    """Return the value to validate, limiting the unknown fields to the number that is reported."""
    if not isinstance(value, dict) or len(value) <= len(form.model_fields) + MOST_ERRORS:  # pyright: ignore[reportUnknownArgumentType]  # user input
        return value  # pyright: ignore[reportUnknownVariableType]  # user input
    names = {field.alias or name for name, field in form.model_fields.items()}
    fields = cast("dict[object, object]", value)
    unknown = [name for name in fields if name not in names]
    return {
        name: fields[name] for name in (*(name for name in fields if name in names), *unknown[:MOST_ERRORS])
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
    if kind == "extra_forbidden":
        return words.unknown
    return str(error["msg"]).replace("Input should be", "must be", 1)


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


NonEmptyText: TypeAlias = Annotated[str, pydantic.Field(min_length=1)]
MOST_TOOLS = 10_000  # of one agent
TEXT, OBJECT = "(text)", "(object)"  # added by pydantic to the paths of errors; removed here


def kind_of(value: object) -> str:
    return OBJECT if isinstance(value, dict | pydantic.BaseModel) else TEXT


class Form(pydantic.BaseModel):
    """A part of a configuration: validated strictly, in camelCase, without unknown fields."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        frozen=True,
        defer_build=True,  # most apps are written in Python
    )

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _few_unknown(
        cls, value: Any, validator: pydantic.ModelWrapValidatorHandler[Self]
    ) -> Self:  # any input
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
        str,
        Annotated[
            Annotated[str, pydantic.Tag(TEXT)] | Annotated[EnvVarForm, pydantic.Tag(OBJECT)],
            pydantic.Discriminator(kind_of),
        ],
    ],
    pydantic.BeforeValidator(_few_names),
]
Names: TypeAlias = Annotated[list[str], pydantic.Field(max_length=MOST_NAMES)]


Kind = jsonschema_rs.ValidationErrorKind
Branch: TypeAlias = list[jsonschema_rs.ValidationError]
OUT_OF_RANGE = "is out of the range of numbers"
_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True)
class FieldError:
    """One invalid position and its error, such as `must be an integer, not a string`."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{spell(self.path)}: {self.text}" if self.path else self.text


class InvalidArguments(Exception):
    """Arguments that the tool rejects, with all their errors."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(invalid_text(errors))
        self.faults = tuple(errors)


def invalid_text(errors: Sequence[FieldError]) -> str:
    """Return all errors in one text for the model, without duplicates."""
    listed = join_errors(errors)
    return f"Invalid arguments: {listed}{'' if listed.endswith('.') else '.'}"


def join_errors(errors: Iterable[FieldError]) -> str:
    """Return the errors on one line, without duplicates, and the number of omitted errors."""
    unique = [*dict.fromkeys(errors)]
    more = f"; and {len(unique) - MOST_ERRORS} more" if len(unique) > MOST_ERRORS else ""
    return f"{'; '.join(brief(str(error)) for error in unique[:MOST_ERRORS])}{more}"


def details_of(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """Return the errors as details of a rejected request."""
    return [{"path": spell(each.path), "message": each.text} for each in islice(errors, MOST_ERRORS)]


def within(errors: Iterable[FieldError], *steps: str | int) -> list[FieldError]:
    """Return the errors of a value that is a part of another, with the whole path."""
    return [FieldError((*steps, *each.path), each.text) for each in errors]


class Place(NamedTuple):
    """A pydantic location in a JSON value: its path, the part of the value there, and the branches of unions on it."""

    path: Path
    part: JSON
    branches: tuple[Path, ...]


def place_in(value: JSON, location: Path) -> Place:
    """Follow a pydantic location. Its steps that do not exist in the value are the names of union branches."""
    path: list[str | int] = []
    branches: list[Path] = []
    for end, step in enumerate(location, 1):
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int() if 0 <= step < len(value):
                value = value[step]
            case _:
                branches.append(location[:end])
                continue
        path.append(step)
    return Place(tuple(path), value, tuple(branches))


_Built: TypeAlias = list[tuple[ErrorDetails, Place]]


def built_errors(error: pydantic.ValidationError, value: JSON) -> list[FieldError]:
    """Convert pydantic's errors of a value that its schema accepts, such as those of a user's validators."""
    details = error.errors(include_url=False, include_input=False)
    places = [place_in(value, each["loc"][: -1 if each["type"] == "missing" else None]) for each in details]
    return [_built_error(each, place) for each, place in _meant([*zip(details, places, strict=True)])]


def _meant(built: _Built) -> _Built:
    """Return the errors without those of union branches whose form the value does not have, if it has another's."""
    others = {branch for each, place in built if is_of_another_form(each) for branch in place.branches}
    unions = {branch[:-1] for _, place in built for branch in place.branches if branch not in others}
    kept = [
        (each, place)
        for each, place in built
        if not any(branch in others and branch[:-1] in unions for branch in place.branches)
    ]
    return kept if len(kept) == len(built) else _meant(kept)


def _built_error(detail: ErrorDetails, place: Place) -> FieldError:
    missing = detail["loc"][-1:] if detail["type"] == "missing" else ()
    return FieldError((*place.path, *missing), form_error({**detail, "input": place.part}, ARGUMENTS))


def field_errors(errors: Iterable[jsonschema_rs.ValidationError]) -> list[FieldError]:
    """Convert a validator's errors to ours."""
    return [field_error for error in errors for field_error in _field_errors(error)]


def _field_errors(error: jsonschema_rs.ValidationError) -> Iterator[FieldError]:
    path, kind = tuple(error.instance_path), error.kind
    match kind:
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            for name in names:
                yield FieldError((*path, name), ARGUMENTS.unknown)
        case Kind.Required(name):
            yield FieldError((*path, name), ARGUMENTS.missing)
        case Kind.AnyOf(branches) | Kind.OneOfNotValid(branches):
            yield from _best_branch(error, branches)
        case Kind.PropertyNames(inner):
            yield FieldError(path, f"has a key that {_message(inner)}")
        case _:
            yield FieldError(path, _message(error))


def _best_branch(error: jsonschema_rs.ValidationError, branches: list[Branch]) -> Iterator[FieldError]:
    """Yield the errors of the branch that was most likely meant, or all types if no branch is close."""
    path = tuple(error.instance_path)
    branches = _flat(branches, path)
    close = [branch for branch in branches if branch and not any(_misses(each, path) for each in branch)]
    if close:
        best = min(close, key=_distance)
        tag = next((tuple(each.instance_path) for each in best if _is_tag(each)), None)
        if tag is not None and len(close) > 1 and all(any(_misses(e, tag) for e in b) for b in close):
            yield FieldError(tag, f"must be {_alternatives(close, tag)}")
            return
        equal = [branch for branch in close if _distance(branch) == _distance(best)]
        branch_errors = dict.fromkeys(
            tuple([field_error for each in branch for field_error in _field_errors(each)]) for branch in equal
        )
        if len(branch_errors) == 1:
            yield from next(iter(branch_errors))
        else:
            yield FieldError(
                path, f"fits none of the forms it may have: {_shared_errors([*branch_errors], len(path))}"
            )
        return
    yield FieldError(path, f"must be {_alternatives(branches, path)}, not {type_name(_instance(error))}")


_MOST_WAYS = 5


def _distance(branch: Branch) -> tuple[int, int, int]:
    """Return the distance of a value from a branch of a union: differing constants, its form, then limits."""
    limits = sum(error.kind.name in LIMITS for error in branch)
    return sum(map(_is_tag, branch)), len(branch) - limits, limits


def _shared_errors(branches: list[tuple[FieldError, ...]], depth: int) -> str:
    """Return the errors of several branches that are equally close, with paths relative to the union."""
    texts = [
        f"({'; '.join(str(FieldError(error.path[depth:], error.text)) for error in branch)})"
        for branch in branches[:_MOST_WAYS]
    ]
    more = f" or {len(branches) - _MOST_WAYS} more" if len(branches) > _MOST_WAYS else ""
    return f"{' or '.join(texts)}{more}"


def _flat(branches: list[Branch], path: Path) -> list[Branch]:
    """Return the branches, flattening branches that only consist of alternatives."""
    flat: list[Branch] = []
    for branch in branches:
        match [error.kind for error in branch if tuple(error.instance_path) == path]:
            case [Kind.AnyOf(inner) | Kind.OneOfNotValid(inner)] if len(branch) == 1:
                flat += _flat(inner, path)
            case _:
                flat.append(branch)
    return flat


def _alternatives(branches: list[Branch], path: Path) -> str:
    texts = [
        text for branch in branches for error in branch if _misses(error, path) for text in _expected(error)
    ]
    return " or ".join(dict.fromkeys(texts)) or "of another form"


def _misses(error: jsonschema_rs.ValidationError, path: Path) -> bool:
    """Return whether the value's type or constant differs from what this branch requires."""
    return tuple(error.instance_path) == path and error.kind.name in ("type", "const", "enum")


def _is_tag(error: jsonschema_rs.ValidationError) -> bool:
    return error.kind.name in ("const", "enum")


def _expected(error: jsonschema_rs.ValidationError) -> list[str]:
    """Return the types or constants that the value must have; empty for another kind of error."""
    match error.kind:
        case Kind.Type(types):
            return [ARGUMENTS.types.get(each, each) for each in types]
        case Kind.Constant(value):
            return [_brief_constant(value)]
        case Kind.Enum(options):
            return [_listed(options)]
        case _:
            return []


def _message(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind
    if expected := _expected(error):
        actual = f", not {type_name(_instance(error))}" if isinstance(kind, Kind.Type) else ""
        return f"must be {' or '.join(expected)}{actual}"
    if kind.name in LIMITS:
        return limit_error(kind.name, kind.value)
    match kind:
        case Kind.OneOfMultipleValid(_):
            return "fits several of the forms it may have, and must fit exactly one"
        case Kind.FalseSchema():
            return ARGUMENTS.unknown
        case _:
            return f"does not keep to the rule {kind.name!r} of the tool's schema"


def type_name(value: JSON) -> str:
    """Return the JSON type of a value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case float() if not value.is_integer():
            return "a fractional number"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"


def _instance(error: jsonschema_rs.ValidationError) -> Any:  # the library's own type
    return error.instance


def _listed(options: list[Any]) -> str:  # JSON, typed more widely by the library
    texts = [_brief_constant(option) for option in options]
    joined = ", ".join(texts)
    if len(joined) > _MAX_SHOWN:
        joined = brief(", ".join(texts[:20]), _MAX_SHOWN) + ", …"
    return f"one of {joined}" if len(texts) > 1 else joined


def _brief_constant(value: Any) -> str:  # JSON, typed more widely by the library
    return brief(dumps_unescaped(value), _MAX_SHOWN)
