"""Tools and structured outputs of requests, in each provider's dialect, and the conversion of answers back.

A tool's schema is sent unchanged if the provider accepts JSON Schema: pydantic-ai would adapt schemas to its
providers' strict modes, and close every object for OpenAI, so that a free-form object could only be `{}`. An answer's
schema is sent in the provider's dialect for structured output if it can be expressed there. Otherwise it is sent as
the schema of a final tool, whose arguments are the answer.

A keyword that a provider rejects is moved into the description. So the sent schema can be weaker than the original
schema, against which every answer is validated afterwards.
"""

import asyncio
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from pydantic_ai.exceptions import ModelHTTPError, ModelRequestRejectedError, UserError
from pydantic_ai.messages import InstructionPart
from pydantic_ai.messages import ModelResponse as NativeResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.settings import ModelSettings as NativeSettings
from pydantic_ai.tools import ToolDefinition as NativeTool

from toolwright.adapters.models.providers.answer import FinalTool, is_final
from toolwright.adapters.models.providers.provider import Aliases, translate
from toolwright.adapters.models.providers.streams import correct_streams, wire_of
from toolwright.adapters.models.providers.transcript import Recent
from toolwright.core.arguments.schema import with_parts
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.model import AnswerSchema, ModelResponse, ToolDefinition
from toolwright.core.schemas.provider_forms import ToolError, alias_of, provider_form
from toolwright.core.schemas.provider_rules import MAX_DESCRIPTION, MAX_TOOLS, PropertyNames, Provider
from toolwright.core.text import brief
from toolwright.core.tools.compose import closed_form, strict_form, without_nulls
from toolwright.core.value import Value, changed

_Takes: TypeAlias = Callable[[str, JSON], bool]
"""Returns whether a provider accepts a keyword with this value."""

_TEXTS = ("title", "description")
_NUMBER_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_KEYWORDS_BY_TYPE: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"format", "pattern"}),
    "integer": _NUMBER_KEYWORDS,
    "number": _NUMBER_KEYWORDS,
}
_ANYWHERE = frozenset({"type", "enum", "const", "anyOf", "$ref", "$defs", *_TEXTS})
_SILENT = frozenset({"$schema", "$id", "$anchor", "$comment", "definitions", "discriminator"})
"""Keywords without information for a model. Nothing refers to `definitions`; see `_reference`."""
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_REFERENCE = re.compile(r"#(/\$defs/[^/]+)?")
_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
MAX_LEVELS = 10  # levels of nested objects in OpenAI's strict mode
MAX_PROPERTIES = 5_000
MAX_ENUM_VALUES = 1_000
_ANY_JSON = (
    "Always respond with JSON that fits this schema, without any text or Markdown fencing before or after:"
)
_NEEDS_END = "openai_chat_streaming_requires_finish_reason"
CACHED_TOOLSETS = 64
MAX_REFUSED = 10
"""Tools withheld for one answer after which the last one is not: the errors probably have another cause."""
MANY = 100  # tools above which a list is built in a thread
_ENDS = "The descriptions of these tools were too long for the API. Each continues here:"
_CONTINUES = " … (continues in the instructions)"


def openai_form(schema: JSONObject) -> JSONObject:
    """Return the schema in OpenAI's strict dialect, in which every property is required.

    `without_nulls` converts an answer back. Raises `DefinitionError` if the dialect cannot express the schema.
    """
    rendered = _rendered_object(strict_form(schema), _openai_takes)
    _check_size(rendered)
    return rendered


def anthropic_form(schema: JSONObject) -> JSONObject:
    """Return the schema in Anthropic's dialect, in which every object is closed.

    Raises `DefinitionError` if the dialect cannot express the schema. Recursive schemas, and schemas with very many
    optional fields, are rejected by pydantic-ai before they are sent.
    """
    return _rendered_object(closed_form(schema), _anthropic_takes)


def _openai_takes(keyword: str, value: JSON) -> bool:
    match keyword:
        case "format":
            return value in _FORMATS
        case "pattern":
            return isinstance(value, str) and _LOOKAROUND.search(value) is None
        case "minItems" | "maxItems":
            return True
        case _:
            return keyword in _NUMBER_KEYWORDS or _is_shape(keyword)


def _anthropic_takes(keyword: str, value: JSON) -> bool:
    match keyword:
        case "format":
            return value in _FORMATS or value == "uri"
        case "minItems":
            return value in (0, 1)
        case _:
            return _is_shape(keyword)


def _is_shape(keyword: str) -> bool:
    return keyword in _ANYWHERE or keyword in _KEYWORDS_BY_TYPE["object"] or keyword == "items"


