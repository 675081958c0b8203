"""Tools of requests: built once per list, in a form that the provider accepts, without rejected tools."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings as NativeSettings
from pydantic_ai.tools import ToolDefinition as NativeTool

from toolwright.adapters.models.providers.errors import translate
from toolwright.adapters.models.providers.provider import Aliases
from toolwright.adapters.models.providers.schemas import strictness
from toolwright.adapters.models.providers.transcript import Recent
from toolwright.core.env.logs import logger
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ToolDefinition
from toolwright.core.schemas.property_names import PropertyNames
from toolwright.core.schemas.provider_forms import ToolError, provider_form
from toolwright.core.schemas.provider_rules import MOST_TOOLS, Provider
from toolwright.core.text import brief
from toolwright.core.value import value

log = logger("toolwright.models")

CACHED_TOOLSETS = 64
MOST_REFUSED = 10
"""Tools withheld for one answer. If more errors name a tool, they probably have another cause."""
MANY = 100  # tools above which a list is built in a thread
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


@value
class ToolOffer:
    """The tools of one request. `wire` maps the names sent to the provider to the tools, in order.

    `body` is the whole serialized list, for a client that accepts it directly.
    """

    natives: Sequence[NativeTool]
    wire: Mapping[str, ToolDefinition]
    body: Sequence[JSONObject] | None
    names: Mapping[str, PropertyNames]
    faults: Sequence[ToolError]


class ToolOffers:
    """Creates offers for one model. A tool rejected by its provider is withheld until its definition changes."""

    def __init__(self, model: Model, name: str, aliases: Aliases) -> None:
        self.names: dict[str, PropertyNames] = {}
        self._model = model
        self._name = name
        self._aliases = aliases
        self._provider: Provider = provider_of(model)
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
            native = NativeTool(
                name=self._aliases.wire(tool.name),
                description=sent.description,
                parameters_json_schema=sent.parameters,
                strict=strict,
            )
            natives.append(native)
            wire[native.name] = tool
            if form.names is not None:
                names[tool.name] = form.names
        most = MOST_TOOLS.get(self._provider)
        if most is not None and len(natives) > most:
            many = f"There are {len(natives)} tools. Its provider documents at most {most} in one request."
            errors.append(ToolError(tool=None, message=many))
        body = None
        if len(natives) > 1 and type(self._model).__name__ in _SENT_WHOLE:
            body = [self.native(each) for each in natives]
        return ToolOffer(natives=natives, wire=wire, body=body, names=names, faults=errors)


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
