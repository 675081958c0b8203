"""A call that may be carried out: its tool is known and its arguments are judged."""

from dataclasses import dataclass

from toolwright.core.json_value import JSONObject
from toolwright.core.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """One call, ready for its executor.

    `arguments` are JSON, `keywords` the same as a function takes them (models built, enums made); None where
    the handler takes the JSON as it is.
    """

    tool: Tool
    arguments: JSONObject
    call_id: str
    keywords: dict[str, object] | None = None
