"""HTTP tools: URL, method, headers and body of a call's request (D13), and the selected fields of its response."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.text import brief
from toolwright.core.tools.http.url_template import (
    InvalidTemplate,
    Parameter,
    Slot,
    Style,
    Unfillable,
    argument_text,
    as_it_is,
    cookie_parts,
    header_text,
    path_text,
    percent,
    query_of,
    query_parts,
    read_header,
    read_url,
    scalar,
    styled_pairs,
)
from toolwright.core.value import Value

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
BodyKind: TypeAlias = Literal["json", "urlencoded", "multipart", "raw"]
_MAX_STEPS = 20  # maximum depth of references and alternatives when looking for a `format`
ANY = "*"
"""Matches every name that has no path of its own."""


class Encoding(Value):
    """Encoding of one form field: in a style like a query parameter, or as text of this content type.

    `content_type` is the type of the field's part in a `multipart/form-data` body. None means JSON for objects and a
    file's own type.
    """

    content_type: str | None = None
    style: Style | None = None
    explode: bool | None = None

    @property
    def explodes(self) -> bool:
        """Return whether each item is sent separately."""
        return self.style == "form" if self.explode is None else self.explode


class FileContent(Value):
    """A file of the thread to be sent."""

    name: str
    mime_type: str
    content: bytes


class FormPart(Value):
    """A part of a `multipart/form-data` body; `file_name` is None unless it is a file."""

    name: str
    content: bytes
    content_type: str | None = None
    file_name: str | None = None


class Body(Value):
    """The body of a request. With `parts` it is `multipart/form-data` and `content` is empty.

    `content_type` is its type if the tool's headers set none.
    """

    content: bytes = b""
    content_type: str = "application/json"
    parts: tuple[FormPart, ...] | None = None


Files: TypeAlias = Mapping[str, FileContent]
"""Files of the thread by the paths that arguments name."""
Encodings: TypeAlias = Mapping[str, Encoding]


def body_kind(content_type: str | None) -> BodyKind:
    """Return the kind of body of a content type. The default is JSON."""
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    if media == URLENCODED:
        return "urlencoded"
    if media == MULTIPART:
        return "multipart"
    return "json" if media.endswith(("/json", "+json")) else "raw"


class BodyForm(Value):
    """The kind of a tool's body, and its schema, which declares which texts are file paths.

    A file is a text of the format `binary`: a field of a `multipart/form-data` body, or a `raw` body itself.
    """

    kind: BodyKind
    root: JSONObject
    schema: JSON

    def file_paths(self, value: JSON) -> list[str]:
        """Return the paths of the files in this body."""
        if self.kind == "raw":
            return [*_paths(self.root, self.schema, value)]
        if self.kind != "multipart" or not isinstance(value, dict):
            return []
        return [path for name, each in value.items() for path in _paths(self.root, self._field(name), each)]

    def filled(self, value: JSON, encodings: Encodings, files: Files) -> Body:
        """Return the body for this value, with its loaded files. Raises `Unfillable` if a form is not an object."""
        if self.kind == "json":
            return Body(content=dumps(value).encode())
        if self.kind == "raw":
            if isinstance(value, str) and is_file_schema(self.root, self.schema):
                return Body(content=files[value].content, content_type=files[value].mime_type)
            return Body(content=scalar(value).encode(), content_type="text/plain; charset=utf-8")
        if not isinstance(value, dict):
            raise Unfillable("The body of the tool's request is a form, so it must be an object.")
        if self.kind == "urlencoded":
            return Body(content=_urlencoded(value, encodings).encode(), content_type=URLENCODED)
        parts: list[FormPart] = []
        for name, each in value.items():
            own = {path: files[path] for path in _paths(self.root, self._field(name), each)}
            parts += _parts(name, each, encodings.get(name), own)
        return Body(content_type=MULTIPART, parts=tuple(parts))

    def _field(self, name: str) -> JSON:
        return property_schema(self.root, self.schema, name)


def is_file_schema(root: JSONObject, schema: JSON, steps: int = _MAX_STEPS) -> bool:
    """Return whether values of the schema are paths of files: texts of the format `binary`."""
    if not isinstance(schema, dict) or steps == 0:
        return False
    if schema.get("format") == "binary":
        return True
    return any(is_file_schema(root, each, steps - 1) for each in _alternatives(root, schema))


def property_schema(root: JSONObject, schema: JSON, name: str, steps: int = _MAX_STEPS) -> JSON:
    """Return the schema of a property, also through references and alternatives, or None."""
    if not isinstance(schema, dict) or steps == 0:
        return None
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    inner = (property_schema(root, each, name, steps - 1) for each in _alternatives(root, schema))
    return next((each for each in inner if each is not None), None)


def _alternatives(root: JSONObject, schema: JSONObject) -> Iterator[JSON]:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield target(root, reference)
    for key in ("anyOf", "oneOf", "allOf"):
        members = schema.get(key)
        yield from members if isinstance(members, list) else ()


def target(root: JSONObject, reference: JSON) -> JSON:
    """Return the part of a schema to which a local reference points, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node: JSON = root
    for step in filter(None, reference[1:].split("/")):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _paths(root: JSONObject, schema: JSON, value: JSON) -> Iterator[str]:
    if isinstance(value, str) and is_file_schema(root, schema):
        yield value
    elif isinstance(value, list) and is_file_schema(root, _items(root, schema)):
        yield from [each for each in value if isinstance(each, str)]


