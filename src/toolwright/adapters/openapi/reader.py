"""Reader of OpenAPI documents from a path, a URL, text or an object: selects operations, names their tools.

YAML is composed from parser events with the JSON types of YAML 1.2 (`no` and dates are texts). The library's own
composer recurses into nested texts and converts more texts to other values, by older rules.
"""

import asyncio
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import urljoin, urlsplit

import httpcore2
import jsonref
import yaml
from pydantic import ValidationError

from toolwright.adapters.executors.http import open_exchange, unpacked
from toolwright.adapters.executors.request import HttpFailure, ask_of, resolve
from toolwright.adapters.openapi.operation import (
    SLOT,
    Document,
    add_security,
    description_of,
    literal,
    model_of,
    read_request,
    response_fields,
    upper,
)
from toolwright.adapters.openapi.schemas import (
    Inheritance,
    Node,
    OperationRefused,
    entries,
    members,
    part,
    resolved,
)
from toolwright.core.arguments.patterns import warn_of_patterns
from toolwright.core.errors import DefinitionError, InvalidConfiguration, InvalidJSON
from toolwright.core.forms import form_error
from toolwright.core.json_text import NotJson, read_json
from toolwright.core.json_value import JSON, JSONObject, has_more_values, plain
from toolwright.core.limits import MAX_DOCUMENT, MAX_DOCUMENT_VALUES, MAX_NESTING
from toolwright.core.text import brief, quantity, sentence
from toolwright.core.tools.config import read_tool_config
from toolwright.core.tools.http.addresses import Resolve
from toolwright.core.tools.http.execution import METHODS, HttpRequest
from toolwright.core.tools.openapi import Api, ApiForm, OnlyForm, OperationFault

JSONNode: TypeAlias = dict[str, Any] | list[Any]  # JSON under construction
FETCH_TIMEOUT = 30.0  # seconds
_ACCEPT = "application/json, application/yaml, application/vnd.oai.openapi, */*;q=0.5"
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_MAX_NUMBER = 400  # characters; longer numbers remain texts
_METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
_EFFECTS: Mapping[str, str] = {
    "GET": "read_only",
    "HEAD": "read_only",
    "PUT": "idempotent",
    "DELETE": "idempotent",
}
_FLAGS: Mapping[str, str] = {
    "read_only": "readOnly",
    "idempotent": "idempotent",
    "destructive": "destructive",
}
_CONVERTER = "convert it to OpenAPI 3, for example with `npx swagger2openapi`"
_MAX_NAME = 64  # characters that every provider accepts


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
    if isinstance(source, str) and not source.strip():
        raise DefinitionError("The source of an OpenAPI document must not be empty.")
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
            return _checked(read_json(text, values=MAX_DOCUMENT_VALUES))
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
        self._within: list[JSONNode] = []
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
            node: JSONNode = {} if isinstance(event, yaml.MappingStartEvent) else []
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
        if key in within:
            raise yaml.YAMLError(f"an object has a duplicate key: {brief(repr(key), 100)}")
        within[key] = part
        self._keys[-1] = None


def _merge(node: dict[str, Any]) -> None:
    """Merge the mappings of `<<` into the object. Its own names take precedence."""
    merged = node.pop("<<")
    for each in cast("list[Any]", merged if isinstance(merged, list) else [merged]):
        for name, entry in cast("dict[str, Any]", each if isinstance(each, dict) else {}).items():
            node.setdefault(name, entry)


def _resolved(text: str) -> JSON:
    match text:
        case "" | "~" | "null" | "Null" | "NULL":
            return None
        case "true" | "True" | "TRUE":
            return True
        case "false" | "False" | "FALSE":
            return False
        case _:
            number = _NUMBER.fullmatch(text) if len(text) <= _MAX_NUMBER else None
            if number is None:
                return text
            if number[2] is None and number[3] is None:
                return int(text)
            parsed = float(text)
            return text if parsed - parsed != 0.0 else parsed


class _Operation:
    """An operation at its position in the document."""

    def __init__(self, path: str, method: str, item: Node, node: Node, broken: Node = None) -> None:
        self.broken = broken  # an unresolved reference, reported when the operation is read
        self.path = path
        self.method = method.upper()
        self.item = item
        self.node = node
        operation_id = part(node, "operationId")
        self.id = operation_id if isinstance(operation_id, str) and operation_id.strip() else None
        self.tags = [each for each in members(node, "tags") if isinstance(each, str)]

    @property
    def shown(self) -> str:
        """The operation as shown to users."""
        return f"{self.method} {self.path}"

    @property
    def name(self) -> str:
        """The name of the operation, or a name derived from its method and path."""
        return self.id or f"{self.method.lower()}_{self.path.strip('/').replace('/', '_')}"


