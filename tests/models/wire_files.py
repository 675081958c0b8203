"""Files in the requests of providers: decoded and checked, with OpenAI's form of the error for one that is refused."""

import base64
import binascii
import re
from typing import Any, Final

from toolwright.core.json_value import JSONObject

SIGNATURES: Final = {
    "image/jpeg": b"\xff\xd8",
    "image/png": b"\x89PNG",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
"""The types of images that OpenAI and Anthropic read, with their first bytes."""
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


def parts_of(content: Any) -> list[Any]:  # the client's JSON
    """Return the parts of a message's content, or none if it is a text."""
    return [] if content is None or isinstance(content, str) else content


def decoded(text: str) -> bytes | None:
    """Return the bytes of a base64 text, or None if it is empty or invalid."""
    try:
        return base64.b64decode(text, validate=True) or None
    except binascii.Error:
        return None


def is_readable_pdf(content: bytes) -> bool:
    """Return whether the providers read the PDF: it has the header and no password."""
    return content.startswith(b"%PDF-") and b"/Encrypt" not in content


def openai_error(message: str, param: str, code: str = "invalid_value") -> JSONObject:
    """Return the body of OpenAI's refusal of a part of a request."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def refused_file(url: str, param: str, types: str, only: str | None, example: str) -> JSONObject | None:
    """Return OpenAI's error for the file in a data URL, or None. `only` is the accepted type, or None for all."""
    expected = f"Invalid file data: '{param}'. Expected a base64-encoded data URL with {types} MIME type"
    expected = f"{expected} (e.g. 'data:{example};base64,SGVsbG8sIFdvcmxkIQ==')"
    match = _DATA_URL.fullmatch(url)
    content = None if match is None else decoded(match[2])
    if match is None or content is None:
        return openai_error(f"{expected}, but got an invalid base64-encoded value.", param)
    if only not in (None, match[1]):
        return openai_error(f"{expected}, but got unsupported MIME type '{match[1]}'.", param)
    if match[1] == "application/pdf" and not is_readable_pdf(content):
        # OpenAI's own words are not documented.
        return openai_error(f"Invalid file data: '{param}'. The file could not be read.", param)
    return None


def refused_image(url: str, param: str) -> JSONObject | None:
    """Return OpenAI's error for the image in a data URL, or None. Other URLs are accepted."""
    if not url.startswith("data:"):
        return None
    expected = f"Invalid '{param}'. Expected a base64-encoded data URL with an image MIME type"
    expected = f"{expected} (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=')"
    match = _DATA_URL.fullmatch(url)
    content = None if match is None else decoded(match[2])
    if match is None or content is None:
        return openai_error(f"{expected}, but got an invalid base64-encoded value.", param)
    if not match[1].startswith("image/"):
        return openai_error(f"{expected}, but got unsupported MIME type '{match[1]}'.", param)
    if match[1] in SIGNATURES and content.startswith(SIGNATURES[match[1]]):
        return None
    message = (
        "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
    )
    return openai_error(f"{message}['png', 'jpeg', 'gif', 'webp'].", param, "invalid_image_format")
