"""Parameters of HTTP tools: placeholders in URLs and headers, and the styles of nested values."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.limits import MAX_NAME
from toolwright.core.value import Value

MAX_URL = 8 * 1024
"""Maximum number of characters of a configured URL or header: most servers accept no longer ones."""

_SLOT = re.compile(r"\$\{([^{}]*)\}|\{([^{}]*)\}")
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_ORIGIN = re.compile(r"(https?)://([^/?#]*)", re.IGNORECASE)
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f\\\u2028\u2029]")
_SEPARATORS = re.compile(r"[/\\]")
Place: TypeAlias = Literal["path", "query", "header", "cookie"]
Style: TypeAlias = Literal[
    "form", "spaceDelimited", "pipeDelimited", "deepObject", "simple", "label", "matrix", "json"
]
STYLES: Mapping[Place, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix", "json"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject", "json"),
    "header": ("simple", "json"),
    "cookie": ("form", "json"),
}
"""Styles of each place, the default first. `json` sends the parameter as JSON text."""
_DELIMITERS: Mapping[str, str] = {"spaceDelimited": " ", "pipeDelimited": "|"}
_KEPT = "/:?@!$'()*,;"  # reserved characters that cannot end a parameter or the query


class InvalidTemplate(ValueError):
    """An invalid template; the message has the form `must …`."""


class Unfillable(Exception):
    """The template cannot be filled with these arguments. The message contains no values."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder."""

    kind: Literal["argument", "variable"]
    name: str