def read_api(document: JSONObject, form: ApiForm, url: str | None) -> Api:
    """Return the tools of a document. `url` is the URL from which it was loaded, if any.

    Raises `DefinitionError` if it is not an OpenAPI document.
    """
    old = _is_old(document)
    resolving: Any = jsonref  # untyped
    root: Node = resolving.replace_refs(document, loader=_no_other, lazy_load=True)
    whole = Document(root=root, old=old, longest=form.max_description, inheritance=Inheritance(root))
    title = part(root, "info", "title")
    title = (
        brief(" ".join(title.split()), 100) if isinstance(title, str) and title.strip() else "without a title"
    )
    operations = [*_selected(root, form)]
    reader = _ApiReader(whole, form, url, _prefix(title, form, url))
    tools: list[JSONObject] = []
    errors: list[OperationFault] = []
    with warn_of_patterns(f"The OpenAPI document {title!r}"):
        for operation in operations:
            try:
                tools.append(reader.tool(operation))
            except _ERRORS as error:
                errors.append(
                    OperationFault(operation=operation.shown, message=brief(_error_message(error), 500))
                )
    return Api(title=title, tools=tuple(tools), faults=tuple(errors), left_out=tuple(sorted(whole.left_out)))


_ERRORS = (
    OperationRefused,
    ValidationError,
    InvalidConfiguration,
    DefinitionError,
    jsonref.JsonRefError,
    RecursionError,
)


class _ApiReader:
    """Creates configurations of operations, each with a unique name."""

    def __init__(self, document: Document, form: ApiForm, url: str | None, prefix: str) -> None:
        self._document = document
        self._form = form
        self._url = url
        self._prefix = prefix
        self._used_names: set[str] = set()

    def tool(self, operation: _Operation) -> JSONObject:
        """Return the configuration of the operation's tool. Raises one of `_FAULTS`."""
        form, document = self._form, self._document
        resolved(operation.broken)
        if not isinstance(cast("object", operation.node), Mapping):
            raise OperationRefused("it is not an object")
        if operation.method not in METHODS:
            raise OperationRefused(f"tools cannot call the method {operation.method}")
        base = self._base(operation)
        request = read_request(
            document, base, operation.path, operation.method, operation.item, operation.node
        )
        execution = cast("JSONObject", request["execution"])
        add_security(request, document, operation.node, self._prefix, form.auth)
        if form.headers:
            own = {name.lower() for name in form.headers}
            declared = cast("JSONObject", execution.get("headers", {}))
            kept = {name: text for name, text in declared.items() if name.lower() not in own}
            execution["headers"] = {**kept, **form.headers}
        fields = self._fields(operation)
        if fields:
            execution["fields"] = fields
        if not self._is_as_written(base):
            execution["publicOnly"] = True
        name = self._name(operation)
        config: JSONObject = {
            "name": name,
            "description": description_of(
                operation.node, operation.method, operation.path, form.max_description
            ),
            "executionType": "gateway",
            **request,
            **self._options(operation, name),
        }
        read_tool_config(config, "", trusted=True)
        self._used_names.add(name)
        return config

    def _options(self, operation: _Operation, name: str) -> JSONObject:
        form = self._form
        effect = form.effects.get(
            operation.id or "", form.effects.get(name, _EFFECTS.get(operation.method, "none"))
        )
        options: JSONObject = {_FLAGS[effect]: True} if effect in _FLAGS else {}
        if form.visible is not None:
            options["visible"] = form.visible
        if form.timeout is not None:
            options["timeout"] = form.timeout
        if form.requires_approval is not None:
            options["requiresApproval"] = form.requires_approval
        return options

    def _fields(self, operation: _Operation) -> list[JSON]:
        chosen = self._form.fields
        if isinstance(chosen, dict):
            chosen = chosen.get(operation.name, False)
        if chosen is True:
            return [*response_fields(self._document, operation.node)]
        return [*chosen] if isinstance(chosen, list) else []

    def _name(self, operation: _Operation) -> str:
        whole = f"{self._form.name}_{operation.name}" if self._form.name else operation.name
        plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", whole)).strip("_") or "operation"
        name, number = plain[:_MAX_NAME], 2
        while name in self._used_names:
            mark = f"_{number}"
            name, number = f"{plain[: _MAX_NAME - len(mark)]}{mark}", number + 1
        return name

    def _base(self, operation: _Operation) -> str:
        """Return the base URL of the operation."""
        if self._form.base_url is not None:
            return self._form.base_url.rstrip("/")
        for whole in (operation.node, operation.item, self._document.root):
            for server in members(whole, "servers"):
                return self._server(server)
        return self._server({"url": "/"})

    def _server(self, raw: Node) -> str:
        server = model_of(self._document, "Server", raw)
        url: str = server.url
        variables = cast("dict[str, Any]", server.variables or {})
        for name in SLOT.findall(url):
            if name not in variables:
                why = f"the server {brief(repr(url), 100)} does not define its variable"
                raise OperationRefused(f"{why} {brief(repr(name), 100)}; set base_url")
        for name, variable in variables.items():
            url = url.replace(f"{{{name}}}", str(variable.default))
        if self._url is not None:
            url = urljoin(self._url, url)
        elif url.startswith("//"):
            url = f"https:{url}"
        if not url.lower().startswith(("http://", "https://")):
            raise OperationRefused(f"the server {brief(repr(url), 100)} has no host; set base_url")
        return literal(url).rstrip("/")

    def _is_as_written(self, base: str) -> bool:
        """Return whether the caller specified the address. Addresses from a foreign document must be public."""
        if self._form.base_url is not None or self._url is None:
            return True
        ours, theirs = urlsplit(self._url), urlsplit(base)
        return (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)


