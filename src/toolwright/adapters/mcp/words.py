"""What has gone wrong with an MCP server, in our words: those of libraries speak of their own insides."""

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import PARSE_ERROR
from pydantic import ValidationError

from toolwright.core.text import brief, first_error, words

MOST = 500  # characters
_NO_MESSAGE = "it is no message of the protocol"
_PARSING = ("Failed to parse JSON response: ", "Failed to parse SSE message: ")


def said(error: BaseException) -> str:
    """What an error says, of a group the first one; without a full stop of its own."""
    error = first_error(error)
    match error:
        case TimeoutError():
            return "it does not answer in time"
        case OSError(filename=str(command)):
            return f"its command {brief(command, 200)!r} cannot be started: {error.strerror or words(error)}"
        case ValidationError():
            return _NO_MESSAGE
        case MCPError() if error.error.code == PARSE_ERROR:
            return _of_parsing(error.error.message)
        case MCPError():
            return brief(error.error.message, MOST)
        case httpx2.HTTPStatusError():
            return _of_answer(error.response)
        case _:
            return brief(words(error), MOST)


def _of_answer(response: httpx2.Response) -> str:
    """What is wrong with a server that answers with an error: the words of the transport, if it is theirs."""
    try:
        return brief(str(response.json()["error"]["message"]), MOST)
    except (httpx2.ResponseNotRead, ValueError, LookupError, TypeError):
        return f"it answers HTTP {response.status_code}"


def _of_parsing(message: str) -> str:
    for beginning in _PARSING:
        message = message.removeprefix(beginning)
    return _NO_MESSAGE if "validation error" in message else brief(message, MOST)
