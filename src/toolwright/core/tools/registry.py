"""Registries of schema tools (S1): their interfaces, and separately the functions that execute them."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast, get_args, get_origin, overload

from toolwright.core.arguments.binding import Binding
from toolwright.core.arguments.errors import FieldError, InvalidArguments
from toolwright.core.arguments.signature import Handler, signature_of
from toolwright.core.checks import brief_value, check_line
from toolwright.core.dependencies.depends import Dependency, DependencyReader, mark_of, read_hints
from toolwright.core.errors import DefinitionError
from toolwright.core.forms import ARGUMENTS
from toolwright.core.json_value import JSONObject
from toolwright.core.schemas.meta import Call, read_call
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.tool import FUNCTION_TIMEOUT, Tool
from toolwright.core.value import changed

H = TypeVar("H", bound=Handler)


class Registry:
    """Schema tools by name, and handlers by name. A tool's interface does not depend on its handler."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._handlers: dict[str, Handler] = {}
        self._registered: dict[str, Tool] = {}

    def tool(self, name: str, schema: object) -> Callable[[H], H]:
        """Register a tool by its schema, as in `Tool.from_schema`. A decorated function becomes its handler.

        Raises `DefinitionError` for a registered name, `InvalidConfiguration` for an invalid schema.
        """
        tool = Tool.from_schema(name, schema)
        if name in self._tools:
            raise DefinitionError(f"The tool {name!r} is already registered.")
        self._tools[name] = tool
        register = self.handler(name)

        def register_both(function: H) -> H:
            try:
                return register(function)
            except DefinitionError:  # register both or none
                del self._tools[name]
                raise

        return register_both

    @overload
    def handler(self, name: str, function: None = None) -> Callable[[H], H]: ...
    @overload
    def handler(self, name: str, function: H) -> H: ...
    def handler(self, name: str, function: H | None = None) -> H | Callable[[H], H]:
        """Register a function that executes the tool of the same name, and the tools whose `_activity` names it.

        It receives arguments by name. A parameter that is not an argument and is typed dict or untyped receives all
        arguments, as does `**arguments`. Parameters annotated `Call`, `Tool` and `ThreadState` receive these objects.
        Without a function this is a decorator. Raises `DefinitionError` if the name is already registered.
        """
        check_line("A handler", name)

        def register(function: H) -> H:
            if name in self._handlers:
                raise DefinitionError(
                    f"The handler {name!r} is already registered. Replace it with swap_handler."
                )
            self._handlers[name] = _checked(name, function)
            return function

        return register if function is None else register(function)

    def swap_handler(self, name: str, function: Handler) -> None:
        """Replace a handler. Raises `DefinitionError` if no handler has that name."""
        self._require_handler(name)
        self._handlers[name] = _checked(name, function)

    def remove_handler(self, name: str) -> None:
        """Remove a handler, so that its tool is latent again. Raises `DefinitionError` if no handler has that name."""
        self._require_handler(name)
        del self._handlers[name]

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools with their current handlers, in the order of their registration.

        Raises `DefinitionError` for an `_activity` without a handler, and for a handler that does not fit its tool.
        """
        tools = resolve(self._tools.values(), self._handlers)
        self._registered = {tool.name: self._same(tool) for tool in tools}
        return tuple(self._registered.values())

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The current handlers, by name."""
        return {**self._handlers}

    def _same(self, tool: Tool) -> Tool:
        """Return the previous tool object if its handler is unchanged, because tools are compared by identity."""
        before = self._registered.get(tool.name, tool)
        return before if before.handler is tool.handler else tool

    def _require_handler(self, name: str) -> None:
        if not isinstance(name, str) or name not in self._handlers:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(f"There is no handler {brief_value(name)}.")


def resolve(tools: Iterable[Tool], handlers: Mapping[str, Handler]) -> tuple[Tool, ...]:
    """Return the schema tools, with the kind by which they are executed (D17).

    A tool with an `_activity` is a `function` with that handler. A tool that fixes its `_delegate` is a `delegate`. A
    tool with a handler of its own name is a `function` with that handler. Any other tool is `latent`. Raises
    `DefinitionError` with the names of all missing handlers.
    """
    listed = tuple(tools)
    activities = [(tool.name, tool.meta.activity) for tool in listed if tool.meta and tool.meta.activity]
    missing = [f"{name!r} ({activity!r})" for name, activity in activities if activity not in handlers]
    if missing:
        raise DefinitionError(f"No handler is registered for the _activity of {', '.join(missing)}.")
    return tuple(_resolved(tool, handlers) for tool in listed)


def _resolved(tool: Tool, handlers: Mapping[str, Handler]) -> Tool:
    if tool.meta is None or tool.meta.delegate is not None:
        return tool
    handler = handlers.get(tool.meta.activity or tool.name)
    if handler is None:
        return tool
    signature = signature_of(handler, tool.parameters, HandlerBinding(tool, handler))
    return changed(tool, kind="function", handler=handler, signature=signature, timeout=FUNCTION_TIMEOUT)


