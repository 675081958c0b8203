"""Types of a tool's arguments (S2 §3.2): read by pydantic's adapters, unsupported ones rejected with their path."""

import dataclasses
import sys
import types
import typing
import warnings
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, NewType, TypeAlias, Union, get_args, get_origin

import pydantic
import typing_extensions
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.warnings import UnsupportedFieldAttributeWarning
from pydantic_core import PydanticUndefined, SchemaError

from toolwright.core.arguments.binding import fresh, is_plain_scalar, is_shared, misfit_default
from toolwright.core.env.env import Secret
from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.json_value import plain
from toolwright.core.text import pydantic_reason, sentence

ALLOWED = (
    "str, int, float, bool, None, Literal, an Enum of texts, Optional, Union, list[T], dict[str, T], "
    "a BaseModel, a TypedDict or a dataclass"
)


def adapter_of(annotation: Any, what: str) -> pydantic.TypeAdapter[object]:  # any annotation
    """Return the adapter of a type. Raises `DefinitionError`, whose message begins with `what`."""
    try:
        with warnings.catch_warnings():
            # Pydantic supports aliases only for a model's fields; here the alias is the parameter's name in JSON.
            warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
            return pydantic.TypeAdapter[object](annotation)
    except (
        pydantic.PydanticUserError,
        PydanticUndefinedAnnotation,
        pydantic.PydanticSchemaGenerationError,
        SchemaError,
    ) as error:
        raise DefinitionError(f"{what} cannot be used: {pydantic_reason(error)}") from error


def confused(members: tuple[Any, ...]) -> bool:  # any annotations
    """Return whether a literal of the union equals a value of another member (`True == 1`)."""
    bools = [each for each in members if _bare(each) is bool or True in _kinds(each)]
    numbers = [each for each in members if _bare(each) in (int, float) or False in _kinds(each)]
    literal = [each for each in (*bools, *numbers) if get_origin(_bare(each)) is Literal]
    return bool(literal) and bool(bools) and any(each is not bools[0] for each in numbers)


def exactly(member: Any) -> Any:  # any annotation
    """Return the member of a union; a literal is changed so that it distinguishes booleans from numbers."""
    bare = _bare(member)
    if get_origin(bare) is not Literal:
        return member
    return Annotated[member, pydantic.BeforeValidator(partial(_checked, get_args(bare)))]


def _checked(options: tuple[object, ...], value: object) -> object:
    if isinstance(value, int | float) and not any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in options
    ):
        raise ValueError("must be one of the literals")
    return value


def _kinds(member: Any) -> set[bool]:  # any annotation
    """Return whether a literal's options include booleans (True) and a 0 or 1 (False)."""
    bare = _bare(member)
    if get_origin(bare) is not Literal:
        return set()
    return {
        isinstance(each, bool) for each in get_args(bare) if isinstance(each, int) and int(each) in (0, 1)
    }


def _bare(member: Any) -> Any:  # any annotation
    return get_args(member)[0] if get_origin(member) is Annotated else member


Annotation: TypeAlias = Any  # Python has no static type for annotations
"""A type annotation."""

_SCALARS = (str, int, bool, type(None))
_QUALIFIERS = (
    typing.Required, typing.NotRequired, typing_extensions.Required, typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
)  # fmt: skip
_TypedDict = typing_extensions.TypedDict


def _converts(note: object) -> bool:
    """Return whether a validator gets values before pydantic validates them, without saying of which type."""
    if not isinstance(note, pydantic.BeforeValidator | pydantic.WrapValidator):
        return False
    return note.json_schema_input_type is PydanticUndefined


