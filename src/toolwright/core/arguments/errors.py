"""Validation errors of a tool call's arguments, as messages with every path (D3)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jsonschema_rs

from toolwright.core.json_value import JSON, dumps_unescaped
from toolwright.core.plain import Path, spell
from toolwright.core.text import brief, quantity

Kind = jsonschema_rs.ValidationErrorKind
Branch: TypeAlias = list[jsonschema_rs.ValidationError]
MAX_FAULTS = 100
MAX_EXAMINED = 10_000  # maximum number of errors that are examined
_MAX_SHOWN = 300
_TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


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
    return f"Invalid arguments: {join_errors(errors)}."


def join_errors(errors: Sequence[FieldError]) -> str:
    """Return the errors on one line, without duplicates, and the number of omitted errors."""
    texts = list(dict.fromkeys(brief(str(error)) for error in errors[:MAX_EXAMINED]))
    more = f"; and {len(texts) - MAX_FAULTS} more" if len(texts) > MAX_FAULTS else ""
    return f"{'; '.join(texts[:MAX_FAULTS])}{more}"


def field_errors(errors: Iterable[jsonschema_rs.ValidationError]) -> list[FieldError]:
    """Convert a validator's errors to ours."""
    return [field_error for error in errors for field_error in _field_errors(error)]


def _field_errors(error: jsonschema_rs.ValidationError) -> Iterator[FieldError]:
    path, kind = tuple(error.instance_path), error.kind
    match kind:
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            for name in names:
                yield FieldError((*path, name), "is not a known argument")
        case Kind.Required(name):
            yield FieldError((*path, name), "is missing")
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


def _distance(branch: Branch) -> tuple[int, int]:
    """Return the distance of a value from a branch of a union: differing constants, then errors."""
    return sum(map(_is_tag, branch)), len(branch)


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
    texts = [text for branch in branches for error in branch for text in _type_error(error, path)]
    return " or ".join(dict.fromkeys(texts)) or "of another form"


def _misses(error: jsonschema_rs.ValidationError, path: Path) -> bool:
    """Return whether the value's type or constant differs from what this branch requires."""
    return tuple(error.instance_path) == path and error.kind.name in ("type", "const", "enum")


def _is_tag(error: jsonschema_rs.ValidationError) -> bool:
    return error.kind.name in ("const", "enum")


def _type_error(error: jsonschema_rs.ValidationError, path: Path) -> list[str]:
    if not _misses(error, path):
        return []
    match error.kind:
        case Kind.Type(types):
            return [_TYPES.get(each, each) for each in types]
        case Kind.Constant(value):
            return [_brief_constant(value)]
        case Kind.Enum(options):
            return [_listed(options)]
        case _:
            return []


def _message(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind
    match kind:
        case Kind.Type(types):
            expected = " or ".join(_TYPES.get(each, each) for each in types)
            return f"must be {expected}, not {type_name(_instance(error))}"
        case Kind.Enum(options):
            return f"must be {_listed(options)}"
        case Kind.Constant(value):
            return f"must be {_brief_constant(value)}"
        case Kind.Minimum(limit):
            return f"must be at least {limit}"
        case Kind.Maximum(limit):
            return f"must be at most {limit}"
        case Kind.ExclusiveMinimum(limit):
            return f"must be more than {limit}"
        case Kind.ExclusiveMaximum(limit):
            return f"must be less than {limit}"
        case Kind.MultipleOf(step):
            return f"must be a multiple of {step}"
        case Kind.MinLength(limit):
            return f"must have at least {quantity(limit, 'character')}"
        case Kind.MaxLength(limit):
            return f"must have at most {quantity(limit, 'character')}"
        case Kind.MinItems(limit):
            return f"must have at least {quantity(limit, 'item')}"
        case Kind.MaxItems(limit) | Kind.AdditionalItems(limit):
            return f"must have at most {quantity(limit, 'item')}"
        case Kind.MinProperties(limit):
            return f"must have at least {quantity(limit, 'property')}"
        case Kind.MaxProperties(limit):
            return f"must have at most {quantity(limit, 'property')}"
        case Kind.Pattern(pattern):
            return f"must match the pattern {pattern}"
        case Kind.Format(name):
            return f"must be text in the format {name}"
        case Kind.OneOfMultipleValid(_):
            return "fits several of the forms it may have, and must fit exactly one"
        case Kind.FalseSchema():
            return "is not a known argument"
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
