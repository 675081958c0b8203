"""Settings of a request as pydantic-ai's: ours, under the model object's own, under those of the request."""

from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings as NativeSettings

from toolwright.core.model import ModelRequest, ModelSettings

ANTHROPIC_MAX_TOKENS = 16_384


def default_settings(model: Model) -> NativeSettings:
    """Our defaults, under what the model object was given: no retries of the SDK's own, room to answer."""
    settings = NativeSettings()
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    if model.system == "anthropic":
        settings["max_tokens"] = ANTHROPIC_MAX_TOKENS  # lowered by pydantic-ai to what the model can do
    settings.update(model.settings or {})
    return settings


def settings_for(request: ModelRequest, defaults: NativeSettings) -> NativeSettings:
    """The settings of one request. pydantic-ai leaves out, with a warning, what a model does not take."""
    settings = NativeSettings() if request.settings is None else _native(request.settings)
    if request.tools and request.tool_choice != "auto":
        settings["tool_choice"] = request.tool_choice
    if request.reasoning is not None:
        settings["thinking"] = request.reasoning
    return {**defaults, **settings} if settings else defaults


def _native(settings: ModelSettings) -> NativeSettings:
    native = NativeSettings()
    if settings.temperature is not None:
        native["temperature"] = settings.temperature
    if settings.top_p is not None:
        native["top_p"] = settings.top_p
    if settings.max_tokens is not None:
        native["max_tokens"] = settings.max_tokens
    if settings.seed is not None:
        native["seed"] = settings.seed
    return native
