"""Text for messages: quotations of bounded length, sentences, quantities and hints."""

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from difflib import get_close_matches
from typing import cast

MAX_WORDS = 2_000  # maximum characters
CUT = " … ("
"""Mark at the position where a text was cut, before its length."""

BEFORE_CUT: ContextVar[Callable[[str], str]] = ContextVar("toolwright_before_cut")
"""Removes secrets from a text before it is cut. Set while a handler, a model or a server determines texts (D6)."""
_FEW = 5  # maximum errors of a group
_TEXTS = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml"}
)
_MAX_MEANT = 200  # characters: a longer name is not a typo, and takes long to compare


@contextmanager
def cleaned_before_cut(clean: Callable[[str], str]) -> Generator[None]:
    """Clean the texts that are cut in the block and its tasks: half a secret would not be recognized later."""
    token = BEFORE_CUT.set(clean)
    try:
        yield
    finally:
        BEFORE_CUT.reset(token)


def brief(text: str, most: int = MAX_WORDS) -> str:
    """Return the text, cut if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    clean = BEFORE_CUT.get(None)
    if clean is not None and len(text := clean(text)) <= most:
        return text
    shortened = text[:most].rstrip(CUT)  # so that an earlier mark is removed completely
    return f"{shortened}{CUT}{len(text)} characters)"


def error_text(error: BaseException, text_of: Callable[[BaseException], str] = str) -> str:
    """Return the message of an error, or its type's name if it has none."""
    try:
        text = text_of(error)
    except (Exception, SystemExit):  # noqa: BLE001 - a user's error may not even have a text
        text = ""
    return brief(error_message(error, text, text_of))


def first_error(error: BaseException) -> BaseException:
    """Return the error itself, or the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def error_message(error: BaseException, text: str, text_of: Callable[[BaseException], str] = str) -> str:
    """Return the message of an error, or its type's name; both for an error whose message is only a missing key.

    The message of a group is followed by the messages of its first errors, whose texts are those of `text_of`.
    """
    if isinstance(error, KeyError) and len(error.args) == 1 and text == repr(error.args[0]):
        return f"{type(error).__name__}: {text}"
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)  # isinstance does not check the items
        first = [error_message(each, text_of(each).strip(), text_of) for each in group.exceptions[:_FEW]]
        return f"{text}: {'; '.join(first)}"
    return text or type(error).__name__


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends with one."""
    stripped = text.rstrip()
    return stripped if stripped.endswith((".", "!", "?", "…")) else f"{stripped}."


def pydantic_reason(error: Exception) -> str:
    """Return the message of pydantic's error about a type as one sentence, without the link to its documentation."""
    return sentence(" ".join(str(error).partition("For further information")[0].split()))


def time_span(span: timedelta) -> str:
    """Return a time span as text: `250 ms`, `1.5 s`, `3 min 5 s` or `26 h 10 min`."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def is_text_type(mime_type: str) -> bool:
    """Return whether files of the type are text documents."""
    return mime_type.startswith("text/") or mime_type in _TEXTS


def quantity(number: int | float, noun: str) -> str:
    """Return the number and the noun, in the plural unless the number is 1."""
    count = f"{number:g}" if isinstance(number, float) else str(number)
    if number == 1:
        return f"{count} {noun}"
    return f"{count} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{count} {noun}s"


def nearest(name: str, options: Iterable[str]) -> str:
    """Return a sentence that suggests the option that was probably meant by a name, or nothing."""
    close = get_close_matches(name, sorted(options), n=1) if len(name) <= _MAX_MEANT else []
    return f" Did you mean {close[0]!r}?" if close else ""


def hint(name: str, options: Iterable[str]) -> str:
    """Return a sentence that suggests the option that was probably meant by a name, or lists them all."""
    names = sorted(options)
    return nearest(name, names) or (sentence(f" It has: {', '.join(names)}") if names else "")


_UNSEEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(json_text: str) -> str:
    """Return the JSON with control characters, line ends and text directions as JSON escapes (`\\u202e`)."""
    if json_text.isascii() and json_text.isprintable():
        return json_text
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def spelled_out(text: str) -> str:
    r"""Return the text on one line, with line breaks, control characters and text directions as escapes (`\n`).

    The result cannot break the surrounding line, control a terminal or change the order in which text is shown.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(
        lambda match: repr(match[0])[1:-1], text
    )  # a codec could have to be loaded from a file


_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Remove control characters (except line breaks and tabs), tag characters and text-direction characters.

    They would make a reader see something other than what a model reads. Lone surrogates are replaced.
    """
    if text.isascii() and text.isprintable():
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _HIDDEN.sub("", text)


def url_scheme(url: str) -> str:
    """Return the scheme of a URL without the rest, which can contain a password, or a text that is no URL."""
    scheme, separator, _ = url.partition("://")
    return f"{scheme}://…" if separator else url if "@" not in url else "…"