def _checked(name: str, function: object) -> Handler:
    if not callable(function) or isinstance(function, type | Tool):
        raise DefinitionError(
            f"The handler {name!r} must be a function, not {brief_value(cast('object', function))}."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"The handler {name!r} yields. A handler must return a single result.")
    return function


class HandlerBinding(Binding):
    """Converts the arguments of a schema tool's call into the keyword arguments of its handler.

    Meta-properties are not passed. Raises `DefinitionError` for a handler that does not accept the tool's arguments.
    """

    __slots__ = ("_by_name", "_call", "_interface", "_remaining", "_tool", "_whole_parameter")

    def __init__(self, tool: Tool, handler: Handler) -> None:
        what = f"The handler of the tool {tool.name!r}"
        hints = read_hints(handler, what, {"Call": Call, "Tool": Tool})
        parameters = _parameters(handler, tool.name)
        dependencies = _dependencies(parameters, hints, what)
        parameters = {name: each for name, each in parameters.items() if name not in dependencies}
        state = _of_type(parameters, hints, ThreadState)
        super().__init__(arguments=(), state=state, model=None, dependencies=dependencies)
        self._interface = tool
        self._call = _of_type(parameters, hints, Call)
        self._tool = _of_type(parameters, hints, Tool)
        self._remaining = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        own = {
            name: each
            for name, each in parameters.items()
            if name not in (self.state, self._call, self._tool) and each.kind is not each.VAR_KEYWORD
        }
        properties = cast("JSONObject", tool.parameters["properties"])
        self._by_name = {name: each.default is each.empty for name, each in own.items() if name in properties}
        others = [name for name, each in own.items() if name not in properties and _is_needed(each)]
        self._whole_parameter = next((name for name in others if _takes_object(hints.get(name))), None)
        self._check(properties, [name for name in others if name != self._whole_parameter])

    def bind(self, arguments: JSONObject) -> dict[str, object]:
        """Return the handler's keyword arguments.

        Raises `InvalidArguments` for an argument that the schema makes optional and the handler requires.
        """
        assert self._interface.meta is not None, "a schema tool has them"
        call = read_call(self._interface.name, self._interface.meta, arguments, latent=False)
        missing = [name for name, needed in self._by_name.items() if needed and name not in call.args]
        if missing:
            raise InvalidArguments([FieldError((name,), ARGUMENTS.missing) for name in missing])
        selected = (
            call.args if self._remaining else {n: each for n, each in call.args.items() if n in self._by_name}
        )
        others = {self._whole_parameter: call.args, self._call: call, self._tool: self._interface}
        return {**selected, **{name: each for name, each in others.items() if name is not None}}

    def _check(self, properties: JSONObject, unknown: list[str]) -> None:
        what = f"The handler of the tool {self._interface.name!r}"
        injected = (self.state, self._call, self._tool, *self.dependencies)
        conflicting = [name for name in injected if name in properties]
        if conflicting:
            raise DefinitionError(
                f"{what} has an injected parameter with the name of an argument, {conflicting[0]!r}. Rename it."
            )
        if unknown:
            names = ", ".join(properties) or "none"
            raise DefinitionError(
                f"{what} has the parameter {unknown[0]!r}, which is not an argument. The arguments are: {names}."
            )
        if self._remaining or self._whole_parameter is not None:
            return
        unread = [name for name in properties if name not in self._by_name]
        if unread:
            raise DefinitionError(
                f"{what} has no parameter for the argument {unread[0]!r}. Add it, or add **arguments."
            )


def _parameters(handler: Handler, tool: str) -> Mapping[str, inspect.Parameter]:
    try:
        parameters = inspect.signature(handler).parameters
    except (ValueError, TypeError) as error:
        raise DefinitionError(f"The handler of the tool {tool!r} has no readable signature.") from error
    for name, each in parameters.items():
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            raise DefinitionError(
                f"The handler of the tool {tool!r} has the positional-only parameter {name!r}, "
                "but arguments are passed by name."
            )
    return parameters


def _dependencies(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, object], what: str
) -> dict[str, Dependency]:
    reader = DependencyReader(what, {})
    marks = {
        name: mark_of(hints.get(name), each.default, f"{what}, parameter {name!r}")
        for name, each in parameters.items()
    }
    return {name: reader.read(mark) for name, mark in marks.items() if mark is not None}


def _of_type(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, object], kind: type
) -> str | None:
    """Return the name of the first parameter annotated with the type, also as a member of a union."""
    return next((name for name in parameters if _mentions(hints.get(name), kind)), None)


def _mentions(hint: object, kind: type) -> bool:
    return hint is kind or get_origin(hint) is kind or any(_mentions(part, kind) for part in get_args(hint))


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


def _takes_object(hint: object) -> bool:
    """Return whether a parameter accepts any object: its annotation is a dict, or it has none."""
    kind = get_origin(hint) or hint
    return hint is None or hint is Any or (isinstance(kind, type) and issubclass(dict, kind))
