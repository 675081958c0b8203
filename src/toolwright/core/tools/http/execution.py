"""HTTP tools: URL, method and headers, and the request that a call makes of them (D13)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.text import brief
from toolwright.core.tools.http.url_template import (
    Slot,
    TemplateFault,
    Unfillable,
    argument_text,
    query_of,
    read_header,
    read_url,
)
from toolwright.core.value import value

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
METHODS: tuple[Method, ...] = get_args(Method)
IN_QUERY: frozenset[Method] = frozenset({"GET", "DELETE"})
"""Methods whose arguments stand in the query; those of the others are a JSON body."""

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

    `required` are further variables without which no request is made. The URL of one that is not `trusted` came
    from outside: no request of it reaches a private address that the operator has not allowed. Raises
    `DefinitionError`.
    """

    url: str
    method: Method = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    required: tuple[str, ...] = ()
    trusted: bool = True

    def __post_init__(self) -> None:
        for path, fault in execution_faults(self.url, self.method, self.headers):
            raise DefinitionError(f"An HTTP tool's {path} {fault}.")

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that the URL takes."""
        return tuple(slot.name for slot in read_url(self.url).slots if slot.kind == "argument")

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that a call needs."""
        pieces = [piece for _, text in self.headers for piece in read_header(text)]
        slots = [*read_url(self.url).slots, *(piece for piece in pieces if isinstance(piece, Slot))]
        return tuple(dict.fromkeys([*(s.name for s in slots if s.kind == "variable"), *self.required]))

    def fault_with(self, schema: JSONObject) -> str | None:
        """The fault of the URL for arguments of this schema."""
        unknown = sorted(set(self.arguments) - property_names(schema))
        return f"has the placeholder {{{unknown[0]}}}, which is no argument of the tool" if unknown else None


@value
class HttpRequest:
    """One request; `content` is JSON text, None where there is no body."""

    method: Method
    url: str
    headers: tuple[tuple[str, str], ...]
    content: str | None


def request_for(execution: HttpExecution, arguments: JSONObject, env: Mapping[str, str]) -> HttpRequest:
    """The request of a call with these arguments; `env` has all of the execution's variables.

    Raises `Unfillable`, whose words hold no value.
    """

    def filled(slot: Slot) -> str | None:
        return env[slot.name] if slot.kind == "variable" else argument_text(arguments.get(slot.name))

    used = {*execution.arguments}
    rest: JSONObject = {name: each for name, each in arguments.items() if name not in used}
    in_query = execution.method in IN_QUERY
    url = read_url(execution.url).fill(filled, query_of(rest) if in_query else ())
    headers = tuple([(name, _header(name, text, env)) for name, text in execution.headers])
    return HttpRequest(
        method=execution.method, url=url, headers=headers, content=None if in_query else dumps(rest)
    )


def execution_faults(
    url: object, method: object, headers: Iterable[tuple[object, object]]
) -> Iterator[tuple[str, str]]:
    """The faults of an execution: pairs of a path within it and words."""
    if not isinstance(url, str):
        yield "url", "must be text"
    else:
        try:
            read_url(url)
        except TemplateFault as fault:
            yield "url", str(fault)
    if method not in METHODS:
        yield "method", f"must be one of {', '.join(METHODS)}, not {brief(repr(method), 60)}"
    seen: set[str] = set()
    for name, text in headers:
        path = f"headers.{brief(str(name), 60)}"
        fault = _header_fault(name, text)
        if fault is not None:
            yield path, fault
        elif str(name).lower() in seen:
            yield path, "is given twice"
        seen.add(str(name).lower())


def property_names(schema: JSONObject) -> set[str]:
    """The names of the arguments that a schema speaks of, local references and alternatives included."""
    names: set[str] = set()
    seen: set[int] = set()
    left: list[JSON] = [schema]
    while left:
        part = left.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        properties = part.get("properties")
        names |= set(properties) if isinstance(properties, dict) else set()
        for key in ("anyOf", "oneOf", "allOf"):
            members = part.get(key)
            left += members if isinstance(members, list) else []
        left.append(_target(schema, part.get("$ref")))
    return names


def _target(root: JSONObject, reference: JSON) -> JSON:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node: JSON = root
    for step in filter(None, reference[1:].split("/")):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _header_fault(name: object, text: object) -> str | None:
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
    except TemplateFault as fault:
        return str(fault)
    return None


def _header(name: str, template: str, env: Mapping[str, str]) -> str:
    text = "".join(
        piece if isinstance(piece, str) else env[piece.name] for piece in read_header(template)
    ).strip()
    if _CONTROL.search(text):
        raise Unfillable(f"The header {name!r} would hold a line break or another control character.")
    return text