def _has_converters(kind: Any) -> bool:  # a model or a dataclass
    """Return whether a class has such validators as methods."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    if decorators is None:
        return False
    own = [*decorators.field_validators.values(), *decorators.model_validators.values()]
    return any(
        each.info.mode in ("before", "wrap")
        and getattr(each.info, "json_schema_input_type", PydanticUndefined) is PydanticUndefined
        for each in own
    )


class TypeReader:
    """Reads the annotations of one tool's parameters and rejects types that a schema cannot express.

    `read` returns the annotation for pydantic, and sets flags for the types read so far. `builds`: a value differs from
    its JSON, so pydantic has to build it for the handler. `classes`: it differs in more than its floats. `shares`:
    built values would share a default. `extra`: one of the types accepts unknown fields. `converts`: a validator runs
    before pydantic validates the type, and has declared no `json_schema_input_type`.
    """

    def __init__(self, tool: str) -> None:
        self.builds = False
        self.classes = False
        self.shares = False
        self.extra = False
        self.converts = False
        self._tool = tool
        self._defaults: list[tuple[Annotation, object, str]] = []
        self._open: list[object] = []
        self._known: dict[object, Annotation] = {}
        self._finite: set[object] = set()

    def read(self, annotation: Annotation, path: str) -> Annotation:
        """Check `annotation`; raises `DefinitionError` naming the tool and the path."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._annotated(arguments, path)
        if origin in _QUALIFIERS:
            return origin[self.read(arguments[0], path)]
        if origin is Literal:
            return self._literal(annotation, arguments, path)
        if origin in (Union, types.UnionType):
            return self._union(arguments, path)
        if origin is list and arguments:
            return list[self.read(arguments[0], f"{path}[]")]
        if origin is dict and arguments:
            return self._dict(arguments, path)
        return self._simple(annotation, origin, path)

    def read_model(self, model: type[pydantic.BaseModel]) -> None:
        """Check the fields of `args=Model`, whose names are the argument names."""
        self._structure(model, "", self._model)

    def _simple(self, annotation: Annotation, origin: object, path: str) -> Annotation:
        if annotation in _SCALARS or annotation is None:
            return annotation
        if annotation is float:
            self.builds = True
            return annotation
        if isinstance(annotation, NewType):
            return self.read(annotation.__supertype__, path)
        if isinstance(annotation, typing_extensions.TypeAliasType):
            return self._alias(annotation, path)
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            return self._enum(annotation, path)
        if _is_typed_dict(annotation):
            return self._structure(annotation, path, self._typed_dict)
        if _is_model(annotation):
            self.builds = self.classes = True
            return self._structure(annotation, path, self._model)
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            self.builds = self.classes = True
            return self._structure(annotation, path, self._dataclass)
        raise self.refuse(path, annotation)

    def _annotated(self, arguments: tuple[object, ...], path: str) -> Annotation:
        kind, *written = arguments
        notes = [
            each if (text := note_text(each)) is None else pydantic.Field(description=text)
            for each in written
        ]
        if any(not isinstance(note, FieldInfo) for note in notes):
            self.builds = self.classes = True
        self.converts |= any(map(_converts, notes))
        return Annotated[(self.read(kind, path), *notes)]

    def _union(self, members: tuple[object, ...], path: str) -> Annotation:
        types = [self.read(member, path) for member in members]
        others = [member for member in members if member is not type(None)]
        self.classes |= len(others) > 1  # a union has to be resolved
        if confused(members):
            if self._open:
                raise self._definition_error(
                    path,
                    "has a union whose literals pydantic takes for other members of it, 1 for True or True for 1: "
                    "use texts for the literals",
                )
            types = [exactly(member) for member in types]
        return Union[tuple(types)]  # noqa: UP007 - built at run time

    def _alias(self, annotation: typing_extensions.TypeAliasType, path: str) -> Annotation:
        if annotation in self._open:
            raise self._definition_error(
                path, f"has the alias {annotation.__name__}, which is defined by itself; use a model"
            )
        self._open.append(annotation)
        try:
            return self.read(annotation.__value__, path)
        finally:
            self._open.pop()

    def _literal(self, annotation: Annotation, values: tuple[object, ...], path: str) -> Annotation:
        for value in values:
            if value is not None and type(value) not in (str, int, bool):
                raise self._definition_error(
                    path, f"has the literal {value!r}; literals are texts, integers, booleans or None"
                )
        return annotation

    def _enum(self, annotation: type[Enum], path: str) -> Annotation:
        members = list(annotation)
        if not members or not all(isinstance(member.value, str) for member in members):
            raise self._definition_error(
                path, f"has the type {annotation.__name__}, an Enum whose values are not all texts"
            )
        self.builds = self.classes = True
        return annotation

    def _dict(self, arguments: tuple[object, ...], path: str) -> Annotation:
        key, item = arguments
        if key is not str:
            raise self._definition_error(
                path, f"is a dict with keys of the type {name_of(key)}; in JSON a key is text (str)"
            )
        return dict[str, self.read(item, f"{path}.*")]

    def _structure(
        self, annotation: Annotation, path: str, read: typing.Callable[[Annotation, str], Annotation]
    ) -> Annotation:
        """Return a type with fields; it can be recursive."""
        if annotation in self._open:
            return self._known.get(annotation, annotation)
        if annotation in self._known:
            return self._known[annotation]
        self._open.append(annotation)
        try:
            type_ = read(annotation, path)
        finally:
            self._open.pop()
        if not self._ends(annotation, ()):
            raise self._definition_error(
                path, f"has the type {name_of(annotation)}, which requires itself without end"
            )
        self._known[annotation] = type_
        return type_

    def _model(self, annotation: Annotation, path: str) -> Annotation:
        self.extra |= annotation.model_config.get("extra") == "allow"
        self.converts |= _has_converters(annotation)
        for name, field in model_fields(annotation).items():
            self.converts |= any(map(_converts, field.metadata))
            inner = _nested_path(path, json_name(field, name))
            if not field.is_required() and field.default_factory is None:
                field_type = (
                    Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
                )
                own = field.validate_default or annotation.model_config.get("validate_default")
                self._field_default(None if own else field_type, field.default, inner)
            self.read(field.annotation, inner)
        return annotation

    def _dataclass(self, annotation: Annotation, path: str) -> Annotation:
        self.extra |= getattr(annotation, "__pydantic_config__", {}).get("extra") == "allow"
        self.converts |= _has_converters(annotation)
        hints = self._hints(annotation, path)
        for field in dataclasses.fields(annotation):
            inner = _nested_path(path, field.name)
            default = field.default
            if isinstance(default, FieldInfo):
                default = default.default
            if default is not dataclasses.MISSING and repr(default) != "PydanticUndefined":
                self._field_default(hints[field.name], default, inner)
            if field.init:
                self.read(hints[field.name], inner)
        return annotation

    def _typed_dict(self, annotation: Annotation, path: str) -> Annotation:
        """Return the same TypedDict, as the class that pydantic also accepts before Python 3.12."""
        if get_origin(annotation) is not None:
            raise self._definition_error(
                path, f"has the generic TypedDict {annotation!r}; write out a TypedDict of its own"
            )
        self.extra |= getattr(annotation, "__pydantic_config__", {}).get("extra") == "allow"
        hints = self._hints(annotation, path)
        fields = {name: self.read(kind, f"{path}.{name}") for name, kind in hints.items()}
        if not _is_old_typed_dict(annotation):
            return annotation
        required: frozenset[str] = annotation.__required_keys__
        return _rebuilt(annotation, {n: _qualified(k, n in required) for n, k in fields.items()})

    def _hints(self, annotation: Annotation, path: str) -> dict[str, Annotation]:
        try:
            return typing_extensions.get_type_hints(
                annotation, localns={name_of(annotation): annotation}, include_extras=True
            )
        except (NameError, TypeError) as error:
            raise self._definition_error(
                path, f"has the type {name_of(annotation)}, whose fields cannot be read: {error}"
            ) from error

    def _ends(self, annotation: Annotation, enclosing: tuple[object, ...]) -> bool:
        """Return whether the type has a finite value."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated or origin in _QUALIFIERS:
            return self._ends(arguments[0], enclosing)
        if origin in (Union, types.UnionType):
            return any(self._ends(member, enclosing) for member in arguments)
        if origin is not None or annotation in self._finite:
            return True
        if annotation in enclosing:
            return False
        ends = all(self._ends(kind, (*enclosing, annotation)) for kind in _required(annotation))
        if ends:
            self._finite.add(annotation)
        return ends

    def default(self, value: object, path: str) -> None:
        """Raise `DefinitionError` for a default that JSON cannot represent."""
        try:
            plain(value)
        except InvalidJSON as error:
            raise self._definition_error(
                path, f"has a default that is not a JSON value: {error.message.rstrip('.')}"
            ) from error

    def _field_default(self, annotation: Annotation | None, value: object, path: str) -> None:
        """Record a field's default, which is validated after its type is complete; None if pydantic validates it."""
        self.default(value, path)
        self.shares |= is_shared(value)
        if annotation is not None and not is_plain_scalar(annotation, value):
            self._defaults.append((annotation, value, path))

    def check_defaults(self) -> None:
        """Raise `DefinitionError` for field defaults read so far that their own types reject."""
        for annotation, value, path in self._defaults:
            self.check_default(annotation, value, path)
        self._defaults.clear()

    def check_default(
        self, annotation: Annotation, value: object, path: str
    ) -> typing.Callable[[], object] | None:
        """Return a factory of the default for each call, or None if all calls can share it.

        Raises `DefinitionError` if the type rejects the default.
        """
        try:
            return fresh(adapter_of(annotation, f"Tool {self._tool!r}: parameter {path!r}"), value)
        except pydantic.ValidationError as error:
            raise self._definition_error(path, misfit_default(value, error)) from None

    def refuse(self, path: str, annotation: Annotation) -> DefinitionError:
        """Return the error for a type that is not allowed."""
        why = f"has the type {name_of(annotation)}, which a tool cannot take; allowed are {ALLOWED}"
        if annotation is Secret or isinstance(annotation, Secret):
            why = (
                "has the type Secret, which only marks a tenv: make it a field of the tenvs= model, "
                "annotated Annotated[str, tw.Secret]"
            )
        return self._definition_error(path, why)

    def _definition_error(self, path: str, why: str) -> DefinitionError:
        return DefinitionError(sentence(f"Tool {self._tool!r}: parameter {path!r} {why}"))