def _items(root: JSONObject, schema: JSON, steps: int = _MAX_STEPS) -> JSON:
    if not isinstance(schema, dict) or steps == 0:
        return None
    if "items" in schema:
        return schema["items"]
    inner = (_items(root, each, steps - 1) for each in _alternatives(root, schema))
    return next((each for each in inner if each is not None), None)


def _urlencoded(fields: JSONObject, encodings: Encodings) -> str:
    pairs: list[tuple[str, str]] = []
    for name, each in fields.items():
        encoding = encodings.get(name)
        if encoding is None or encoding.style is None:
            pairs += [(percent(key), percent(text)) for key, text in query_of({name: each})]
        else:
            pairs += styled_pairs(name, encoding.style, encoding.explodes, each, percent)
    return "&".join(f"{name}={text}" for name, text in pairs)


def _parts(name: str, value: JSON, encoding: Encoding | None, files: Files) -> Iterable[FormPart]:
    if value is None:
        return
    if encoding is not None and encoding.style is not None:
        for key, text in styled_pairs(name, encoding.style, encoding.explodes, value, as_it_is):
            yield FormPart(name=key, content=text.encode())
        return
    for each in value if isinstance(value, list) else [value]:
        if each is not None:
            yield _part(name, each, None if encoding is None else encoding.content_type, files)


def _part(name: str, value: JSON, content_type: str | None, files: Files) -> FormPart:
    if isinstance(value, str) and value in files:
        file = files[value]
        return FormPart(
            name=name,
            content=file.content,
            content_type=content_type or file.mime_type,
            file_name=file.name,
        )
    if isinstance(value, list | dict):
        content_type = content_type or "application/json"
    return FormPart(name=name, content=scalar(value).encode(), content_type=content_type)


Fields: TypeAlias = dict[str, "Fields"]
"""Names of an object's fields to keep, each with its subfields; no subfields means the whole value is kept."""


def read_fields(paths: Iterable[str]) -> Fields:
    r"""Return the tree of these paths. A dot within a name is `\.`. A path and its prefix keep the whole value."""
    tree: Fields = {}
    complete: set[tuple[str, ...]] = set()
    for names in sorted(map(_names, paths), key=len):
        if any(names[:length] in complete for length in range(1, len(names))):
            continue
        complete.add(names)
        below = tree
        for name in names:
            below = below.setdefault(name, {})
    return tree


def written_path(names: Iterable[str]) -> str:
    """Return the path of these names."""
    return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in names)


def trimmed(part: JSON, fields: Fields) -> JSON:
    """Return the value with only these fields. Each item of a list is trimmed to the same fields."""
    if not fields:
        return part
    if isinstance(part, list):
        return [trimmed(item, fields) for item in part]
    if not isinstance(part, dict):
        return part
    default = fields.get(ANY)
    selected = ((name, item, fields.get(name, default)) for name, item in part.items())
    return {name: trimmed(item, below) for name, item, below in selected if below is not None}


