"""Signatures: read a Python function's parameters and docstring as a JSON Schema, and bind JSON arguments to them."""

import dis
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, TypeAlias

from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo

from toolwright.core.arguments.binding import Argument, Binding, Builder, complete, is_plain_scalar
from toolwright.core.arguments.schema import closed, with_definitions
from toolwright.core.arguments.types import Annotation, TypeReader, adapter_of, json_name, model_fields, noted
from toolwright.core.arguments.validator import Complete
from toolwright.core.dependencies.depends import (
    Dependency,
    DependencyReader,
    Function,
    bound_names,
    innermost,
    is_state,
    mark_of,
    read_hints,
    runs_on_loop,
)
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, plain
from toolwright.core.text import sentence

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments):\s*$")
_HEADING = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_ENTRY = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_NO_ARGUMENTS: JSONObject = {"type": "object", "properties": {}}


def first_paragraph(doc: str | None) -> str:
    """Return the first paragraph on one line; empty if there is none."""
    lines: list[str] = []
    for line in inspect.cleandoc(doc or "").splitlines():
        if not line.strip() or _HEADING.match(line):
            break
        lines.append(line.strip())
    return " ".join(lines)


def parameter_descriptions(doc: str | None) -> dict[str, str]:
    """Return each parameter's description on one line, by name, from sections such as `Args:`."""
    descriptions: dict[str, str] = {}
    inside, indent, name = False, -1, ""
    for line in inspect.cleandoc(doc or "").splitlines():
        text = line.strip()
        if line and not line[0].isspace():
            inside, indent, name = bool(_SECTION.match(line)), -1, ""
            continue
        if not inside or not text:
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent < 0 else indent
        entry = _ENTRY.match(text) if depth <= indent else None
        if entry:
            name = entry["name"]
            descriptions[name] = entry["text"].strip()
        elif name:
            descriptions[name] = f"{descriptions[name]} {text}".strip()
    return {key: text for key, text in descriptions.items() if text}


Handler: TypeAlias = Function
"""A function that executes calls: plain or async, or a callable object."""

