"""Pydantic's adapters of types, and why one cannot be made, in words that name what it is for."""

import warnings
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.warnings import UnsupportedFieldAttributeWarning
from pydantic_core import SchemaError

from toolwright.core.errors import DefinitionError
from toolwright.core.text import sentence


def adapter_of(annotation: Any, what: str) -> TypeAdapter[object]:  # any annotation
    """The adapter of a type; raises `DefinitionError`, whose sentence begins with `what`."""
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
        raise DefinitionError(sentence(f"{what} cannot be used: {why}")) from error
