"""From judged JSON arguments to the keyword arguments that a function is called with."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolwright.core.arguments.defaults import Builder, place_in
from toolwright.core.arguments.faults import ArgumentFault, Fault
from toolwright.core.form_faults import form_fault
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One parameter: its name in JSON and in Python.

    `builder` builds what differs from its JSON (models, enums, dataclasses), `number` asks for a float, and
    `default` makes what the function itself does not know.
    """

    key: str
    parameter: str
    number: bool = False
    builder: Builder | None = None
    default: Callable[[], object] | None = None

    @property
    def as_is(self) -> bool:
        """Whether the JSON value is what the function gets."""
        return (
            self.key == self.parameter and not self.number and self.builder is None and self.default is None
        )


class Binding:
    """Turns arguments that the schema accepts into keyword arguments; it coerces nothing.

    `state` names the parameter for the `ThreadState`. `model` is the parameter and builder of `args=Model`.
    """

    __slots__ = ("_changed", "_model", "state")

    def __init__(
        self,
        *,
        arguments: tuple[Argument, ...],
        state: str | None,
        model: tuple[str, Builder] | None,
    ) -> None:
        self.state = state
        self._model = model
        self._changed = tuple(argument for argument in arguments if not argument.as_is)

    def bind(self, arguments: JSONObject) -> dict[str, object]:
        """Raises `ArgumentFault` for what a validator of the user's own refuses."""
        if self._model is not None:
            parameter, builder = self._model
            return {parameter: build_model(builder, arguments)}
        keywords: dict[str, object] = {**arguments}
        for argument in self._changed:
            if argument.key in keywords:
                value = arguments[argument.key]
                del keywords[argument.key]
                keywords[argument.parameter] = _convert(argument, value)
            elif argument.default is not None:
                keywords[argument.parameter] = _made(argument.key, argument.default)
        return keywords


def _made(key: str, default: Callable[[], object]) -> object:
    try:
        return default()
    except (Exception, SystemExit) as error:  # a default factory of the user's own may raise anything
        raise ArgumentFault([Fault((key,), f"has no default: {error or type(error).__name__}")]) from error


def _convert(argument: Argument, value: JSON) -> object:
    if argument.builder is not None:
        return build_model(argument.builder, value, (argument.key,))
    return float(value) if argument.number and type(value) is int else value


def build_model(builder: Builder, value: JSON, path: Path = ()) -> object:
    """A value of the user's own types; raises `ArgumentFault` for what they refuse."""
    try:
        return builder.build(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise ArgumentFault([_fault(detail, value, path) for detail in details]) from error
    except (Exception, SystemExit) as error:  # a validator of the user's model may raise anything
        raise ArgumentFault([Fault(path, str(error) or type(error).__name__)]) from error


def _fault(detail: ErrorDetails, value: JSON, path: Path) -> Fault:
    return Fault((*path, *place_in(value, detail["loc"])), form_fault(detail))
