"""Schemas of tools on their way to a provider: as they are published, wherever the provider takes JSON Schema.

pydantic-ai fits schemas to its providers' strict modes, and for OpenAI closes every object meanwhile, so that a
free-form one could only be `{}`.
"""

import copy

from pydantic_ai.models import Model
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from toolwright.core.json_value import JSONObject

_TAKE_ANY = frozenset({"openai", "anthropic"})
"""Providers that take JSON Schema as it is."""


def leaving_schemas(model: Model) -> Model:
    """The model, or a copy of it that changes no schema of a tool. One that its user has fitted stays fitted."""
    fitted = model.profile.get("json_schema_transformer")
    if (
        model.system not in _TAKE_ANY
        or fitted is None
        or fitted.__module__.partition(".")[0] != "pydantic_ai"
    ):
        return model
    leaving = copy.copy(model)
    leaving.profile = merge_profile(model.profile, {"json_schema_transformer": None})
    return leaving


def schema_for(model: Model, schema: JSONObject) -> JSONObject:
    """A tool's schema as this model's provider takes it: OpenAI refuses an object without a word of properties."""
    if model.system == "openai" and schema.get("type") == "object" and "properties" not in schema:
        return {**schema, "properties": {}}
    return schema


def strictness(model: Model) -> bool | None:
    """Value of a tool's `strict`: None, except where silence would close its objects."""
    fitted = model.profile.get("json_schema_transformer")
    return False if fitted is not None and issubclass(fitted, OpenAIJsonSchemaTransformer) else None
