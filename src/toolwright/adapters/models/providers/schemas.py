"""Schemas of tools and of answers on their way to a provider, and an answer's text on the way back.

A tool's schema is sent as it is published, wherever the provider takes JSON Schema: pydantic-ai fits schemas to its
providers' strict modes, and for OpenAI closes every object meanwhile, so that a free-form one could only be `{}`.
An answer's schema is sent in the provider's dialect for structured output, where it can be said so, else as that of a
final tool, whose arguments are the answer.
"""

import copy
from typing import Literal

from pydantic_ai.exceptions import ModelRequestRejectedError, UserError
from pydantic_ai.messages import InstructionPart
from pydantic_ai.messages import ModelResponse as NativeResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from toolwright.adapters.models.providers.dialects import anthropic_form, openai_form
from toolwright.adapters.models.providers.final_tool import FinalTool, is_final
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import DefinitionError
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSONObject, dumps_unescaped
from toolwright.core.model import AnswerSchema, ModelResponse
from toolwright.core.schemas.provider_forms import alias_of
from toolwright.core.tools.compose import without_nulls
from toolwright.core.value import changed, value

_TAKE_ANY = frozenset({"openai", "anthropic"})
"""Providers that take JSON Schema as it is."""
_CLOSED = frozenset({"anthropic", "bedrock"})
"""Providers that take closed schemas only."""
_ANY_JSON = (
    "Always respond with JSON that fits this schema, without any text or Markdown fencing before or after:"
)


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


@value
class AnswerForm:
    """How a model is asked for an answer.

    By the provider's own structured output (`native`), by a final `tool` (`text`), or, for models without tools, by
    pydantic-ai's instructions, with the provider's JSON mode where it has one (`prompted`), and for what is no object
    by `instructions` alone (`text`). An answer that comes in strict form is read back by the schema `strict`.
    """

    mode: Literal["native", "prompted", "text"]
    output: OutputObjectDefinition | None = None
    instructions: tuple[InstructionPart, ...] = ()
    strict: JSONObject | None = None
    tool: FinalTool | None = None


def answer_form(model: Model, answer: AnswerSchema) -> AnswerForm:
    """The best form that the model has for the answer."""
    if model.profile.get("supports_json_schema_output", False) and _is_object(answer):
        form = _native_form(model, answer)
        if form is not None and _is_sendable(model, form):
            return form
    return final_tool_form(model, answer)


def final_tool_form(model: Model, answer: AnswerSchema) -> AnswerForm:
    """The form with a final tool, for models without structured output for the schema, or without it beside tools."""
    if not model.profile.get("supports_tools", True):
        return prompted_form(model, answer)
    return AnswerForm(mode="text", tool=FinalTool(schema_for(model, answer.schema), strictness(model)))


def prompted_form(model: Model, answer: AnswerSchema) -> AnswerForm:
    """The form that asks in words, for models that have no other way."""
    if not _is_object(answer):  # JSON modes are for objects
        words = f"{_ANY_JSON}\n\n{dumps_unescaped(answer.schema)}"
        return AnswerForm(mode="text", instructions=(InstructionPart(content=words),))
    return AnswerForm(mode="prompted", output=_output(answer, answer.schema, strictness(model)))


def is_native_beside_tools(model: Model) -> bool:
    """Return whether the model takes structured output and tools in one request."""
    return not model.system.startswith("google") or model.profile.get(
        "google_supports_tool_combination", False
    )


async def read_final(response: NativeResponse, form: AnswerForm | None) -> NativeResponse:
    """The provider's response with a call of the final tool as its text."""
    if form is None or form.tool is None:
        return response
    written = "".join(part.args for part in response.parts if is_final(part) and isinstance(part.args, str))
    return await in_thread_if_large(written, form.tool.read, response)


async def read_answer(response: ModelResponse, form: AnswerForm | None) -> ModelResponse:
    """The response with its text as the schema means it, without the nulls of the strict form.

    What is no JSON stays as it is, and so does the provider's own form of the answer (`native`).
    """
    if form is None or form.strict is None or not response.text:
        return response
    text = await in_thread_if_large(response.text, _read, response.text, form.strict)
    return response if text == response.text else changed(response, text=text)


def _read(text: str, schema: JSONObject) -> str:
    try:
        answer = parse_json(text)
    except NotJson:
        return text
    meant = without_nulls(answer, schema)
    return text if meant == answer else dumps_unescaped(meant)


def _is_object(answer: AnswerSchema) -> bool:
    return answer.schema.get("type") == "object"


def _native_form(model: Model, answer: AnswerSchema) -> AnswerForm | None:
    """The form for structured output; None if the provider has no words for the schema."""
    if model.system in _CLOSED:
        try:
            return AnswerForm(mode="native", output=_output(answer, anthropic_form(answer.schema), True))
        except DefinitionError:
            return None
    if not _is_strict(model):
        return AnswerForm(mode="native", output=_output(answer, answer.schema, strictness(model)))
    try:
        output = _output(answer, openai_form(answer.schema), True)
    except DefinitionError:
        return AnswerForm(mode="native", output=_output(answer, schema_for(model, answer.schema), False))
    return AnswerForm(mode="native", output=output, strict=answer.schema)


def _is_strict(model: Model) -> bool:
    """Return whether the provider has OpenAI's strict mode."""
    speaks_openai = model.system == "openai" or strictness(model) is not None
    return speaks_openai and model.profile.get("openai_supports_strict_tool_definition", True)


def _is_sendable(model: Model, form: AnswerForm) -> bool:
    """Return whether pydantic-ai, which knows some limits of providers, would send it."""
    parameters = ModelRequestParameters(output_mode=form.mode, output_object=form.output)
    try:
        model.prepare_request(None, parameters)
    except (ModelRequestRejectedError, UserError):
        return False
    return True


def _output(answer: AnswerSchema, schema: JSONObject, strict: bool | None) -> OutputObjectDefinition:
    return OutputObjectDefinition(json_schema=schema, name=alias_of(answer.name), strict=strict)
