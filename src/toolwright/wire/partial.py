"""JSON that is still being written."""

from pydantic_core import from_json

from toolwright.core.json_value import JSON


def partial_json(text: str) -> JSON:
    """The value as far as it is readable, best effort; null where nothing is."""
    try:
        return from_json(text, allow_partial="trailing-strings") if text else {}
    except ValueError:
        return None
