"""Prompt caching: the marks at which a provider caches a request, and the changing text after all of them.

A provider reads from its cache the beginning that two requests share. So what changes from step to step is sent last.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from urllib.parse import urlsplit

from pydantic_ai.messages import (
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import CacheConfig
from pydantic_ai.settings import ModelSettings as NativeSettings

STATE = (
    "The system tells you your present state here, before each of your answers. It was not written by a user, and "
    "needs no answer."
)
_PARTS = ("", "_instructions", "_messages", "_tool_definitions")
_PROVIDERS = ("anthropic", "bedrock", "openrouter")
_OWN_KEYS = frozenset(
    {f"{provider}_cache{part}" for provider in _PROVIDERS for part in _PARTS}
    | {"openai_prompt_cache_options", "openai_cache_instructions"}
)
"""Settings of one provider's cache, in the place of which pydantic-ai does not take `cache`."""


class PromptCache:
    """Marks the tools, the stable system text and the last message as the ends of what is to be cached.

    The settings of the model object win: one that turns caching off has no marks, one that sets it has its own.
    """

    def __init__(self, model: Model) -> None:
        own = model.settings or NativeSettings()
        self._is_own = "cache" in own or not _OWN_KEYS.isdisjoint(own)
        self._takes_marks = _takes_marks(model)
        self._marks_messages = self._takes_marks and _caches_messages(own)
        self._is_anthropic = model.system == "anthropic"
        self._is_implicit = bool(model.profile.get("openai_supports_prompt_cache_breakpoints", False))
        self._marks_messages &= not self._is_implicit or _is_openai(model)

    def settings(self, *, changing: bool) -> NativeSettings:
        """Return the settings that have the request cached, but for the `changing` text at its end if it has some."""
        if self._is_own or self._is_implicit or not self._takes_marks:
            return NativeSettings()
        if not self._is_anthropic:
            return NativeSettings(cache=CacheConfig(messages=False) if changing else True)
        # by block, as Anthropic's gateways take it too
        settings = {"anthropic_cache_instructions": True, "anthropic_cache_tool_definitions": True}
        if not changing:
            settings["anthropic_cache_messages"] = True
        return cast(NativeSettings, settings)  # keys of one provider, whose SDK need not be installed

    def with_state(self, messages: Sequence[ModelMessage], text: str) -> list[ModelMessage]:
        """Return the messages with the changing text at their end, which is not cached."""
        said = f"{STATE}\n\n{text}"
        last = messages[-1] if messages else None
        if not isinstance(last, ModelRequest):
            return [*messages, ModelRequest([UserPromptPart(said)])]
        marked = self._marks_messages and any(map(_says_something, last.parts))
        state = UserPromptPart([CachePoint(), said] if marked else said)
        return [*messages[:-1], replace(last, parts=[*last.parts, state])]


def _takes_marks(model: Model) -> bool:
    """Return whether requests have cache marks. Gemini through OpenRouter caches without, and bills marks twice."""
    profile = model.profile
    return bool(profile.get("supports_cache", False)) and bool(
        profile.get("openrouter_supports_trailing_cache_control", True)
    )


def _is_openai(model: Model) -> bool:
    """Return whether the model is at OpenAI itself: other servers of its dialect can refuse a mark."""
    host = urlsplit(model.base_url or "").hostname or ""
    return host.endswith((".openai.com", ".azure.com"))


def _caches_messages(own: NativeSettings) -> bool:
    """Return whether the conversation is cached: the model's own settings ask for it or do not say."""
    if not _OWN_KEYS.isdisjoint(own):
        wanted = [f"{provider}_cache{part}" for provider in _PROVIDERS for part in ("", "_messages")]
        return any(own.get(key) for key in wanted)
    cache = own.get("cache", True)
    return cache.get("messages", True) if isinstance(cache, dict) else bool(cache)


def _says_something(part: ModelRequestPart) -> bool:
    return isinstance(part, ToolReturnPart) or (isinstance(part, UserPromptPart) and bool(part.content))
