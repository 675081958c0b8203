"""Outputs as they are declared: a JSON Schema, or a type such as a pydantic model, a dataclass or a union."""

from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from toolwright.core.arguments.faults import Fault
from toolwright.core.arguments.judge import ResultJudge
from toolwright.core.arguments.type_adapter import adapter_of
from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.form_faults import form_fault
from toolwright.core.json_value import JSON, dumps
from toolwright.core.limits import MOST_FAULTS
from toolwright.core.plain import Path, plain
from toolwright.core.schemas.schema_tool import read_schema
from toolwright.core.text import words

_NO_TYPES = (str, bytes, list, tuple, int, float, FunctionType, BuiltinFunctionType, MethodType)


class ValidatorFailed(Exception):
    """A validator of the user's declared type raised something other than a `ValidationError`; see `__cause__`."""


class Output:
    """An output as it is declared: a JSON Schema, or a type such as a pydantic model, a dataclass or a union.

    `what` begins the sentences of its faults. Raises `InvalidConfiguration` with the path of every fault of a schema,
    `DefinitionError` for what has none.
    """

    def __init__(self, declared: object, what: str = "The output schema") -> None:
        self._adapter: TypeAdapter[Any] | None = None
        schema = declared
        if not isinstance(declared, Mapping):
            if declared is None or isinstance(declared, _NO_TYPES):
                raise DefinitionError(
                    f"{what} is a JSON Schema or a type, not {brief_value(cast('object', declared))}."
                )
            self._adapter = adapter_of(declared, what)
            try:
                schema = plain(self._adapter.json_schema())
            except (InvalidJSON, ValueError, TypeError) as error:  # pydantic's own errors are these
                raise DefinitionError(f"{what} is a type that JSON Schema cannot describe.") from error
        self.schema = read_schema(what, cast("object", schema))
        self._judge = ResultJudge(self.schema, "output")

    def faults(self, output: JSON) -> list[Fault]:
        """Return the faults of the output: by the schema, or by the validators of the type if it has none.

        Raises `ValidatorFailed` if one of these validators is broken.
        """
        faults = self._judge.faults(output)
        if faults or self._adapter is None:
            return faults
        try:
            self.load(output)
        except ValidationError as error:
            details = error.errors(include_url=False)
            return [Fault(_path(each["loc"], output), form_fault(each)) for each in details[:MOST_FAULTS]]
        except (Exception, SystemExit) as error:  # a validator of the user's own may raise anything
            raise ValidatorFailed(words(error)) from error
        return []

    def load(self, output: JSON) -> Any:  # an instance of whatever was declared
        """The output as the declared type has it; that of a schema as it is. Raises pydantic's `ValidationError`."""
        return output if self._adapter is None else self._adapter.validate_json(dumps(output))


def _path(place: Path, output: JSON) -> Path:
    """The path of a fault, without the names of types by which pydantic tells a union's members apart."""
    path: Path = ()
    for step in place:
        if isinstance(output, dict) and step in output:
            path, output = (*path, step), output[str(step)]
        elif isinstance(output, list) and isinstance(step, int) and step < len(output):
            path, output = (*path, step), output[step]
    return path