Piece: TypeAlias = str | Slot
Values: TypeAlias = Callable[[Slot], str | None]
"""Returns the percent-encoded text of a slot, or None if it has no value."""


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    """A URL in parts: its `origin` (scheme, userinfo, host, port) has no placeholders."""

    origin: str
    path: tuple[Piece, ...]
    query: tuple[tuple[Piece, ...], ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The placeholders, in order."""
        pieces = [*self.path, *(piece for parameter in self.query for piece in parameter)]
        return tuple(dict.fromkeys(piece for piece in pieces if isinstance(piece, Slot)))

    def fill(self, values: Values, more: Iterable[str] = ()) -> str:
        """Return the URL with these values, and with further parameters, `name=text`, after its own.

        A query parameter whose placeholder has no value is omitted. Raises `Unfillable`.
        """
        own = [text for parameter in self.query if (text := _filled(parameter, values)) is not None]
        query = "&".join([*own, *more])
        return f"{self.origin}{_path(self.path, values)}{'?' if query else ''}{query}"


def read_url(text: str) -> UrlTemplate:
    """Return the parts of a URL with placeholders. Raises `InvalidTemplate`."""
    _check_length(text)
    return _read_url(text)


@lru_cache(maxsize=1_024)
def _read_url(text: str) -> UrlTemplate:
    origin = _ORIGIN.match(text)
    if origin is None:
        raise InvalidTemplate(
            "must begin with http:// or https://, without a placeholder in scheme, host, port or userinfo"
        )
    if "{" in origin[2] or "}" in origin[2]:
        raise InvalidTemplate("must not have a placeholder in scheme, host, port or userinfo")
    pieces = _pieces(text[origin.end() :], _SLOT)
    literal = origin[0] + "".join(piece for piece in pieces if isinstance(piece, str))
    if _UNSAFE.search(literal):
        raise InvalidTemplate("must not contain blanks, control characters or backslashes")
    if "#" in literal:
        raise InvalidTemplate("must not have a fragment (#…): it is never sent to a server")
    _check_origin(origin[0])
    path, query = _split(pieces)
    return UrlTemplate(origin[0], path or ("/",), query)


def read_header(text: str) -> tuple[Piece, ...]:
    """Return the parts of a header's value, in which only `${env.NAME}` is a placeholder. Raises `InvalidTemplate`."""
    _check_length(text)
    return _read_header(text)


@lru_cache(maxsize=1_024)
def _read_header(text: str) -> tuple[Piece, ...]:
    return tuple(_pieces(text, _VARIABLE))


def _check_length(text: str) -> None:
    if len(text) > MAX_URL:
        raise InvalidTemplate(f"must have at most {MAX_URL} characters")


def argument_text(value: JSON) -> str | None:
    """Return an argument as text for a URL: text unchanged, other values as JSON, None for null."""
    return value if value is None or isinstance(value, str) else dumps(value)


def query_of(arguments: JSONObject) -> list[tuple[str, str]]:
    """Return arguments as query parameters: lists are repeated, objects are JSON, null is omitted."""
    pairs: list[tuple[str, str]] = []
    for name, argument in arguments.items():
        texts = [argument_text(each) for each in (argument if isinstance(argument, list) else [argument])]
        pairs += [(name, text) for text in texts if text is not None]
    return pairs


def _pieces(text: str, pattern: re.Pattern[str]) -> list[Piece]:
    pieces: list[Piece] = []
    end = 0
    for slot in pattern.finditer(text):
        pieces += [text[end : slot.start()]] if slot.start() > end else []
        pieces.append(_slot(slot))
        end = slot.end()
    pieces += [text[end:]] if end < len(text) else []
    if pattern is _SLOT and any(
        isinstance(piece, str) and ("{" in piece or "}" in piece) for piece in pieces
    ):
        raise InvalidTemplate("must not have a brace outside a placeholder: write %7B or %7D")
    return pieces


def _slot(slot: re.Match[str]) -> Slot:
    variable = slot[1]
    if variable is None:
        if not slot[2].strip():
            raise InvalidTemplate("must not have a placeholder without a name")
        return Slot("argument", slot[2])
    name = variable.removeprefix("env.")
    if name == variable:
        raise InvalidTemplate("must name a variable as ${env.NAME}")
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidTemplate(f"must name variables that are printable, of 1 to {MAX_NAME} characters")
    return Slot("variable", name)


def _check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or "%" in host or port == 0:
        raise InvalidTemplate("must have a host, and a port of 1 to 65535 if any")


def _split(pieces: Iterable[Piece]) -> tuple[tuple[Piece, ...], tuple[tuple[Piece, ...], ...]]:
    """Split the pieces into the pieces of the path and the pieces of each query parameter."""
    path: list[Piece] = []
    query: list[list[Piece]] = []
    for each in pieces:
        if isinstance(each, Slot):
            (query[-1] if query else path).append(each)
            continue
        piece = each
        if not query:
            before, mark, piece = piece.partition("?")
            path += [before] if before else []
            if not mark:
                continue
            query.append([])
        first, *others = piece.split("&")
        query[-1] += [first] if first else []
        query.extend([other] if other else [] for other in others)
    return tuple(path), tuple(tuple(parameter) for parameter in query if parameter)


def _filled(parameter: Iterable[Piece], values: Values) -> str | None:
    texts: list[str] = []
    for piece in parameter:
        text = piece if isinstance(piece, str) else values(piece)
        if text is None:
            return None
        texts.append(text)
    return "".join(texts)


def _path(pieces: Iterable[Piece], values: Values) -> str:
    """Return the path. Raises `Unfillable` if a filled segment is empty, or is `.` or `..`."""
    segments: list[tuple[str, list[Slot]]] = [("", [])]
    for piece in pieces:
        if isinstance(piece, str):
            first, *others = piece.split("/")
            segments[-1] = (segments[-1][0] + first, segments[-1][1])
            segments += [(each, []) for each in others]
            continue
        text = values(piece)
        if text is None:
            raise Unfillable(f"The tool's URL needs the {piece.kind} {piece.name!r}.")
        segments[-1] = (segments[-1][0] + text, [*segments[-1][1], piece])
    for text, slots in segments:
        if slots:
            _check_segment(text, slots)
    return "/".join(text for text, _ in segments)


def _check_segment(text: str, slots: list[Slot]) -> None:
    parts = _SEPARATORS.split(unquote(text))
    if not text or any(part in (".", "..") for part in parts):
        placeholders = " and ".join(f"the {slot.kind} {slot.name!r}" for slot in slots)
        raise Unfillable(
            f"The path of the tool's URL must not be left: {placeholders} must not be empty, '.' or '..'."
        )


Encode: TypeAlias = Callable[[str], str]
FORM_STYLES = STYLES["query"]
"""Styles of form fields."""


class Parameter(Value):
    """Encoding of one argument. `name` is the name in the request; `reserved` leaves `/:?@!$'()*,;` unencoded.

    `explode` None is the style's default: true for `form`, otherwise false.
    """

    name: str
    place: Place
    style: Style
    explode: bool | None = None
    reserved: bool = False

    @property
    def explodes(self) -> bool:
        """Return whether each item of a list, or each property of an object, is sent separately."""
        return self.style == "form" if self.explode is None else self.explode


def percent(text: str) -> str:
    """Return the text with everything but letters, digits and `-._~` percent-encoded."""
    return quote(text, safe="")


def as_it_is(text: str) -> str:
    """Return the text unchanged, for values that are encoded elsewhere."""
    return text


def scalar(part: JSON) -> str:
    """Return a value as text: text unchanged, other values as JSON."""
    return part if isinstance(part, str) else dumps(part)


def query_parts(parameter: Parameter, value: JSON) -> list[str]:
    """Return the query parameters of an argument, percent-encoded. Null has none."""
    encode = _reserved if parameter.reserved else percent
    pairs = styled_pairs(parameter.name, parameter.style, parameter.explodes, value, encode)
    return [f"{name}={text}" for name, text in pairs]


def cookie_parts(parameter: Parameter, value: JSON) -> list[str]:
    """Return the cookies of an argument, percent-encoded."""
    pairs = styled_pairs(parameter.name, parameter.style, parameter.explodes, value, percent)
    return [f"{name}={text}" for name, text in pairs]


def header_text(parameter: Parameter, value: JSON) -> str:
    """Return the value of a header, without encoding."""
    if parameter.style == "json":
        return dumps(value)
    return _simple(value, parameter.explodes, as_it_is)


def path_text(parameter: Parameter, value: JSON) -> str:
    """Return a part of a path, percent-encoded except for the delimiters of its style (RFC 6570)."""
    name, explodes = percent(parameter.name), parameter.explodes
    match parameter.style:
        case "label":
            return "." + _simple(value, explodes, percent, "." if explodes else ",")
        case "matrix":
            return _matrix(name, value, explodes)
        case "json":
            return percent(dumps(value))
        case _:
            return _simple(value, explodes, percent)


def styled_pairs(
    name: str, style: Style, explodes: bool, value: JSON, encode: Encode
) -> list[tuple[str, str]]:
    """Return the names and texts of a value in a query, a cookie or a form.

    Null, an empty list and an empty object yield nothing. Values nested deeper than the style allows become JSON text;
    `deepObject` allows objects and lists of any depth.
    """
    if value is None:
        return []
    if style == "json":
        return [(encode(name), encode(dumps(value)))]
    if style == "deepObject":
        return [(encode(key), encode(text)) for key, text in _deep(name, value)]
    if not isinstance(value, list | dict):
        return [(encode(name), encode(scalar(value)))]
    if explodes and isinstance(value, list):
        return [(encode(name), encode(scalar(item))) for item in value if item is not None]
    if explodes and isinstance(value, dict):
        return [(encode(key), encode(scalar(item))) for key, item in value.items() if item is not None]
    texts = [encode(text) for text in _flat(value)]
    delimiter = _DELIMITERS.get(style)
    return [(encode(name), ("," if delimiter is None else encode(delimiter)).join(texts))] if texts else []


def _reserved(text: str) -> str:
    return quote(text, safe=_KEPT)


def _flat(value: JSON) -> Iterator[str]:
    """Yield the items of a list, or alternately the names and values of an object; null is omitted."""
    if isinstance(value, dict):
        for name, item in value.items():
            if item is not None:
                yield name
                yield scalar(item)
    else:
        yield from [
            scalar(item) for item in (value if isinstance(value, list) else [value]) if item is not None
        ]


def _simple(value: JSON, explodes: bool, encode: Encode, delimiter: str = ",") -> str:
    if isinstance(value, dict) and explodes:
        return delimiter.join(_assigned(value, encode))
    return delimiter.join(encode(text) for text in _flat(value))


def _assigned(properties: JSONObject, encode: Encode) -> Iterator[str]:
    for name, item in properties.items():
        if item is not None:
            yield f"{encode(name)}={encode(scalar(item))}"


def _matrix(name: str, value: JSON, explodes: bool) -> str:
    if explodes and isinstance(value, dict):
        return "".join(f";{each}" for each in _assigned(value, percent))
    if explodes and isinstance(value, list):
        return "".join(f";{name}={percent(text)}" for text in _flat(value))
    text = _simple(value, False, percent)
    return f";{name}={text}" if text else f";{name}"


def _deep(name: str, value: JSON) -> Iterator[tuple[str, str]]:
    """Yield parameters such as `a[b][c]=1`. List items are `a[]=1`, or `a[0][b]=1` if they are nested."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _deep(f"{name}[{key}]", item)
    elif isinstance(value, list):
        nested = any(isinstance(item, list | dict) for item in value)
        for number, item in enumerate(value):
            yield from _deep(f"{name}[{number if nested else ''}]", item)
    elif value is not None:
        yield name, scalar(value)
