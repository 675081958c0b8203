"""The toolkits that come with Toolwright, and their tools' names, which no other tool of their agent may have (D11)."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Toolkit: TypeAlias = Literal["spaces", "mind", "channels", "memory"]

TOOLKITS: Mapping[Toolkit, tuple[str, ...]] = {
    "spaces": ("enter_space", "leave_space", "send_message", "read_messages", "skip"),
    "mind": (
        "set_goals",
        "delete_goals",
        "set_memories",
        "delete_memories",
        "set_plans",
        "delete_plans",
        "get_plans",
    ),
    "channels": ("send_message", "react_to_message", "do_nothing"),
    "memory": ("update_memory", "search_memory", "store_memory"),
}
"""The tools of each, in the order of S3 and S4."""

RESERVED = frozenset(name for names in TOOLKITS.values() for name in names)
"""All their names."""
