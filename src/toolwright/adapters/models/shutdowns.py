"""Dates on which providers shut models down."""

import re
from collections.abc import Mapping
from datetime import date

# As far as announced on 29 November 2026: https://developers.openai.com/api/docs/deprecations and
# https://platform.claude.com/docs/en/about-claude/model-deprecations, partly by public copies of these pages.
_OPENAI = {
    date(2026, 10, 23): "gpt-3.5-turbo gpt-4 gpt-4-turbo gpt-4.1-nano o1 o1-pro o3-mini o4-mini",
    date(2026, 12, 11): "gpt-5 gpt-5-mini gpt-5-nano gpt-5-pro o3 o3-pro",
    date(2027, 1, 14): "gpt-4o gpt-4o-mini gpt-4.1 gpt-4.1-mini",
    date(2027, 4, 1): "gpt-5.1 gpt-5.3-codex gpt-5.4-nano",
}
_ANTHROPIC = {
    date(2026, 6, 15): "claude-opus-4 claude-sonnet-4 claude-opus-4-0 claude-sonnet-4-0",
    date(2026, 8, 5): "claude-opus-4-1",
    date(2026, 11, 30): "claude-sonnet-4-5",
    date(2027, 1, 22): "claude-opus-4-5",
}
SHUTDOWNS: Mapping[str, Mapping[date, str]] = {
    "openai": _OPENAI,
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _ANTHROPIC,
}
"""The models that end, by provider and day. The days apply to the providers' own APIs, not to other clouds."""
_SNAPSHOT = re.compile(r"-(?:\d{4}-\d\d-\d\d|\d{8}|latest)\Z")


def shutdown_of(model: str) -> date | None:
    """Return the day on which the provider shuts the model `provider:model` down, or None if none is known.

    A snapshot such as `gpt-5-2025-08-07` is shut down with its model.
    """
    provider, _, name = model.partition(":")
    name = _SNAPSHOT.sub("", name)
    return next((day for day, names in SHUTDOWNS.get(provider, {}).items() if name in names.split()), None)
