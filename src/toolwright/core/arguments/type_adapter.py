"""Pydantic's adapters of types, and why one cannot be made, in words that name the tool."""

import warnings
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.warnings import UnsupportedFieldAttributeWarning
from pydantic_core import SchemaError

from toolwright.core.errors import DefinitionError
from toolwright.core.text import sentence


def adapter_of(annotation: Any, tool: str, path: str) -> TypeAdapter[object]:  # any annotation
    """The adapter of a parameter's type; raises `DefinitionError` naming the tool and the path."""
    try:
        with warnings.catch_warnings():
            # Only a model's field has an alias in pydantic's eyes; here it names the parameter in JSON.
            warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
            return TypeAdapter[object](annotation)
    except (
        PydanticUserError,
        PydanticUndefinedAnnotation,
        PydanticSchemaGenerationError,
        SchemaError,
    ) as error:
        why = " ".join(str(error).partition("For further information")[0].split())
        raise DefinitionError(sentence(f"Tool {tool!r}: parameter {path!r} cannot be used: {why}")) from error