def note_text(note: object) -> str | None:
    """Return the description in metadata of `Annotated`, a text or a `Doc`, or None for other metadata."""
    if isinstance(note, typing_extensions.Doc):
        return note.documentation
    return note if isinstance(note, str) else None


def noted(annotation: Annotation) -> str | None:
    """Return the description in the metadata of an annotation, or None."""
    texts = map(note_text, get_args(annotation)[1:]) if get_origin(annotation) is Annotated else ()
    return next((text.strip() for text in texts if text and text.strip()), None)


def model_fields(annotation: Annotation) -> dict[str, FieldInfo]:
    """Return the fields of a model, with forward references resolved."""
    model: type[pydantic.BaseModel] = annotation
    model.model_rebuild(raise_errors=False)
    return model.model_fields


def json_name(field: FieldInfo, name: str) -> str:
    """Return the name of a field in JSON: its alias, or its own."""
    return field.validation_alias if isinstance(field.validation_alias, str) else name


def name_of(annotation: Annotation) -> str:
    """Return a type's name as its author wrote it."""
    if get_origin(annotation) is None and isinstance(annotation, type):
        return annotation.__name__
    return repr(annotation).replace("typing.", "")


def _nested_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _required(annotation: Annotation) -> list[Annotation]:
    if _is_typed_dict(annotation):
        hints = typing_extensions.get_type_hints(annotation)
        return [hints[name] for name in annotation.__required_keys__]
    if _is_model(annotation):
        return [field.annotation for field in model_fields(annotation).values() if field.is_required()]
    if not dataclasses.is_dataclass(annotation):
        return []
    hints = typing_extensions.get_type_hints(annotation, localns={name_of(annotation): annotation})
    missing = dataclasses.MISSING
    return [
        hints[field.name]
        for field in dataclasses.fields(annotation)
        if field.init and field.default is missing and field.default_factory is missing
    ]


def _is_model(annotation: Annotation) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)


def _is_typed_dict(annotation: Annotation) -> bool:
    return typing_extensions.is_typeddict(get_origin(annotation) or annotation)


def _is_old_typed_dict(annotation: Annotation) -> bool:
    return sys.version_info < (3, 12) and type(annotation).__module__ == "typing"


def _qualified(annotation: Annotation, required: bool) -> Annotation:
    if get_origin(annotation) in _QUALIFIERS:
        return annotation
    qualifier = typing_extensions.Required if required else typing_extensions.NotRequired
    return qualifier[annotation]


def _rebuilt(annotation: Annotation, fields: dict[str, Annotation]) -> Annotation:
    make = typing.cast("typing.Callable[..., type]", _TypedDict)  # the functional form takes run-time fields
    again = make(name_of(annotation), fields)
    again.__doc__ = annotation.__doc__
    again.__module__ = getattr(annotation, "__module__", __name__)
    return again
