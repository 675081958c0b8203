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

_NO_TYPES = (str, bytes, list, tuple, int, float, FunctionType, BuiltinFunctionType, MethodType)


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

    @property
    def is_schema(self) -> bool:
        """Whether it was declared as a JSON Schema, which says all of it."""
        return self._adapter is None

    def faults(self, output: JSON) -> list[Fault]:
        """The faults of that output: by the schema, else by the validators of the type."""
        faults = self._judge.faults(output)
        if faults or self._adapter is None:
            return faults
        try:
            self.load(output)
        except ValidationError as error:
            details = error.errors(include_url=False)
            return [Fault(_path(each["loc"], output), form_fault(each)) for each in details[:MOST_FAULTS]]
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