def _names(path: str) -> tuple[str, ...]:
    names, escaped = [""], False
    for each in path:
        if each == "." and not escaped:
            names.append("")
        elif each != "\\" or escaped:
            names[-1] += each
        escaped = each == "\\" and not escaped
    return tuple(names)


Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
METHODS: tuple[Method, ...] = get_args(Method)
IN_QUERY: frozenset[Method] = frozenset({"GET", "HEAD", "DELETE"})
"""Methods whose arguments are sent in the query; other methods send a JSON body."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OURS = frozenset(
    {
        "accept-encoding", "connection", "content-length", "expect", "host", "idempotency-key", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip


class HttpExecution(Value):
    """The request of an HTTP tool. `{name}` stands for an argument, `${env.NAME}` for a variable of the thread.

    `parameters` are arguments with their own encoding style. `body` is true if all other arguments are the body, false
    if there is none, or the name of the argument that is the whole body; None depends on the method. `encoding` is the
    encoding of form fields, `basic` are the user and password of basic authentication. `fields` are the paths of the
    response to keep; an empty value keeps all. `required` are further variables that a request requires. If the
    execution is not `trusted`, its URL came from outside: it can reach only public addresses and addresses allowed by
    the operator. Raises `DefinitionError`.
    """

    url: str
    method: Method = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    required: tuple[str, ...] = ()
    trusted: bool = True
    parameters: tuple[tuple[str, Parameter], ...] = ()
    body: bool | str | None = None
    encoding: tuple[tuple[str, Encoding], ...] = ()
    basic: tuple[str, str] | None = None
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path, error in execution_errors(self.url, self.method, self.headers):
            raise DefinitionError(f"An HTTP tool's {path} {error}.")
        for path, error in [*self._parameter_errors(), *self._basic_errors()]:
            raise DefinitionError(f"An HTTP tool's {path} {error}.")

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments in the URL."""
        return tuple(slot.name for slot in read_url(self.url).slots if slot.kind == "argument")

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that a call needs."""
        texts = [*(text for _, text in self.headers), *(self.basic or ())]
        pieces = [piece for text in texts for piece in read_header(text)]
        slots = [*read_url(self.url).slots, *(piece for piece in pieces if isinstance(piece, Slot))]
        return tuple(dict.fromkeys([*(s.name for s in slots if s.kind == "variable"), *self.required]))

    @property
    def has_body(self) -> bool:
        """Return whether arguments are sent as a body."""
        return self.method not in IN_QUERY if self.body is None else self.body is not False

    def error_with(self, schema: JSONObject) -> str | None:
        """Return the error of the URL, the parameters or the body for arguments of this schema, or None."""
        names = property_names(schema)
        unknown = sorted(set(self.arguments) - names)
        if unknown:
            return f"has the placeholder {{{unknown[0]}}}, which is no argument of the tool"
        others = [name for name, _ in self.parameters] + ([self.body] if isinstance(self.body, str) else [])
        missing = [name for name in others if name not in names]
        return (
            f"goes with the parameter or body {missing[0]!r}, which is no argument of the tool"
            if missing
            else None
        )

    def body_form(self, schema: JSONObject) -> BodyForm:
        """Return the form of the body for arguments of this schema."""
        own = schema if not isinstance(self.body, str) else property_schema(schema, schema, self.body)
        return BodyForm(kind=body_kind(self._header("content-type")), root=schema, schema=own)

    def file_paths(self, arguments: JSONObject, schema: JSONObject) -> list[str]:
        """Return the paths of the files of the thread that a call sends, each once."""
        if not self.has_body:
            return []
        return list(dict.fromkeys(self.body_form(schema).file_paths(self.body_value(arguments))))

    def body_value(self, arguments: JSONObject) -> JSON:
        """Return the part of the arguments that is the body, or None."""
        if isinstance(self.body, str):
            return arguments.get(self.body)
        return self.body_arguments(arguments) if self.has_body else None

    def body_arguments(self, arguments: JSONObject) -> JSONObject:
        """Return the arguments that are neither in the URL nor in `parameters`, nor the whole body."""
        used = {*self.arguments, *(name for name, _ in self.parameters), self.body}
        return {name: each for name, each in arguments.items() if name not in used}

    def _header(self, name: str) -> str | None:
        return next((text for each, text in self.headers if each.lower() == name), None)

    def _parameter_errors(self) -> Iterator[tuple[str, str]]:
        headers = {name.lower() for name, _ in self.headers}
        for name, parameter in self.parameters:
            path = f"parameters.{brief(name, 60)}"
            if (parameter.place == "path") != (name in self.arguments):
                yield path, "must be in the path exactly if the URL has it as a placeholder"
            if parameter.place == "header":
                error = _header_error(parameter.name, "")
                if error is not None or parameter.name.lower() in headers:
                    yield path, f"as a header {error or 'is given twice'}"
                headers.add(parameter.name.lower())
            if parameter.place == "cookie" and not _NAME.fullmatch(parameter.name):
                yield path, "is no name of a cookie"

    def _basic_errors(self) -> Iterator[tuple[str, str]]:
        for name, text in zip(("username", "password"), self.basic or (), strict=False):
            error = _header_error("X", text)
            if error is not None:
                yield f"basicAuth.{name}", error
        if self.basic is not None and self._header("authorization") is not None:
            yield "basicAuth", "must not be combined with a header Authorization"


class HttpRequest(Value):
    """An HTTP request; `body` is None without one."""

    method: Method
    url: str
    headers: tuple[tuple[str, str], ...]
    body: Body | None


def request_for(
    execution: HttpExecution,
    arguments: JSONObject,
    env: Mapping[str, str],
    schema: JSONObject | None = None,
    files: Files | None = None,
) -> HttpRequest:
    """Return the request of a call with these arguments. `schema` declares which of them are files.

    `env` has all of the execution's variables, `files` all of its `file_paths`. Raises `Unfillable`; its message
    contains no values.
    """
    styled = dict(execution.parameters)

    def filled(slot: Slot) -> str | None:
        if slot.kind == "variable":
            return percent(env[slot.name])
        value = arguments.get(slot.name)
        if value is None or slot.name not in styled:
            text = argument_text(value)
            return None if text is None else percent(text)
        return path_text(styled[slot.name], value)

    remaining = (
        {}
        if execution.has_body and not isinstance(execution.body, str)
        else execution.body_arguments(arguments)
    )
    query = [f"{percent(name)}={percent(text)}" for name, text in query_of(remaining)]
    for name, parameter in execution.parameters:
        if parameter.place == "query":
            query += query_parts(parameter, arguments.get(name))
    url = read_url(execution.url).fill(filled, query)
    body_value = execution.body_value(arguments)
    form = execution.body_form(schema or {})
    return HttpRequest(
        method=execution.method,
        url=url,
        headers=tuple(_headers(execution, arguments, env)),
        body=None if body_value is None else form.filled(body_value, dict(execution.encoding), files or {}),
    )


def _headers(
    execution: HttpExecution, arguments: JSONObject, env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    cookies: list[str] = []
    for name, text in execution.headers:
        filled = _header(name, text, env)
        if name.lower() == "cookie":
            cookies.append(filled)
        else:
            yield name, filled
    for name, parameter in execution.parameters:
        value = arguments.get(name)
        if value is None:
            continue
        if parameter.place == "header":
            yield parameter.name, _checked(parameter.name, header_text(parameter, value))
        elif parameter.place == "cookie":
            cookies += cookie_parts(parameter, value)
    if cookies:
        yield "Cookie", "; ".join(cookies)
    if execution.basic is not None:
        user, password = (_header("Authorization", text, env) for text in execution.basic)
        yield "Authorization", f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def execution_errors(
    url: object, method: object, headers: Iterable[tuple[object, object]]
) -> Iterator[tuple[str, str]]:
    """Yield the errors of an execution: pairs of a path in it and a message."""
    if not isinstance(url, str):
        yield "url", "must be text"
    else:
        try:
            read_url(url)
        except InvalidTemplate as error:
            yield "url", str(error)
    if method not in METHODS:
        yield "method", f"must be one of {', '.join(METHODS)}, not {brief(repr(method), 60)}"
    names: set[str] = set()
    for name, text in headers:
        path = f"headers.{brief(str(name), 60)}"
        error = _header_error(name, text)
        if error is not None:
            yield path, error
        elif str(name).lower() in names:
            yield path, "is given twice"
        names.add(str(name).lower())


def property_names(schema: JSONObject) -> set[str]:
    """Return the names of the arguments in a schema, including local references and alternatives."""
    names: set[str] = set()
    visited: set[int] = set()
    pending: list[JSON] = [schema]
    while pending:
        part = pending.pop()
        if not isinstance(part, dict) or id(part) in visited:
            continue
        visited.add(id(part))
        properties = part.get("properties")
        names |= set(properties) if isinstance(properties, dict) else set()
        for key in ("anyOf", "oneOf", "allOf"):
            members = part.get(key)
            pending += members if isinstance(members, list) else []
        pending.append(target(schema, part.get("$ref")))
    return names


def _header_error(name: object, text: object) -> str | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return "is no name of a header"
    if name.lower() in _OURS:
        return "is set by Toolwright itself"
    if not isinstance(text, str):
        return "must be text"
    if _CONTROL.search(text):
        return "must not hold line breaks or other control characters"
    try:
        read_header(text)
    except InvalidTemplate as error:
        return str(error)
    return None


def _header(name: str, template: str, env: Mapping[str, str]) -> str:
    text = "".join(piece if isinstance(piece, str) else env[piece.name] for piece in read_header(template))
    return _checked(name, text)


def _checked(name: str, text: str) -> str:
    text = text.strip()
    if _CONTROL.search(text):
        raise Unfillable(f"The header {name!r} would hold a line break or another control character.")
    return text
