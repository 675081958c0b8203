"""The built-in toolkits and the reserved names of their tools (D7, D11)."""

from collections.abc import Iterable, Mapping, Sequence

from toolwright.core.threads.compaction import READ_RESULT

SPACES, MIND, CHANNELS, MEMORY = "spaces", "mind", "channels", "memory"
ENTER_SPACE, SEND_MESSAGE = "enter_space", "send_message"

SUBAGENT_CREATE, SUBAGENT_MESSAGE = "subagent_create", "subagent_message"
LIFECYCLE = (SUBAGENT_CREATE, SUBAGENT_MESSAGE)
"""Tools of an agent that can run resumable agents (S0 §6)."""

TOOLKITS: Mapping[str, tuple[str, ...]] = {
    SPACES: (ENTER_SPACE, "leave_space", SEND_MESSAGE, "read_messages", "skip"),
    MIND: (
        "set_goals",
        "delete_goals",
        "set_memories",
        "delete_memories",
        "set_plans",
        "delete_plans",
        "get_plans",
    ),
    CHANNELS: (SEND_MESSAGE, "react_to_message", "do_nothing"),
    MEMORY: ("update_memory", "search_memory", "store_memory"),
}
CONFIGURED: tuple[str, ...] = (SPACES, MIND)
ALTERNATIVE_TOOLKITS: tuple[str, ...] = (CHANNELS, MEMORY)
"""The default toolkits of an agent configured as JSON, and the alternative to them."""


def configured(toolkits: Sequence[str]) -> tuple[str, ...] | None:
    """Return the toolkits of an agent configured as JSON with these names, or None if it mixes the two groups."""
    names = {*toolkits}
    if names <= {*CONFIGURED}:
        return CONFIGURED
    return ALTERNATIVE_TOOLKITS if names <= {*ALTERNATIVE_TOOLKITS} else None


def toolkits_error(toolkits: Sequence[str]) -> str | None:
    """Return the error of an agent's toolkits, as the end of a sentence without a full stop, or None."""
    unknown = [name for name in toolkits if name not in TOOLKITS]
    if unknown:
        return f"names {unknown[0]!r}, which is no toolkit: there are {', '.join(map(repr, TOOLKITS))}"
    if SPACES in toolkits and CHANNELS in toolkits:
        return "must not name both 'spaces' and 'channels': both have a tool 'send_message'"
    return None


def reserved(toolkits: Iterable[str]) -> frozenset[str]:
    """Return the names of the tools in these toolkits, and of the tools that every agent can have."""
    return frozenset([READ_RESULT, *[name for kit in toolkits for name in TOOLKITS[kit]]])