def _rendered(part: JSON, takes: _Takes) -> JSON:
    return _rendered_object(part, takes) if isinstance(part, dict) else part


def _rendered_object(schema: JSONObject, takes: _Takes) -> JSONObject:
    supported = {key: each for key, each in schema.items() if takes(key, each)}
    unsupported = {key: each for key, each in schema.items() if key not in supported and key not in _SILENT}
    copy = with_parts(supported, (), lambda part, _: _rendered(part, takes))
    if unsupported:
        notes = ", ".join(f"{key}: {dumps_unescaped(each)}" for key, each in unsupported.items())
        described = copy.get("description")
        copy["description"] = f"{described} ({notes})" if described else notes
    if "$ref" in copy:
        return _reference(copy)
    return _literals(copy) if "enum" in copy or "const" in copy else _one_type_each(copy)


def _reference(schema: JSONObject) -> JSONObject:
    """Return a reference without sibling keywords: its texts are moved to a wrapper around it."""
    reference = schema["$ref"]
    if not isinstance(reference, str) or _REFERENCE.fullmatch(reference) is None:
        raise DefinitionError(f"No provider accepts the reference {reference!r}.")
    texts: JSONObject = {key: each for key, each in schema.items() if key in _TEXTS}
    if len(texts) + 1 < len(schema):
        raise DefinitionError(f"No provider accepts other keywords next to the reference {reference!r}.")
    return {**texts, "anyOf": [{"$ref": reference}]} if texts else schema


def _literals(schema: JSONObject) -> JSONObject:
    """Return an enum or a const with the type of its values. Values of several types become one enum per type."""
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    by_type: dict[str, list[JSON]] = {}
    for each in values if isinstance(values, list) else []:
        if type(each) not in _TYPES:
            raise DefinitionError("No provider accepts an enum of objects or lists.")
        by_type.setdefault(_TYPES[type(each)], []).append(each)
    if isinstance(schema.get("type"), str):
        return schema
    if len(by_type) == 1:
        return {**schema, "type": next(iter(by_type))}
    others = {key: each for key, each in schema.items() if key not in ("type", "enum", "const")}
    if not by_type or not others.keys() <= {*_TEXTS}:
        raise DefinitionError("No provider accepts other keywords next to an enum of several types.")
    return {**others, "anyOf": [{"type": kind, "enum": each} for kind, each in by_type.items()]}


def _one_type_each(schema: JSONObject) -> JSONObject:
    """Convert a list of types with objects or lists to alternatives. Providers only document lists of scalar types."""
    kinds = schema.get("type")
    if not isinstance(kinds, list) or "anyOf" in schema or not {"object", "array"} & {*map(str, kinds)}:
        return schema
    around = {key: each for key, each in schema.items() if key in _TEXTS}
    branches: list[JSON] = []
    for kind in map(str, kinds):
        keywords = _KEYWORDS_BY_TYPE.get(kind, frozenset())
        branches.append({"type": kind, **{key: each for key, each in schema.items() if key in keywords}})
    return {**around, "anyOf": branches}


def _check_size(schema: JSONObject) -> None:
    """Raise `DefinitionError` if the schema exceeds OpenAI's limits. Each definition is counted separately."""
    definitions = schema.get("$defs")
    for part in (schema, *(definitions.values() if isinstance(definitions, dict) else ())):
        parts = [*_parts(part, 0)]
        if max(level for _, level in parts) > MAX_LEVELS:
            raise DefinitionError(f"OpenAI accepts nested objects up to {MAX_LEVELS} levels.")
        if sum(_length(each.get("properties")) for each, _ in parts) > MAX_PROPERTIES:
            raise DefinitionError(f"OpenAI accepts at most {MAX_PROPERTIES} properties.")
        if sum(_length(each.get("enum")) for each, _ in parts) > MAX_ENUM_VALUES:
            raise DefinitionError(f"OpenAI accepts at most {MAX_ENUM_VALUES} values of enums.")


def _parts(schema: JSON, level: int) -> Iterator[tuple[JSONObject, int]]:
    """Yield the schema and all nested schemas except its definitions, each with its object nesting level."""
    if not isinstance(schema, dict):
        return
    properties, branches = schema.get("properties"), schema.get("anyOf")
    level += isinstance(properties, dict)
    yield schema, level
    for part in (
        *(properties.values() if isinstance(properties, dict) else ()),
        *(branches if isinstance(branches, list) else ()),
        schema.get("items"),
    ):
        yield from _parts(part, level)


def _length(value: JSON) -> int:
    return len(value) if isinstance(value, dict | list) else 0


