"""Sources of OpenAPI documents: a path, a URL, JSON or YAML text, an object.

YAML is composed from parser events with the JSON types of YAML 1.2 (`no` and dates are texts). The library's own
composer recurses into nested texts and converts more texts to other values, by older rules.
"""

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

import httpcore2
import yaml

from toolwright.adapters.executors.http import open_exchange, unpacked
from toolwright.adapters.executors.request import HttpFailure, ask_of, resolve
from toolwright.core.errors import DefinitionError, InvalidJSON
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_DOCUMENT, MAX_DOCUMENT_VALUES, MAX_NESTING
from toolwright.core.plain import has_more_values, plain
from toolwright.core.text import brief, quantity, sentence
from toolwright.core.tools.http.addresses import Resolve
from toolwright.core.tools.http.execution import HttpRequest

Node: TypeAlias = dict[str, Any] | list[Any]  # JSON under construction
FETCH_TIMEOUT = 30.0  # seconds
_ACCEPT = "application/json, application/yaml, application/vnd.oai.openapi, */*;q=0.5"
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 400  # characters; longer numbers remain texts


def is_url(source: object) -> bool:
    """Return whether the source is fetched over HTTP."""
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def is_path(source: object) -> bool:
    """Return whether the source is a file path: a single line that is neither a URL nor a JSON object."""
    if isinstance(source, Path):
        return True
    return (
        isinstance(source, str)
        and not is_url(source)
        and "\n" not in source
        and not source.lstrip().startswith("{")
    )


def load(source: object, folder: Path | None = None) -> JSONObject:
    """Load the document from a path, a text or an object. A path is relative to the folder.

    Raises `DefinitionError`.
    """
    if isinstance(source, Mapping):
        return _checked(cast("Mapping[str, object]", source))
    if is_path(source):
        path = Path(folder or "", str(source))
        try:
            if path.stat().st_size > MAX_DOCUMENT:
                raise _too_large()
            source = path.read_bytes()
        except OSError as error:
            why = error.strerror or str(error)
            raise DefinitionError(f"The OpenAPI document {str(path)!r} cannot be read: {why}.") from error
    return read(source if isinstance(source, bytes) else str(source).encode("utf-8", "replace"))


async def fetch(
    url: str,
    *,
    trusted: bool,
    allow: Iterable[str] = (),
    resolve: Resolve = resolve,
    network: httpcore2.AsyncNetworkBackend | None = None,
    tls: ssl.SSLContext | None = None,
) -> JSONObject:
    """Fetch the document at a URL. An untrusted URL can reach only public and allowed addresses (D13).

    Raises `DefinitionError`.
    """
    exchange = open_exchange(allow=allow, most=MAX_DOCUMENT, resolve=resolve, network=network, tls=tls)
    readable_url = repr(brief(shown_url(url), 200))
    try:
        request = HttpRequest(method="GET", url=url, headers=(("Accept", _ACCEPT),), body=None)
        ours = (("Accept-Encoding", "gzip, deflate"), ("User-Agent", "toolwright"))
        async with asyncio.timeout(FETCH_TIMEOUT):
            answer = await exchange(ask_of(request, ours, ""), trusted)
        if answer.status != 200:
            raise DefinitionError(
                f"The OpenAPI document {readable_url} was answered with HTTP {answer.status}."
            )
        if not answer.whole:
            raise _too_large()
        content = unpacked(answer, MAX_DOCUMENT)
    except HttpFailure as failure:
        raise DefinitionError(
            f"The OpenAPI document {readable_url} cannot be fetched: {failure.message}"
        ) from failure
    except TimeoutError as error:
        raise DefinitionError(
            f"The OpenAPI document {readable_url} was not answered within {FETCH_TIMEOUT:g} seconds."
        ) from error
    finally:
        await exchange.aclose()
    return await asyncio.to_thread(read, content)


def shown_url(url: str) -> str:
    """Return the URL without user, password and query, which can be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def read(content: bytes) -> JSONObject:
    """Parse a JSON or YAML text. Raises `DefinitionError`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DefinitionError("The OpenAPI document is not UTF-8.") from None
    if text.lstrip()[:1] == "{":
        try:
            return _checked(parse_json(text, values=MAX_DOCUMENT_VALUES))
        except NotJson as error:
            not_json = str(error)
        try:
            return _checked(_yaml(text))
        except DefinitionError:
            raise DefinitionError(sentence(f"The OpenAPI document is not valid JSON: {not_json}")) from None
    return _checked(_yaml(text))


