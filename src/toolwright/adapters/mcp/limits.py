"""Limits of what MCP servers may send: counted before it is parsed."""

import asyncio

from toolwright.core.json_text import TooManyValues, ValueCount
from toolwright.core.limits import MAX_JSON_VALUES

MAX_MESSAGE = 36 * 1024 * 1024
"""Bytes of one message: a file of 25 MiB as base64, and what is around it."""
AT_ONCE = 256 * 1024  # bytes that are counted on the event loop


class Refused(Exception):
    """A message that is not taken; the words say why."""


async def check_values(message: bytes) -> None:
    """Raise `Refused` for a message of more JSON values than any text from outside may hold."""
    try:
        if len(message) <= AT_ONCE:
            ValueCount(MAX_JSON_VALUES).add(message)
        else:
            await asyncio.to_thread(ValueCount(MAX_JSON_VALUES).add, message)
    except TooManyValues as error:
        raise Refused(f"The message is too large: {error}.") from None