_ACCEPT_ANY = frozenset({"openai", "anthropic"})
"""Providers that accept JSON Schema unchanged."""
_CLOSED = frozenset({"anthropic", "bedrock"})
"""Providers that accept only closed schemas."""


def adapted(model: Model) -> Model:
    """Return a copy of the model that changes no tool schemas and reads the streams of servers that deviate.

    An unfinished stream is not an answer.
    What its user has configured stays: a transformer of schemas, and `openai_chat_streaming_requires_finish_reason`.
    """
    if isinstance(model, WrapperModel):
        wrapper = copy.copy(model)
        wrapper.wrapped = adapted(model.wrapped)
        return wrapper
    wire = wire_of(model)
    changes = ModelProfile()
    if wire == "OpenAIChatModel" and _NEEDS_END not in model.profile:
        changes = cast(ModelProfile, {_NEEDS_END: True})
    fitted = model.profile.get("json_schema_transformer")
    if (
        model.system in _ACCEPT_ANY
        and fitted is not None
        and fitted.__module__.partition(".")[0] == "pydantic_ai"
    ):
        changes["json_schema_transformer"] = None
    if not changes and wire is None:
        return model
    changed_model = copy.copy(model)
    changed_model.profile = merge_profile(model.profile, changes)
    correct_streams(changed_model)
    return changed_model


def schema_for(model: Model, schema: JSONObject) -> JSONObject:
    """Return a tool's schema in the model's form. OpenAI rejects an object schema without `properties`."""
    if model.system == "openai" and schema.get("type") == "object" and "properties" not in schema:
        return {**schema, "properties": {}}
    return schema


def strictness(model: Model) -> bool | None:
    """Return the value of a tool's `strict`: None, unless omitting it would close its objects."""
    fitted = model.profile.get("json_schema_transformer")
    return False if fitted is not None and issubclass(fitted, OpenAIJsonSchemaTransformer) else None


class AnswerMethod(Value, gc=True):
    """Method by which a model is asked for an answer.

    - `native`: the provider's own structured output.
    - `text` with a `tool`: a final tool.
    - `prompted`: pydantic-ai's instructions, with the provider's JSON mode if it has one, for models without tools.
    - `text` with `instructions`: instructions only, for models without tools and an answer that is not an object.

    An answer in strict form is converted back with the schema `strict`.
    """

    mode: Literal["native", "prompted", "text"]
    output: OutputObjectDefinition | None = None
    instructions: tuple[InstructionPart, ...] = ()
    strict: JSONObject | None = None
    tool: FinalTool | None = None


def answer_form(model: Model, answer: AnswerSchema) -> AnswerMethod:
    """Return the best form that the model supports for the answer."""
    if model.profile.get("supports_json_schema_output", False) and _is_object(answer):
        form = _native_form(model, answer)
        if form is not None and _is_sendable(model, form):
            return form
    return final_tool_form(model, answer)


def final_tool_form(model: Model, answer: AnswerSchema) -> AnswerMethod:
    """Return the form with a final tool.

    It is for models that have no structured output for the schema, or not together with tools.
    """
    if not model.profile.get("supports_tools", True):
        return prompted_form(model, answer)
    return AnswerMethod(mode="text", tool=FinalTool(schema_for(model, answer.schema), strictness(model)))


def prompted_form(model: Model, answer: AnswerSchema) -> AnswerMethod:
    """Return the form with instructions, for models without any other method."""
    if not _is_object(answer):  # JSON modes are for objects
        instruction = f"{_ANY_JSON}\n\n{dumps_unescaped(answer.schema)}"
        return AnswerMethod(mode="text", instructions=(InstructionPart(content=instruction),))
    return AnswerMethod(mode="prompted", output=_output(answer, answer.schema, strictness(model)))


def is_native_beside_tools(model: Model) -> bool:
    """Return whether the model accepts structured output and tools in one request."""
    return not model.system.startswith("google") or model.profile.get(
        "google_supports_tool_combination", False
    )


async def read_final(response: NativeResponse, form: AnswerMethod | None) -> NativeResponse:
    """Return the provider's response with a call of the final tool as its text."""
    if form is None or form.tool is None:
        return response
    written = "".join(part.args for part in response.parts if is_final(part) and isinstance(part.args, str))
    return await in_thread_if_large(written, form.tool.read, response)