def _checked(document: object) -> JSONObject:
    if not isinstance(document, Mapping):
        raise DefinitionError("An OpenAPI document must be an object with the field 'openapi'.")
    whole = cast("Mapping[str, object]", document)  # keys are checked below
    if has_more_values(whole, MAX_DOCUMENT_VALUES):
        raise DefinitionError(f"An OpenAPI document must have at most {MAX_DOCUMENT_VALUES} values.")
    try:
        copy = plain(dict(whole))
    except InvalidJSON as error:
        raise DefinitionError(f"The OpenAPI document is not JSON: {error.message}") from None
    assert isinstance(copy, dict), "a mapping is copied as an object"
    return copy


def _too_large() -> DefinitionError:
    return DefinitionError(f"An OpenAPI document must have at most {quantity(MAX_DOCUMENT, 'byte')}.")


def _yaml(text: str) -> JSON:
    try:
        return _Composer().value_of(text)
    except yaml.YAMLError as error:
        why = " ".join(str(error).split())
        raise DefinitionError(
            sentence(f"The OpenAPI document is not valid YAML: {brief(why, 300)}")
        ) from None


class _Composer:
    """Composes JSON from the events of a YAML text."""

    def __init__(self) -> None:
        self._within: list[Node] = []
        self._keys: list[str | None] = []  # current keys of the open objects; None if a key is expected next
        self._anchors: dict[str, Any] = {}
        self._top: Any = None

    def value_of(self, text: str) -> JSON:
        """Return the value of the first document of the text."""
        # the C parser if the library was built with it
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            if number > 2 * MAX_DOCUMENT_VALUES:
                raise DefinitionError(f"An OpenAPI document must have at most {MAX_DOCUMENT_VALUES} values.")
            if isinstance(event, yaml.DocumentEndEvent):
                break
            self._handle(event)
        return self._top

    def _handle(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            if self._wants_key():
                self._keys[-1] = event.value
            else:
                plainly = event.style in (None, "") and event.tag is None
                self._put(_resolved(event.value) if plainly else event.value, event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise yaml.YAMLError(f"the alias {event.anchor!r} names no earlier anchor")
            self._put(self._anchors[event.anchor], None)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(self._within) == MAX_NESTING:
                raise yaml.YAMLError(f"it is nested deeper than {MAX_NESTING} levels")
            node: Node = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._put(node, None)
            self._within.append(node)
            self._keys.append(None)
            self._anchors[f"\0{len(self._within)}"] = event.anchor
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            anchor = self._anchors.pop(f"\0{len(self._within)}")
            node = self._within.pop()
            self._keys.pop()
            if isinstance(node, dict) and "<<" in node:
                _merge(node)
            if anchor is not None:  # registered after the node is complete, so that no node contains itself
                self._anchors[anchor] = node

    def _wants_key(self) -> bool:
        return bool(self._within) and isinstance(self._within[-1], dict) and self._keys[-1] is None

    def _put(self, part: Any, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = part
        if not self._within:
            self._top = part
            return
        within = self._within[-1]
        if isinstance(within, list):
            within.append(part)
            return
        key = self._keys[-1]
        if key is None:
            raise yaml.YAMLError("a key must be a string")
        within[key] = part
        self._keys[-1] = None


def _merge(node: dict[str, Any]) -> None:
    """Merge the mappings of `<<` into the object. Its own names take precedence."""
    merged = node.pop("<<")
    for each in cast("list[Any]", merged if isinstance(merged, list) else [merged]):
        for name, part in cast("dict[str, Any]", each if isinstance(each, dict) else {}).items():
            node.setdefault(name, part)


def _resolved(text: str) -> JSON:
    match text:
        case "" | "~" | "null" | "Null" | "NULL":
            return None
        case "true" | "True" | "TRUE":
            return True
        case "false" | "False" | "FALSE":
            return False
        case _:
            number = _NUMBER.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
            if number is None:
                return text
            if number[2] is None and number[3] is None:
                return int(text)
            parsed = float(text)
            return text if parsed - parsed != 0.0 else parsed
