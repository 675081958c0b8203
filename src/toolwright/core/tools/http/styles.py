"""Styles of parameters: how a nested value is written into a path, a query, a header, a cookie or a form (OpenAPI)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias
from urllib.parse import quote

from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.value import value

Place: TypeAlias = Literal["path", "query", "header", "cookie"]
Style: TypeAlias = Literal[
    "form", "spaceDelimited", "pipeDelimited", "deepObject", "simple", "label", "matrix", "json"
]
Encode: TypeAlias = Callable[[str], str]
STYLES: Mapping[Place, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix", "json"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject", "json"),
    "header": ("simple", "json"),
    "cookie": ("form", "json"),
}
"""Styles of each place, the default first. `json` is a parameter whose content is a JSON text."""
FORM_STYLES = STYLES["query"]
"""Styles of the fields of a form."""

_DELIMITERS: Mapping[str, str] = {"spaceDelimited": " ", "pipeDelimited": "|"}
_KEPT = "/:?@!$'()*,;"  # reserved characters that end neither a parameter nor the query


@value
class Parameter:
    """How one argument is sent. `name` is the name that the service knows; `reserved` leaves `/:?@!$'()*,;` as it is.

    `explode` None is the style's default: true for `form`, else false.
    """

    name: str
    place: Place
    style: Style
    explode: bool | None = None
    reserved: bool = False

    @property
    def explodes(self) -> bool:
        """Return whether each item of a list, each property of an object stands by itself."""
        return self.style == "form" if self.explode is None else self.explode


def percent(text: str) -> str:
    """The text with everything but letters, digits and `-._~` percent-encoded."""
    return quote(text, safe="")


def as_it_is(text: str) -> str:
    """The text, which is encoded otherwise."""
    return text


def scalar(part: JSON) -> str:
    """A value as a text: text as it is, anything else as JSON."""
    return part if isinstance(part, str) else dumps(part)


def query_parts(parameter: Parameter, given: JSON) -> list[str]:
    """The parameters of a query that an argument is, percent-encoded; null is none."""
    encode = _reserved if parameter.reserved else percent
    pairs = styled_pairs(parameter.name, parameter.style, parameter.explodes, given, encode)
    return [f"{name}={text}" for name, text in pairs]


def cookie_parts(parameter: Parameter, given: JSON) -> list[str]:
    """The cookies that an argument is, percent-encoded."""
    pairs = styled_pairs(parameter.name, parameter.style, parameter.explodes, given, percent)
    return [f"{name}={text}" for name, text in pairs]


def header_text(parameter: Parameter, given: JSON) -> str:
    """The value of a header; nothing in it is encoded."""
    if parameter.style == "json":
        return dumps(given)
    return _simple(given, parameter.explodes, as_it_is)


def path_text(parameter: Parameter, given: JSON) -> str:
    """A piece of a path, percent-encoded but for the delimiters of its style (RFC 6570)."""
    name, explodes = percent(parameter.name), parameter.explodes
    match parameter.style:
        case "label":
            return "." + _simple(given, explodes, percent, "." if explodes else ",")
        case "matrix":
            return _matrix(name, given, explodes)
        case "json":
            return percent(dumps(given))
        case _:
            return _simple(given, explodes, percent)


def styled_pairs(
    name: str, style: Style, explodes: bool, given: JSON, encode: Encode
) -> list[tuple[str, str]]:
    """Names and texts that a value is in a query, a cookie or a form; null, an empty list and an empty object are none.

    What stands deeper than a style knows is JSON text; `deepObject` knows objects and lists of any depth.
    """
    if given is None:
        return []
    if style == "json":
        return [(encode(name), encode(dumps(given)))]
    if style == "deepObject":
        return [(encode(key), encode(text)) for key, text in _deep(name, given)]
    if not isinstance(given, list | dict):
        return [(encode(name), encode(scalar(given)))]
    if explodes and isinstance(given, list):
        return [(encode(name), encode(scalar(item))) for item in given if item is not None]
    if explodes and isinstance(given, dict):
        return [(encode(key), encode(scalar(item))) for key, item in given.items() if item is not None]
    texts = [encode(text) for text in _flat(given)]
    delimiter = _DELIMITERS.get(style)
    return [(encode(name), ("," if delimiter is None else encode(delimiter)).join(texts))] if texts else []


def _reserved(text: str) -> str:
    return quote(text, safe=_KEPT)


def _flat(given: JSON) -> Iterator[str]:
    """The items of a list, or the names and values of an object in turn; null is left out."""
    if isinstance(given, dict):
        for name, item in given.items():
            if item is not None:
                yield name
                yield scalar(item)
    else:
        yield from [
            scalar(item) for item in (given if isinstance(given, list) else [given]) if item is not None
        ]


def _simple(given: JSON, explodes: bool, encode: Encode, delimiter: str = ",") -> str:
    if isinstance(given, dict) and explodes:
        return delimiter.join(_assigned(given, encode))
    return delimiter.join(encode(text) for text in _flat(given))


def _assigned(given: JSONObject, encode: Encode) -> Iterator[str]:
    for name, item in given.items():
        if item is not None:
            yield f"{encode(name)}={encode(scalar(item))}"


def _matrix(name: str, given: JSON, explodes: bool) -> str:
    if explodes and isinstance(given, dict):
        return "".join(f";{each}" for each in _assigned(given, percent))
    if explodes and isinstance(given, list):
        return "".join(f";{name}={percent(text)}" for text in _flat(given))
    text = _simple(given, False, percent)
    return f";{name}={text}" if text else f";{name}"


def _deep(name: str, given: JSON) -> Iterator[tuple[str, str]]:
    """`a[b][c]=1`; items of a list are `a[]=1`, or `a[0][b]=1` where they are nested themselves."""
    if isinstance(given, dict):
        for key, item in given.items():
            yield from _deep(f"{name}[{key}]", item)
    elif isinstance(given, list):
        nested = any(isinstance(item, list | dict) for item in given)
        for number, item in enumerate(given):
            yield from _deep(f"{name}[{number if nested else ''}]", item)
    elif given is not None:
        yield name, scalar(given)