async def read_answer(response: ModelResponse, form: AnswerMethod | None) -> ModelResponse:
    """Return the response with its text converted back to the schema, without the nulls of the strict form.

    Invalid JSON and the provider's own form of the answer (`native`) are unchanged.
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


def _native_form(model: Model, answer: AnswerSchema) -> AnswerMethod | None:
    """Return the form for structured output, or None if the provider cannot express the schema."""
    if model.system in _CLOSED:
        try:
            return AnswerMethod(mode="native", output=_output(answer, anthropic_form(answer.schema), True))
        except DefinitionError:
            return None
    if not _is_strict(model):
        return AnswerMethod(mode="native", output=_output(answer, answer.schema, strictness(model)))
    try:
        output = _output(answer, openai_form(answer.schema), True)
    except DefinitionError:
        return AnswerMethod(mode="native", output=_output(answer, schema_for(model, answer.schema), False))
    return AnswerMethod(mode="native", output=output, strict=answer.schema)


def _is_strict(model: Model) -> bool:
    """Return whether the provider has OpenAI's strict mode."""
    speaks_openai = model.system == "openai" or strictness(model) is not None
    return speaks_openai and model.profile.get("openai_supports_strict_tool_definition", True)


def _is_sendable(model: Model, form: AnswerMethod) -> bool:
    """Return whether pydantic-ai, which knows some limits of providers, would send the form."""
    parameters = ModelRequestParameters(output_mode=form.mode, output_object=form.output)
    try:
        model.prepare_request(None, parameters)
    except (ModelRequestRejectedError, UserError):
        return False
    return True


def _output(answer: AnswerSchema, schema: JSONObject, strict: bool | None) -> OutputObjectDefinition:
    return OutputObjectDefinition(json_schema=schema, name=alias_of(answer.name), strict=strict)


log = logger("toolwright.models")

_CLAUDE = frozenset({"anthropic", "bedrock"})
_SENT_WHOLE = frozenset({"OpenAIChatModel", "OpenAIResponsesModel"})
"""Pydantic-ai models whose client processes every value of a request's tools again, at twenty times the cost."""
_REFUSING = frozenset({400, 422})
_ABOUT_A_TOOL = re.compile(r"schema|parameters|properties|tools\b|tool name", re.IGNORECASE)
_PLACE = re.compile(r"tools[.\[](\d+)")
_TOOL_NAME = re.compile(r"(?:function|tool|tool name)[:\s]+['\"`]([a-zA-Z0-9_-]{1,64})['\"`]", re.IGNORECASE)


def provider_of(model: Model) -> Provider:
    """Return the provider whose rules for tools apply to the model's requests."""
    if model.system in _CLAUDE:
        return "anthropic"
    return "openai" if model.system == "openai" or strictness(model) is not None else "other"


class ToolOffer(Value):
    """The tools of one request. `wire` maps the names sent to the provider to the tools, in order.

    `body` is the whole serialized list, for a client that accepts it directly. `instructions` are the ends of
    descriptions that are too long for the provider.
    """

    natives: Sequence[NativeTool]
    wire: Mapping[str, ToolDefinition]
    body: Sequence[JSONObject] | None
    names: Mapping[str, PropertyNames]
    faults: Sequence[ToolError]
    instructions: str


