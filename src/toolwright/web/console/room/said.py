"""A message of a space as the page shows it, read from the API's JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolwright.core.json_value import JSONObject
from toolwright.core.text import brief
from toolwright.runtime.spaces.history import Shown
from toolwright.wire.space import space_message_json

GONE = "Somebody who is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message; `call` is its metadata if it shows a tool call. One that streams has no place yet."""

    id: str
    entity_id: str
    author: str
    by_agent: bool
    content: str
    call: JSONObject | None = None
    parent_id: str | None = None
    reactions: Sequence[tuple[str, str]] = ()  # emoji and entity
    at: datetime
    edited: bool = False
    seq: int | None = None

    @property
    def gist(self) -> str:
        """The message in one line."""
        if self.call is not None:
            return str(self.call.get("toolName"))
        return brief(" ".join(self.content.split()), 120)


def said_from_json(message: JSONObject) -> Said:
    """The message of that JSON (API §3)."""
    fields: Any = message  # as `space_message_json` writes it
    entity = fields.get("entity")
    metadata = fields["metadata"]
    return Said(
        id=fields["id"],
        entity_id=fields["entityId"],
        author=GONE if entity is None else entity["displayName"] or entity["externalId"] or entity["id"],
        by_agent=fields["role"] == "assistant",
        content=fields["content"],
        call=metadata if metadata.get("type") == "tool_call" else None,
        parent_id=fields["parentMessageId"],
        reactions=[(each["emoji"], each["entityId"]) for each in fields["reactions"]],
        at=datetime.fromisoformat(fields["createdAt"]),
        edited=fields.get("editedAt") is not None,
        seq=fields["seq"],
    )


def said_of(row: Shown) -> Said:
    """The message of that row."""
    return said_from_json(space_message_json(row.message, row.author, row.reactions))
