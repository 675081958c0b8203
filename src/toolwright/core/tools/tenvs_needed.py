"""Tenvs that a tool requires of its thread (S2 §9): the declared names, and the errors of their values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from toolwright.core.arguments.binding import build_model
from toolwright.core.arguments.errors import FieldError, InvalidArguments
from toolwright.core.arguments.signature import read_model
from toolwright.core.arguments.types import json_name, model_fields
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.env.env import Secret, Tenvs
from toolwright.core.errors import DefinitionError, TenvsRequired
from toolwright.core.forms import ARGUMENTS
from toolwright.core.json_value import JSON, JSONObject, spell
from toolwright.core.text import sentence


@dataclass(frozen=True, slots=True)
class MissingTenvs:
    """The errors of a thread's tenvs: required names that are missing, and values of a wrong type.

    `invalid` are pairs of a name and a message without values. `faults` are the same errors with full paths.
    """

    missing: tuple[str, ...] = ()
    invalid: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.invalid)

    def __or__(self, other: "MissingTenvs") -> "MissingTenvs":
        return MissingTenvs(
            tuple(dict.fromkeys(self.missing + other.missing)),
            tuple(dict.fromkeys(self.invalid + other.invalid)),
            tuple(dict.fromkeys(self.faults + other.faults)),
        )

    def __str__(self) -> str:
        parts = [f"missing: {', '.join(self.missing)}"] if self.missing else []
        return "; ".join([*parts, *self.faults])


def missing_tenvs(what: str, missing: MissingTenvs) -> TenvsRequired:
    """Return the error that `what` requires tenvs, with all missing and invalid tenvs (S2 §9.3)."""
    return TenvsRequired(
        sentence(f"{what}, its tenvs are not what its tools need: {missing}"),
        [*missing.missing],
        [{"name": name, "message": message} for name, message in missing.invalid],
    )


class Needs:
    """The tenvs that one tool declares, from its model. Raises `DefinitionError` for an invalid model.

    `schema` is the JSON Schema of the model, `names` and `secrets` are names as in JSON.
    """

    __slots__ = ("_builder", "_fields", "_validator", "names", "schema", "secrets")

    def __init__(self, model: type[BaseModel], tool: str) -> None:
        self.schema, self._builder = read_model(model, tool, "tenvs")
        self._fields = {json_name(field, name): name for name, field in model_fields(model).items()}
        self.names = frozenset(self._fields)
        self.secrets = frozenset(
            key
            for key, name in self._fields.items()
            if _is_secret(model, name, f"Tool {tool!r}: tenv {key!r}")
        )
        self._validator = ArgumentValidator(self.schema, tool)
        self._validator.compile()

    def read(self, values: Mapping[str, JSON] | Tenvs) -> dict[str, object] | MissingTenvs:
        """Return the declared names with their values, built by the model, or their errors.

        A missing optional name gets its default. Names are included both as in JSON and as in Python.
        """
        built = self.build(values)
        return built if isinstance(built, MissingTenvs) else self.by_both_names(built)

    def build(self, values: Mapping[str, JSON] | Tenvs) -> object:
        """Return an instance of the model with these values, or a `MissingTenvs` with the errors."""
        declared: JSONObject = {name: values[name] for name in self._fields if name in values}
        try:
            validated = self._validator.read(declared)
        except InvalidArguments as error:
            return _missing_or_invalid(error.faults)
        try:
            return build_model(self._builder, validated)
        except InvalidArguments as error:  # the message of a custom validator can contain the value
            return _missing_or_invalid(
                [FieldError(each.path[:1], "is not accepted") for each in error.faults]
            )

    def by_both_names(self, built: object) -> dict[str, object]:
        """Return the instance's fields by name, both in Python and in JSON spelling."""
        by_both_names = {name: getattr(built, name) for name in self._fields.values()}
        return by_both_names | {key: by_both_names[name] for key, name in self._fields.items()}


def merged_errors(needs: Iterable[Needs], values: Mapping[str, JSON]) -> MissingTenvs:
    """Return the errors of all these requirements, merged."""
    total = MissingTenvs()
    for each in needs:
        read = each.read(values)
        if isinstance(read, MissingTenvs):
            total |= read
    return total


def _missing_or_invalid(errors: Iterable[FieldError]) -> MissingTenvs:
    """Sort validation errors into missing and invalid tenvs. An error inside a value keeps its path."""
    missing: list[str] = []
    invalid: list[tuple[str, str]] = []
    texts: list[str] = []
    for error in errors:
        name, below = (str(error.path[0]), error.path[1:]) if error.path else ("tenvs", ())
        if error.text == ARGUMENTS.missing and not below:
            missing.append(name)
        else:
            invalid.append((name, str(FieldError(below, error.text))))
            texts.append(f"{spell((name, *below))} {error.text}")
    return MissingTenvs(tuple(missing), tuple(dict.fromkeys(invalid)), tuple(dict.fromkeys(texts)))


def _is_secret(model: type[BaseModel], name: str, what: str) -> bool:
    field = model_fields(model)[name]
    if _marked(field.metadata):
        if field.annotation is not str and set(get_args(field.annotation)) != {str, type(None)}:
            raise DefinitionError(
                f"{what} is a secret. A secret must be text: {_right_form(field.annotation)}."
            )
        return True
    if _hides_secret(field.annotation, ()):
        raise DefinitionError(
            f"{what} contains a secret. A secret must be a field of its own: {_right_form(field.annotation)}."
        )
    return False


def _right_form(annotation: Any) -> str:  # any annotation
    text = "str | None" if type(None) in get_args(annotation) else "str"
    return f"annotate it Annotated[{text}, tw.Secret]"


def _hides_secret(annotation: Any, enclosing: tuple[object, ...]) -> bool:  # any annotation
    if _marked(getattr(annotation, "__metadata__", ())):
        return True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in enclosing:
        fields = model_fields(annotation).values()
        return any(
            _marked(f.metadata) or _hides_secret(f.annotation, (*enclosing, annotation)) for f in fields
        )
    return any(_hides_secret(part, enclosing) for part in get_args(annotation))


def _marked(metadata: Iterable[object]) -> bool:
    return any(note is Secret or isinstance(note, Secret) for note in metadata)
