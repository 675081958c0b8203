"""HTTP tools: URL, method and headers, and the request of a call (D13)."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.core.tools.http.body import (
    Body,
    BodyForm,
    Encoding,
    Files,
    body_kind,
    property_schema,
    target,
)
from toolwright.core.tools.http.url_template import (
    InvalidTemplate,
    Parameter,
    Slot,
    Unfillable,
    argument_text,
    cookie_parts,
    header_text,
    path_text,
    percent,
    query_of,
    query_parts,
    read_header,
    read_url,
)
from toolwright.core.value import value

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


@value
class HttpExecution:
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


@value
class HttpRequest:
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