_YIELDS = frozenset({dis.opmap["YIELD_VALUE"], dis.opmap["SEND"]})
_SCALARS: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of a handler: the schema of its arguments, and the binding of JSON arguments to parameters.

    `opened` is the schema without the parameters whose own validators convert a value first, or None if there are none.
    `on_loop` is true for async handlers; all others run in a thread. `waits` is false for async handlers without an
    `await` and without dependencies, which the event loop never interrupts.
    """

    parameters: JSONObject
    binding: Binding
    on_loop: bool
    waits: bool = True
    opened: JSONObject | None = None

    @property
    def takes_nothing(self) -> bool:
        """Return whether the tool has no arguments. Any arguments of a model are then ignored (D3)."""
        return not self.parameters["properties"] and not self.parameters.get("additionalProperties")


def read_signature(
    handler: Handler, *, name: str, args: type[BaseModel] | None, scope: Mapping[str, object]
) -> Signature:
    """Read a handler's signature; raises `DefinitionError` naming the tool `name` and the invalid path.

    With `args` the handler gets an instance of that model in its only other parameter. `scope` holds the names at the
    definition, for string annotations.
    """
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise DefinitionError(
            f"Tool {name!r}: its function is a generator. A tool must return a single result."
        )
    parameters = _Parameters(handler, name, scope)
    parameters.check_docstring(args is not None)
    if args is None:
        schema, arguments = _from_parameters(parameters, name)
        binding = Binding(
            arguments=arguments, state=parameters.state, model=None, dependencies=parameters.dependencies
        )
    else:
        schema, builder = read_model(args, name, "args")
        model = (parameters.only(), builder)
        binding = Binding(
            arguments=(), state=parameters.state, model=model, dependencies=parameters.dependencies
        )
    return signature_of(handler, schema, binding, _opened(schema, binding))


def signature_of(
    handler: Handler, parameters: JSONObject, binding: Binding, opened: JSONObject | None = None
) -> Signature:
    """Return the signature of a handler with a separately declared schema and its own binding."""
    waits = can_wait(handler) or bool(binding.dependencies)
    return Signature(
        parameters=parameters, binding=binding, on_loop=runs_on_loop(handler), waits=waits, opened=opened
    )


def _opened(schema: JSONObject, binding: Binding) -> JSONObject | None:
    """Return the schema without the parameters that pydantic has to convert before they can be validated."""
    if binding.converts_model:
        return {"type": "object"}
    properties = schema["properties"]
    if not binding.converted or not isinstance(properties, dict):
        return None
    return {**schema, "properties": {**properties, **{name: {} for name in binding.converted}}}


class _Parameters:
    """A handler's parameters: the state, the dependencies, and the others with their annotations."""

    def __init__(self, handler: Handler, tool: str, scope: Mapping[str, object]) -> None:
        self.state: str | None = None
        self.others: dict[str, inspect.Parameter] = {}
        self.doc = inspect.getdoc(inspect.unwrap(innermost(handler)))
        self._tool = tool
        self.hints = read_hints(handler, f"Tool {tool!r}", scope)
        self.dependencies: dict[str, Dependency] = {}
        self._reader = DependencyReader(f"Tool {tool!r}", scope)
        self._bound = bound_names(handler)
        self._own = inspect.unwrap(innermost(handler))
        for parameter in self._inspect(handler).parameters.values():
            if parameter.name not in self._bound:
                self._add(parameter)

    def only(self) -> str:
        """Return the single parameter other than the state, which receives the model."""
        if len(self.others) != 1:
            raise DefinitionError(
                f"Tool {self._tool!r}: with args= the function must take one parameter besides the state, "
                f"not {len(self.others)} ({', '.join(self.others) or 'none'})."
            )
        return next(iter(self.others))

    def check_docstring(self, takes_model: bool) -> None:
        """Raise `DefinitionError` if the docstring describes an argument that the function does not have."""
        parameters = {*self.others, *self.dependencies, *self._bound}
        parameters.update([] if self.state is None else [self.state])
        parameters.update(self._inspect(self._own).parameters)  # including those bound by a partial
        described = parameter_descriptions(self.doc)
        wrong = next((name for name in described if name not in parameters), None)
        if wrong is None or takes_model:  # the docstring can describe the model's fields
            return
        names = list(self.others)
        close = get_close_matches(wrong, [name for name in names if name not in described], n=1)
        suggestion = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(names) or 'none'}."
        raise DefinitionError(
            f"Tool {self._tool!r}: its docstring describes the argument {wrong!r}, which it does not have; {suggestion}"
        )

    def untyped(self, name: str) -> DefinitionError:
        """Return the error for a parameter without a type."""
        if name in ("self", "cls") and next(iter(self.others)) == name:
            return DefinitionError(
                f"Tool {self._tool!r} is a method of no object yet: make the tool of a bound method, as in "
                f"tw.tool(thing.{self._tool}), or of a function."
            )
        return DefinitionError(f"Tool {self._tool!r}: parameter {name!r} has no type; annotate it.")

    def _add(self, parameter: inspect.Parameter) -> None:
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise self._definition_error(
                name, "takes any number of arguments, which a schema cannot say; name each of them"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise self._definition_error(
                name, "is positional-only, but arguments come by name; remove the '/'"
            )
        hint = self.hints.get(name)
        mark = mark_of(hint, parameter.default, f"Tool {self._tool!r}: parameter {name!r}")
        if mark is not None:
            self.dependencies[name] = self._reader.read(mark)
        elif not is_state(hint):
            self.others[name] = parameter
        elif self.state is None:
            self.state = name
        else:
            raise self._definition_error(name, f"is a second ThreadState beside {self.state!r}")

    def _inspect(self, handler: Handler) -> inspect.Signature:
        try:
            return inspect.signature(handler)
        except (ValueError, TypeError) as error:
            raise DefinitionError(f"Tool {self._tool!r}: its function has no readable signature.") from error

    def _definition_error(self, name: str, why: str) -> DefinitionError:
        return DefinitionError(sentence(f"Tool {self._tool!r}: parameter {name!r} {why}"))


def _from_parameters(parameters: _Parameters, tool: str) -> tuple[JSONObject, tuple[Argument, ...]]:
    described = parameter_descriptions(parameters.doc)
    arguments: list[Argument] = []
    schemas: JSONObject = {}
    adapters: list[tuple[str, typing.Literal["validation"], TypeAdapter[object]]] = []
    required: list[JSON] = []
    for name, parameter in parameters.others.items():
        if name not in parameters.hints:
            raise parameters.untyped(name)
        hint = parameters.hints[name]
        field, described_by = _field(hint, parameter), described.get(name)
        key = json_name(field, name)
        if key in schemas:
            raise DefinitionError(f"Tool {tool!r}: two parameters are both called {key!r}.")
        reader = TypeReader(tool)
        annotation = reader.read(hint, key)
        argument_schema: JSONObject = {}
        adapter: TypeAdapter[object] | None = None
        if annotation in _SCALARS and not isinstance(parameter.default, FieldInfo):
            argument_schema = {"type": _SCALARS[annotation]}
        else:
            adapter = adapter_of(_with_field(annotation, parameter), f"Tool {tool!r}: parameter {key!r}")
            adapters.append((key, "validation", adapter))
        schemas[key] = argument_schema
        if field.is_required():
            required.append(key)
        elif field.default_factory is None:
            reader.default(field.default, key)
            argument_schema["default"] = plain(field.default)
        description = field.description or noted(hint) or described_by
        if description:
            argument_schema["description"] = description
        reader.check_defaults()
        builder = _builder(adapter, reader) if adapter is not None and reader.builds else None
        default = _default(reader, key, annotation, field, parameter)
        arguments.append(
            Argument(key=key, parameter=name, number=annotation is float, builder=builder, default=default)
        )
    return _assemble(schemas, adapters, required, tool), tuple(arguments)


def _builder(adapter: TypeAdapter[object], reader: TypeReader) -> Builder:
    return Builder(
        adapter=adapter,
        copies=reader.shares,
        extra=reader.extra,
        classes=reader.classes,
        converts=reader.converts,
    )


def _default(
    reader: TypeReader, key: str, annotation: Annotation, field: FieldInfo, parameter: inspect.Parameter
) -> Callable[[], object] | None:
    """Return a factory for a call's default, or None without a default or if all calls can share the function's own."""
    if field.is_required():
        return None
    if field.default_factory is not None:
        return functools.partial(field.get_default, call_default_factory=True)
    own = parameter.default is not parameter.empty and not isinstance(parameter.default, FieldInfo)
    if own and is_plain_scalar(annotation, field.default):
        return None
    make = reader.check_default(_with_field(annotation, parameter), field.default, key)
    return make if own or make is not None else lambda: field.default


def _field(hint: Annotation, parameter: inspect.Parameter) -> FieldInfo:
    """Return pydantic's `Field` of a parameter, from `Annotated` or its default."""
    kind = typing.cast("type[typing.Any]", hint)  # pydantic accepts any annotation here
    if parameter.default is parameter.empty:
        return FieldInfo.from_annotation(kind)
    return FieldInfo.from_annotated_attribute(kind, parameter.default)


def _with_field(annotation: Annotation, parameter: inspect.Parameter) -> Annotation:
    return (
        Annotated[annotation, parameter.default] if isinstance(parameter.default, FieldInfo) else annotation
    )


def _assemble(
    schemas: JSONObject,
    adapters: list[tuple[str, typing.Literal["validation"], TypeAdapter[object]]],
    required: list[JSON],
    tool: str,
) -> JSONObject:
    """Return one schema of all parameters, with the definitions that they share."""
    if not schemas:
        return dict(_NO_ARGUMENTS)
    definitions: JSON = None
    if adapters:
        generated, shared = _json_schemas(adapters, tool)
        definitions = shared.get("$defs")
        for key, schema in generated.items():
            own = schemas[key]
            schemas[key] = {**schema, **own} if isinstance(own, dict) else schema
    object_schema: JSONObject = {"type": "object", "properties": schemas, "required": required}
    if not required:
        del object_schema["required"]
    return typing.cast("JSONObject", closed(with_definitions(object_schema, definitions)))  # stays an object


def _json_schemas(
    adapters: list[tuple[str, typing.Literal["validation"], TypeAdapter[object]]], tool: str
) -> tuple[dict[str, JSONObject], JSONObject]:
    try:
        generated, shared = TypeAdapter.json_schemas(adapters)
    except PydanticUserError as error:
        raise DefinitionError(sentence(f"Tool {tool!r}: {error.message}")) from error
    return {str(key): typing.cast("JSONObject", schema) for (key, _), schema in generated.items()}, shared


def read_model(model: type[BaseModel], tool: str, what: str) -> tuple[JSONObject, Builder]:
    """Return the schema of `args=Model` or `tenvs=Model`. The root of a recursive model is not a reference."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):  # type: ignore[redundant-expr]  # user input
        raise DefinitionError(f"Tool {tool!r}: {what}= must be a pydantic model, not {model!r}.")
    if model is BaseModel:
        raise DefinitionError(f"Tool {tool!r}: {what}= must be a model of your own, not BaseModel itself.")
    reader = TypeReader(tool)
    reader.read_model(model)
    adapter = adapter_of(model, f"Tool {tool!r}: parameter {what!r}")
    reader.check_defaults()
    builder = _builder(adapter, reader)
    generated, shared = _json_schemas([(what, "validation", adapter)], tool)
    schema = generated[what]
    definitions = typing.cast("JSONObject", shared.get("$defs", {}))
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = typing.cast("JSONObject", definitions[reference.rsplit("/", 1)[1]])
    if schema.get("type") != "object":
        raise DefinitionError(f"Tool {tool!r}: {what}={model.__name__} is not an object in JSON.")
    schema = {key: value for key, value in schema.items() if key != "description"}
    if not schema.setdefault("properties", {}) and "additionalProperties" not in schema:
        return dict(_NO_ARGUMENTS), builder
    return typing.cast("JSONObject", closed(with_definitions(schema, definitions))), builder


def read_required(model: type[BaseModel], name: str) -> tuple[JSONObject, Complete]:
    """Return the schema of `required_schema=Model` and a function that completes arguments.

    That function validates them by the model and adds its defaults.
    """
    schema, builder = read_model(model, name, "required_schema")
    fields = {json_name(field, name): name for name, field in model_fields(model).items()}
    return schema, functools.partial(complete, builder, fields)


def can_wait(handler: Handler) -> bool:
    """Return whether a call can wait. A coroutine function without an `await` in its own code cannot."""
    function = handler.__func__ if isinstance(handler, types.MethodType) else handler
    if not isinstance(function, types.FunctionType) or not function.__code__.co_flags & inspect.CO_COROUTINE:
        return True
    return not _YIELDS.isdisjoint(function.__code__.co_code[::2])  # every second byte is an opcode