def _is_old(document: JSONObject) -> bool:
    """Return whether the document is OpenAPI 3.0. Raises `DefinitionError` if it is neither 3.0 nor 3.1."""
    version = document.get("openapi")
    if version is None and "swagger" in document:
        raise DefinitionError(f"This is a Swagger {document['swagger']} document: {_CONVERTER}.")
    shown_version = str(version)
    if not re.fullmatch(r"3\.[01](\.\d+.*)?", shown_version):
        problem = "has no field 'openapi'" if version is None else f"is of OpenAPI {brief(shown_version, 40)}"
        raise DefinitionError(f"The document {problem}: only OpenAPI 3.0 and 3.1 are supported.")
    return shown_version.startswith("3.0")


def _no_other(uri: str) -> object:
    raise OperationRefused(
        f"{brief(uri, 100)!r} is another document: bundle them first, for example with `npx @redocly/cli bundle`"
    )


def _prefix(title: str, form: ApiForm, url: str | None) -> str:
    """Return the prefix of variable names. It is never a text chosen by a foreign document."""
    if form.name is not None:
        return upper(form.name)
    return upper(title if url is None else urlsplit(url).hostname or "")


def _operations(root: Node) -> Iterator[_Operation]:
    for path, raw in entries(root, "paths").items():
        for method in _METHODS:
            try:
                item = resolved(raw)
                node = part(item, method)
            except (jsonref.JsonRefError, RecursionError):
                yield _Operation(path, method, {}, {}, raw)
                break
            if node is not None:
                yield _Operation(path, method, item, node)


def _selected(root: Node, form: ApiForm) -> Iterator[_Operation]:
    """Yield the selected operations. Raises `DefinitionError` for a pattern that matches no operation."""
    only = form.only or OnlyForm()
    operations = [*_operations(root)]
    for each in operations:
        if part(each.node, "deprecated") is True and not only.deprecated:
            continue
        chosen = (
            _matches(only.operations, [each.name]),
            _matches(only.tags, each.tags),
            _matches(only.paths, [each.path]),
            _matches(only.methods and [method.upper() for method in only.methods], [each.method]),
        )
        if all(chosen):
            yield each
    choices = {
        "operations": (only.operations, [each.name for each in operations]),
        "tags": (only.tags, [tag for each in operations for tag in each.tags]),
        "paths": (only.paths, [each.path for each in operations]),
    }
    for what, (patterns, names) in choices.items():
        for pattern in patterns or ():
            if not _matches([pattern], names):
                raise DefinitionError(f"only: none of the document's {what} is {brief(repr(pattern), 100)}.")
    for name in {*form.effects, *(form.fields if isinstance(form.fields, dict) else ())}:
        prefix = f"{form.name}_" if form.name else ""
        if not any(name in (each.name, prefix + each.name) for each in operations):
            raise DefinitionError(
                f"effects and fields: the document has no operation {brief(repr(name), 100)}."
            )


def _matches(patterns: list[str] | None, names: list[str]) -> bool:
    """Return whether one of the names matches one of the patterns. Without patterns every name matches."""
    return patterns is None or any(
        name == pattern or ("*" in pattern and fnmatchcase(name, pattern))
        for name in names
        for pattern in patterns
    )


def _error_message(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{error.title} {where} {form_error(first)}"
    if isinstance(error, jsonref.JsonRefError):
        untyped: Any = error  # untyped
        is_refused = isinstance(untyped.cause, OperationRefused)
        return (
            str(untyped.cause)
            if is_refused
            else f"the reference {untyped.reference['$ref']!r} does not resolve"
        )
    if isinstance(error, InvalidConfiguration):
        return "; ".join(f"{each['path']} {each['message']}" for each in error.details[:3])
    if isinstance(error, RecursionError):
        return "its references form a cycle"
    return str(error)
