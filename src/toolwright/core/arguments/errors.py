"""Validation errors of a tool call's arguments, as messages with every path (D3)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import jsonschema_rs
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolwright.core.forms import ARGUMENTS, LIMITS, Vocabulary, form_error, is_of_another_form, limit_error
from toolwright.core.json_value import JSON, Path, dumps_unescaped, spell
from toolwright.core.limits import MAX_ERRORS
from toolwright.core.text import brief

Kind = jsonschema_rs.ValidationErrorKind
Branch: TypeAlias = list[jsonschema_rs.ValidationError]
OUT_OF_RANGE = "is out of the range of numbers"
_MAX_SHOWN = 300
_MAX_SENT = 60  # characters of a sent value that an error quotes
_MAX_WAYS = 5


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
    more = f"; and {len(unique) - MAX_ERRORS} more" if len(unique) > MAX_ERRORS else ""
    return f"{'; '.join(brief(str(error)) for error in unique[:MAX_ERRORS])}{more}"


def details_of(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """Return the errors as details of a rejected request."""
    return [{"path": spell(each.path), "message": each.text} for each in islice(errors, MAX_ERRORS)]


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


def built_errors(error: ValidationError, value: JSON, words: Vocabulary = ARGUMENTS) -> list[FieldError]:
    """Convert pydantic's errors of a value that its schema accepts, such as those of a user's validators."""
    details = error.errors(include_url=False, include_input=False)
    places = [place_in(value, each["loc"][: -1 if each["type"] == "missing" else None]) for each in details]
    meant = _meant([*zip(details, places, strict=True)])
    unions: dict[Path, dict[Path, list[FieldError]]] = {}
    for number, (each, place) in enumerate(meant):
        # An error outside unions is alone in a group, which no location can name. So is one within a text: its steps
        # are those of what a validator has parsed from it.
        is_in_union = place.branches and not isinstance(place_in(value, place.branches[0][:-1]).part, str)
        branch = place.branches[0] if is_in_union else (f"\0{number}", "")
        unions.setdefault(branch[:-1], {}).setdefault(branch, []).append(_built_error(each, place, words))
    return [
        field_error
        for union, branches in unions.items()
        for field_error in _of_any_branch(place_in(value, union).path, [*branches.values()])
    ]


def _of_any_branch(union: Path, branches: list[list[FieldError]]) -> Iterator[FieldError]:
    """Yield the errors of the only branch of a union, or one error that names those of all its branches."""
    alternatives = [*dict.fromkeys(map(tuple, branches))]
    if len(alternatives) == 1:
        yield from alternatives[0]
    else:
        yield _fits_none(union, alternatives)


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


def _built_error(detail: ErrorDetails, place: Place, words: Vocabulary) -> FieldError:
    missing = detail["loc"][-1:] if detail["type"] == "missing" else ()
    return FieldError((*place.path, *missing), form_error({**detail, "input": place.part}, words))


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
            yield _fits_none(path, [*branch_errors])
        return
    yield FieldError(
        path, f"must be {_alternatives(branches, path)}, not {_sent(_instance(error), branches)}"
    )


def _sent(value: JSON, branches: list[Branch]) -> str:
    """Return the value that was sent, if constants of its type are expected; otherwise its type."""
    constants = [each for branch in branches for error in branch for each in _constants(error)]
    written = dumps_unescaped(value) if isinstance(value, str | int | float) else ""
    is_quoted = 0 < len(written) <= _MAX_SENT and any(type(each) is type(value) for each in constants)
    return written if is_quoted else type_name(value)


def _constants(error: jsonschema_rs.ValidationError) -> list[Any]:  # JSON, typed more widely by the library
    match error.kind:
        case Kind.Constant(constant):
            return [constant]
        case Kind.Enum(options):
            return options
        case _:
            return []


def _distance(branch: Branch) -> tuple[int, int, int]:
    """Return the distance of a value from a branch of a union: differing constants, its form, then limits."""
    limits = sum(error.kind.name in LIMITS for error in branch)
    return sum(map(_is_tag, branch)), len(branch) - limits, limits


def _fits_none(union: Path, branches: list[tuple[FieldError, ...]]) -> FieldError:
    return FieldError(union, f"fits none of the forms it may have: {_shared_errors(branches, len(union))}")


def _shared_errors(branches: list[tuple[FieldError, ...]], depth: int) -> str:
    """Return the errors of several branches that are equally close, with paths relative to the union."""
    texts = [
        f"({'; '.join(str(FieldError(error.path[depth:], error.text)) for error in branch)})"
        for branch in branches[:_MAX_WAYS]
    ]
    more = f" or {len(branches) - _MAX_WAYS} more" if len(branches) > _MAX_WAYS else ""
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
