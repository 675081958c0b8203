"""How the fields of what is seen from outside are read: their spelling, and those of no plain type."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, PlainValidator
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import AttachmentRef
from toolwright.core.threads.run import Usage
from toolwright.wire.result import reference_from_json
from toolwright.wire.run import usage_from_json

CAMEL = ConfigDict(alias_generator=to_camel, extra="ignore")
"""The configuration of each such value: the wire's names, and nothing refused that is not known yet."""


def spelt(name: str) -> Any:  # what pydantic returns for a field
    """A field that the wire calls by that name."""
    return Field(validation_alias=name)


@dataclass(frozen=True, eq=False)
class _As:
    """Reads a field as that schema says: JSON comes from a parser, and is not looked through again."""

    schema: CoreSchema

    def __get_pydantic_core_schema__(self, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        return self.schema


Json = Annotated[JSON, _As(core_schema.any_schema())]
JsonObject = Annotated[JSONObject, _As(core_schema.is_instance_schema(dict))]
SeenUsage = Annotated[Usage, PlainValidator(usage_from_json)]
SeenReference = Annotated[AttachmentRef, PlainValidator(reference_from_json)]