class ToolOffers:
    """Creates offers for one model. A tool rejected by its provider is withheld until its definition changes."""

    def __init__(self, model: Model, name: str, aliases: Aliases) -> None:
        self.names: dict[str, PropertyNames] = {}
        self._model = model
        self._name = name
        self._aliases = aliases
        self._provider: Provider = provider_of(model)
        self._is_chat = wire_of(model) == "OpenAIChatModel"
        self._refused: dict[str, tuple[ToolDefinition, ToolError]] = {}
        self._offers: Recent[tuple[ToolDefinition, ...], ToolOffer] = Recent(self._make, CACHED_TOOLSETS)

    async def get(self, tools: tuple[ToolDefinition, ...]) -> ToolOffer:
        """Return the offer of these tools. The same list returns the same object."""
        if self._offers.has(tools):
            offer = self._offers.get(tools)
        else:
            offer = self._make(tools) if len(tools) <= MANY else await asyncio.to_thread(self._make, tools)
            self._offers.put(tools, offer)
            for error in offer.faults:
                about = (
                    "Requests might be refused"
                    if error.tool is None
                    else f"The tool {error.tool!r} is withheld"
                )
                log.warning("%s (model %s): %s", about, self._name, error.message)
        self.names.update(offer.names)
        return offer

    def faults(self, tools: tuple[ToolDefinition, ...]) -> Sequence[ToolError]:
        """Return which of these tools are known to be withheld from the model, and why."""
        return self._make(tools).faults

    def withhold(self, error: Exception, offer: ToolOffer, tools: tuple[ToolDefinition, ...]) -> bool:
        """Withhold the tool that the provider rejects with this error. Returns whether the error names a tool."""
        if not isinstance(error, ModelHTTPError) or error.status_code not in _REFUSING:
            return False
        tool = _tool_in_error(f"{error.body}", offer)
        if tool is None:
            return False
        message = brief(translate(self._name, error).message, 500)
        self._refused[tool.name] = (tool, ToolError(tool=tool.name, message=message))
        self._offers.forget(tools)
        return True

    def offer_again(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Offer the withheld tools again: the provider has rejected each of them, so they are not the cause."""
        for tool in tools:
            self._refused.pop(tool.name, None)
        self._offers.forget(tools)

    def native(self, tool: NativeTool) -> JSONObject:
        """Return a tool in OpenAI's form."""
        function: JSONObject = {
            "name": tool.name,
            "description": tool.description or "",
            "parameters": tool.parameters_json_schema,
        }
        if self._model.__class__.__name__ == "OpenAIChatModel":
            return {"type": "function", "function": function}
        return {"type": "function", **function, "strict": False}

    def _make(self, tools: tuple[ToolDefinition, ...]) -> ToolOffer:
        strict = strictness(self._model)
        natives: list[NativeTool] = []
        wire: dict[str, ToolDefinition] = {}
        names: dict[str, PropertyNames] = {}
        errors: list[ToolError] = []
        ends: list[str] = []
        for tool in tools:
            refused = self._refused.get(tool.name)
            if refused is not None and refused[0] == tool:
                errors.append(refused[1])
                continue
            form = provider_form(tool, self._provider)
            if isinstance(form, ToolError):
                errors.append(form)
                continue
            sent = form.definition
            description, end = sent.description, ""
            if self._is_chat and len(description) > MAX_DESCRIPTION:
                description, end = _cut(description)
            native = NativeTool(
                name=self._aliases.wire(tool.name),
                description=description,
                parameters_json_schema=sent.parameters,
                strict=strict,
            )
            if end:
                ends.append(f"{native.name}:\n{_quoted(end)}")
            natives.append(native)
            wire[native.name] = tool
            if form.names is not None:
                names[tool.name] = form.names
        most = MAX_TOOLS.get(self._provider)
        if most is not None and len(natives) > most:
            many = f"There are {len(natives)} tools. Its provider documents at most {most} in one request."
            errors.append(ToolError(tool=None, message=many))
        body = None
        if len(natives) > 1 and type(self._model).__name__ in _SENT_WHOLE:
            body = [self.native(each) for each in natives]
        instructions = "\n\n".join([_ENDS, *ends]) if ends else ""
        return ToolOffer(
            natives=natives, wire=wire, body=body, names=names, faults=errors, instructions=instructions
        )


def _cut(description: str) -> tuple[str, str]:
    """Return the beginning of a description that Chat Completions accepts, and its end."""
    most = MAX_DESCRIPTION - len(_CONTINUES)
    beginning = description[:most]
    places = [beginning.rfind(each) + len(each) for each in ("\n", ". ", " ")]
    place = next((each for each in places if each > most // 2), most)
    return f"{description[:place].rstrip()}{_CONTINUES}", description[place:].strip()


def _quoted(text: str) -> str:
    """Quote a text that others can have written, so that it cannot imitate instructions."""
    return "\n".join(f"> {line}" for line in text.splitlines())


def unchanged_settings(
    offer: ToolOffer, offers: ToolOffers, others: Sequence[NativeTool], settings: NativeSettings
) -> NativeSettings | None:
    """Return settings that send the offer's list and `others` unchanged, or None if pydantic-ai must send it.

    Only pydantic-ai adds the provider's own tools, which settings can name.
    """
    if offer.body is None or settings.get("openai_native_tools") or settings.get("openai_builtin_tools"):
        return None
    extra_body: Any = settings.get("extra_body") or {}  # any value set by the user
    if not isinstance(extra_body, Mapping) or "tools" in extra_body:
        return None
    return {**settings, "extra_body": {**extra_body, "tools": [*offer.body, *map(offers.native, others)]}}


def _tool_in_error(text: str, offer: ToolOffer) -> ToolDefinition | None:
    """Return the tool that a provider's error refers to, by its index in the list or by name."""
    if _ABOUT_A_TOOL.search(text) is None:
        return None
    places = [*offer.wire.values()]
    for match in _PLACE.finditer(text):
        if int(match[1]) < len(places):
            return places[int(match[1])]
    for match in _TOOL_NAME.finditer(text):
        if match[1] in offer.wire:
            return offer.wire[match[1]]
    return None
