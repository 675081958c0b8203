"""Operations of an OpenAPI document as configurations of HTTP tools, with their security schemes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import quote

from openapi_pydantic.v3 import v3_0, v3_1

from toolwright.adapters.openapi.schemas import (
    FILE,
    Direction,
    Inheritance,
    Node,
    OperationRefused,
    SchemaReader,
    entries,
    field_paths,
    members,
    part,
    resolved,
)
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.core.tools.http.execution import written_path
from toolwright.core.tools.http.url_template import STYLES, percent

Kind = Literal["json", "multipart", "urlencoded", "text", "file"]
SLOT = re.compile(r"\{([^{}]*)\}")
# headers that the specification says to ignore
_IGNORED = frozenset({"accept", "content-type", "authorization"})
# headers that the sender of a request sets itself
_OWN_HEADERS = frozenset(
    {"accept-encoding", "content-length", "host", "idempotency-key", "transfer-encoding"}
)
_MEDIA = re.compile(r"[\w.+*/-]+( *;[\w.+*/ =\"-]*)?", re.ASCII)
_MAX_ACCEPTED = 10  # content types in a header
_FORMS: Mapping[str, Kind] = {
    "application/x-www-form-urlencoded": "urlencoded",
    "multipart/form-data": "multipart",
}
_PREFERRED: Sequence[Kind] = ("json", "multipart", "urlencoded", "text", "file")
_COMBINED = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "$ref", "patternProperties", "discriminator"})
_SAFE = "/:@!&'()*+,;=~-._%?"  # characters kept in paths of a document; `$` would start a placeholder
_MAX_DESCRIPTION = 300  # characters of a variable's description


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole document, with settings shared by its operations. `left_out` are headers that are no arguments."""

    root: Node
    old: bool
    longest: int
    inheritance: Inheritance
    left_out: set[str] = field(default_factory=set[str])


@dataclass(kw_only=True)
class OperationRequest:
    """The request of an operation while it is being read."""

    url: str
    method: str
    properties: JSONObject = field(default_factory=dict[str, JSON])
    required: list[str] = field(default_factory=list[str])
    parameters: JSONObject = field(default_factory=dict[str, JSON])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    execution: JSONObject = field(default_factory=dict[str, JSON])
    variables: list[JSON] = field(default_factory=list[JSON])

    def configuration(self, definitions: JSONObject) -> JSONObject:
        """Return the schema and the execution of the tool."""
        schema: JSONObject = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = [*dict.fromkeys(self.required)]
        schema["additionalProperties"] = False
        if definitions:
            schema["$defs"] = definitions
        execution: JSONObject = {"url": self.url, "method": self.method, **self.execution}
        if self.headers:
            execution["headers"] = {**self.headers}
        if self.parameters:
            execution["parameters"] = self.parameters
        return {"inputSchema": schema, "execution": execution, "variables": self.variables}


def read_request(
    document: Document, base: str, path: str, method: str, item: Node, operation: Node
) -> JSONObject:
    """Return the schema and the execution of an operation. Raises `OperationRefused`, and the libraries' errors."""
    if not path.startswith("/"):  # it would continue the host of the base URL
        raise OperationRefused(f"its path {brief(repr(path), 100)} does not begin with '/'")
    path = path.partition("#")[0]  # a fragment is not sent; documents use it to list a path several times
    reader = _schemas(document, "request")
    declared = [*_parameters(document, item, operation)]
    slots = SLOT.findall(path)
    arguments = _names(declared, slots)
    request = OperationRequest(url="", method=method)
    for parameter, raw in declared:
        if parameter.param_in.value == "path" and parameter.name not in slots:
            continue
        _add_parameter(request, reader, arguments[parameter.param_in.value, parameter.name], parameter, raw)
    for slot in slots:
        if ("path", slot) not in arguments:  # not declared in the document
            arguments["path", slot] = slot
            request.properties[slot] = {"type": "string"}
            request.required.append(slot)
    request.url = base + "".join(_url_pieces(path, arguments))
    _add_body(request, reader, document, operation)
    if (accepted := _accepted(operation)) and accepted != "application/json":
        request.headers["Accept"] = accepted
    return request.configuration(reader.definitions)


def _accepted(operation: Node) -> str:
    """Return the content types of the declared success responses, those of JSON if there are any."""
    answers = entries(operation, "responses")
    media = [
        each
        for status in answers
        if status.startswith("2")
        for each in entries(answers[status], "content")
        if _MEDIA.fullmatch(each)
    ]
    chosen = [each for each in media if _kind(each) == "json"] or media
    return ", ".join([*dict.fromkeys(chosen)][:_MAX_ACCEPTED])


def response_fields(document: Document, operation: Node) -> list[str]:
    """Return the paths of the fields that the first success response of an operation declares."""
    answers = entries(operation, "responses")
    for status in sorted(answers, key=lambda each: (each.upper() == "2XX", each)):
        if not status.startswith("2"):
            continue
        for media, each in entries(answers[status], "content").items():
            if _kind(media) == "json" and (paths := field_paths(part(each, "schema"))):
                return [written_path(names) for names in paths]
    return []


def description_of(operation: Node, method: str, path: str, longest: int) -> str:
    """Return the description of an operation's tool, within the limit."""
    texts = [part(operation, name) for name in ("summary", "description")]
    paragraphs = [each.strip() for each in texts if isinstance(each, str) and each.strip()]
    if len(paragraphs) == 2 and paragraphs[1].startswith(paragraphs[0].rstrip(".")):
        del paragraphs[0]
    text = "\n\n".join(paragraphs)
    return shortened(text, longest) or f"{method} {path}"


def shortened(text: str, longest: int) -> str:
    """Return the text truncated to `longest` characters, including the mark of the truncation."""
    return text if len(text) <= longest else brief(text, max(1, longest - 24))


def literal(text: str) -> str:
    """Quote a text of the document for use in a URL, so that it contains no placeholders."""
    return quote(text, safe=_SAFE)


# a model of the library for the document's version
def model_of(document: Document, name: str, raw: Node) -> Any:
    """Parse a part of the document with the library. Its schemas and examples are validated elsewhere."""
    model = getattr(v3_0 if document.old else v3_1, name)
    fields = entries(raw)
    if not fields:
        raise OperationRefused(f"a {name} is not an object")
    without = ("schema", "content", "example", "examples", "headers", "flows")
    return model.model_validate({name: each for name, each in fields.items() if name not in without})


def _schemas(document: Document, direction: Direction) -> SchemaReader:
    return SchemaReader(document.inheritance, old=document.old, longest=document.longest, direction=direction)


def _parameters(document: Document, item: Node, operation: Node) -> Iterator[tuple[Any, Node]]:
    """Yield the parameters of an operation, path parameters first, parsed by the library and raw."""
    merged: dict[tuple[str, str], tuple[Any, Node]] = {}
    for whole in (item, operation):
        for raw in members(whole, "parameters"):
            parameter = model_of(document, "Parameter", raw)
            merged[parameter.param_in.value, parameter.name] = (parameter, resolved(raw))
    for (place, name), each in merged.items():
        if place == "header" and name.lower() in _OWN_HEADERS:
            document.left_out.add(name)
            continue
        if place == "header" and name.lower() in _IGNORED:
            continue
        if each[0].deprecated and not each[0].required and place != "path":
            continue
        yield each


def _names(declared: list[tuple[Any, Node]], slots: list[str]) -> dict[tuple[str, str], str]:
    """Return the argument names of parameters: the parameter name, with its location if two have the same name."""
    names: dict[tuple[str, str], str] = {}
    used: set[str] = set()
    # path parameters keep their names
    in_order = sorted(declared, key=lambda each: each[0].param_in.value != "path")
    for parameter, _ in in_order:
        place, name = parameter.param_in.value, parameter.name
        if place == "path" and name not in slots:
            continue
        argument = name if name not in used else f"{name}_{place}"
        while argument in used:
            argument += "_"
        used.add(argument)
        names[place, name] = argument
    return names


def _add_parameter(
    request: OperationRequest, reader: SchemaReader, argument: str, parameter: Any, raw: Node
) -> None:
    place = parameter.param_in.value
    styles = STYLES[place]
    style, schema = parameter.style or styles[0], raw.get("schema")
    for media, each in entries(raw, "content").items():
        if _kind(media) != "json":
            raise OperationRefused(f"the parameter {parameter.name!r} has the content type {media!r}")
        style, schema = "json", entries(each).get("schema")
    if style not in styles:
        raise OperationRefused(
            f"the parameter {parameter.name!r} has the style {style!r}, which is not allowed in {place}"
        )
    converted = reader.read({} if schema is None else schema)
    request.properties[argument] = _described(converted, parameter.description, reader)
    if parameter.required or place == "path":
        request.required.append(argument)
    settings: JSONObject = {"in": place}
    if argument != parameter.name:
        settings["name"] = parameter.name
    if style != styles[0]:
        settings["style"] = style
    if parameter.explode is not None:
        settings["explode"] = parameter.explode
    if raw.get("allowReserved") is True:
        settings["allowReserved"] = True
    request.parameters[argument] = settings


def _described(converted: JSON, description: str | None, reader: SchemaReader) -> JSON:
    text = " ".join((description or "").split())
    if not text or converted is False:
        return converted
    return {
        **(converted if isinstance(converted, dict) else {}),
        "description": shortened(text, reader.longest),
    }


def _url_pieces(path: str, arguments: Mapping[tuple[str, str], str]) -> Iterator[str]:
    end = 0
    for slot in SLOT.finditer(path):
        yield literal(path[end : slot.start()])
        yield f"{{{arguments['path', slot[1]]}}}"
        end = slot.end()
    yield literal(path[end:])


def _add_body(request: OperationRequest, reader: SchemaReader, document: Document, operation: Node) -> None:
    raw = part(operation, "requestBody")
    request.execution["body"] = False
    if raw is None:
        return
    content = entries(raw, "content")
    if not content:
        raise OperationRefused("its body has no content")
    required = part(raw, "required")
    if request.method in ("GET", "HEAD"):
        if required is True:
            raise OperationRefused(f"a {request.method} request cannot have a body")
        return
    media, kind, each = _chosen(content)
    if not _MEDIA.fullmatch(media):  # it is sent in a header, in which a text could refer to a variable
        raise OperationRefused(f"its body has the content type {brief(media, 100)!r}")
    schema = entries(each).get("schema")
    if media != "application/json" and "*" not in media:
        request.headers["Content-Type"] = media
    if kind in ("text", "file"):
        converted: JSON = FILE if kind == "file" else {"type": "string"}
        _whole(request, _described(converted, part(raw, "description"), reader), required is not False)
        return
    converted = _without_reference(reader, {} if schema is None else schema)
    if kind == "multipart":
        _mark_files(schema, converted)
    _add_encoding(request, document, each, kind)
    if _can_be_flat(converted, request.properties, required):
        flat = cast("JSONObject", converted)
        request.properties |= cast("JSONObject", flat["properties"])
        request.required += cast("list[str]", flat.get("required", []))
        request.execution["body"] = True
        return
    if kind != "json" and not _is_object(converted):
        raise OperationRefused(f"its form {media!r} is not an object")
    _whole(request, _described(converted, part(raw, "description"), reader), required is True)


def _whole(request: OperationRequest, converted: JSON, required: bool) -> None:
    """Convert the whole body to one argument."""
    name = "body"
    while name in request.properties:
        name += "_"
    request.properties[name] = converted
    request.execution["body"] = name
    if required:
        request.required.append(name)


def _without_reference(reader: SchemaReader, schema: Node) -> JSON:
    """Resolve a reference to an object schema whose properties can be separate arguments."""
    target = resolved(schema)
    if target is schema or not isinstance(target, Mapping) or _COMBINED & target.keys():
        return reader.read(schema)
    return reader.read(target)


def _can_be_flat(converted: JSON, used: Mapping[str, JSON], required: object) -> bool:
    """Return whether the properties of a body can be separate arguments.

    If the document does not state whether a body is required, it is required if one of its properties is.
    """
    if (
        not isinstance(converted, dict)
        or converted.get("type", "object") != "object"
        or _COMBINED & converted.keys()
    ):
        return False
    properties = converted.get("properties")
    if not isinstance(properties, dict) or not properties or properties.keys() & used.keys():
        return False
    if converted.get("additionalProperties", False) not in (False,):
        return False
    return required is not False or not converted.get("required")


def _is_object(converted: JSON) -> bool:
    return isinstance(converted, dict) and (
        converted.get("type", "object") == "object" or bool(_COMBINED & converted.keys())
    )


def _mark_files(schema: Node, converted: JSON) -> None:
    """Mark properties as files and describe them. OpenAPI 3.1 declares files only by content type."""
    properties = converted.get("properties") if isinstance(converted, dict) else None
    for name, each in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(each, dict):
            continue
        items = each.get("items")
        file_schema = items if isinstance(items, dict) else each
        raw = part(schema, "properties", name, *(["items"] if file_schema is items else []))
        media = file_schema.get("contentMediaType")
        is_file = file_schema.get("format") == "binary" or (
            isinstance(media, str) and "contentEncoding" not in file_schema and _kind(media) == "file"
        )
        if is_file or (raw == {} and file_schema is each):
            descriptions = [
                text
                for text in (file_schema.get("description"), FILE["description"])
                if isinstance(text, str)
            ]
            file_schema.clear()
            file_schema |= {**FILE, "description": " ".join(dict.fromkeys(descriptions))}


def _add_encoding(request: OperationRequest, document: Document, media: Node, kind: Kind) -> None:
    encodings: JSONObject = {}
    if kind == "json":
        return
    for name, raw in entries(media, "encoding").items():
        encoding = model_of(document, "Encoding", raw)
        headers: JSONObject = {}
        types = [each.strip() for each in (encoding.contentType or "").split(",")]
        concrete = [each for each in types if each and "*" not in each]
        if encoding.style is not None:
            headers["style"] = encoding.style
        elif encoding.explode is not None:
            headers["style"] = "form"
        elif len(concrete) == 1 and kind == "multipart":
            headers["contentType"] = concrete[0]
        if encoding.explode is not None:
            headers["explode"] = encoding.explode
        if headers:
            encodings[name] = headers
    if encodings:
        request.execution["encoding"] = encodings


def _chosen(content: Mapping[str, Node]) -> tuple[str, Kind, Node]:
    """Return the content type of a body: JSON if there is a choice."""
    supported: list[tuple[str, Kind, Node]] = [
        (media, kind, each)
        for media, each in content.items()
        if (kind := _body_kind(media, each)) is not None
    ]
    if not supported:
        raise OperationRefused(f"its body has the content type {brief(', '.join(content), 100)!r}")
    return min(supported, key=lambda each: _PREFERRED.index(each[1]))


def _body_kind(media: str, each: Node) -> Kind | None:
    kind, schema = _kind(media), part(each, "schema")
    if kind == "file" and (described := entries(schema)):
        is_text = part(described, "type") in ("string", ["string"]) or "contentMediaType" in described
        return "file" if is_text else None
    if kind == "text" and part(schema, "type") not in (None, "string"):
        return None
    return kind


def _kind(media: str) -> Kind:
    plain = media.partition(";")[0].strip().lower()
    if plain in ("*/*", "application/*", "text/json") or plain.endswith(("/json", "+json")):
        return "json"
    if plain in _FORMS:
        return _FORMS[plain]
    if plain.startswith("text/") or plain.endswith(("/xml", "+xml", "/yaml", "+yaml", "ndjson", "/graphql")):
        return "text"
    return "file"


Auth = bool | str | Mapping[str, str] | None
_COOKIE = re.compile(r"[!#%&'*+.^_`|~0-9A-Za-z-]+")  # sent in a header, in which `${…}` refers to a variable


def add_security(config: JSONObject, document: Document, operation: Node, prefix: str, auth: Auth) -> None:
    """Add the credentials of an operation to its configuration, as variables. Raises `OperationRefused`.

    The first alternative whose schemes are all named in `auth` is used, or the first whose schemes can all be sent if
    there is none.
    """
    declared = part(operation, "security")
    requirements = declared if declared is not None else part(document.root, "security")
    if requirements is None and isinstance(auth, str | Mapping):
        requirements = _undeclared(config, document, auth)
    if auth is False or not isinstance(requirements, list) or not requirements:
        return
    choices = [[*entries(each)] for each in cast("list[Node]", requirements)]
    by_name: Mapping[str, str] = auth if isinstance(auth, Mapping) else {}
    satisfiable = [names for names in choices if names and all(name in by_name for name in names)]
    if [] in choices and not satisfiable and not isinstance(auth, str):
        return  # optional and not requested
    reason = ""
    for names in [*satisfiable, *choices]:
        try:
            schemes = [(name, _scheme(document, name)) for name in names]
        except OperationRefused as error:
            reason = reason or str(error)
            continue
        for name, scheme in schemes:
            _send(config, scheme, _variable(name, prefix, auth, len(schemes)), name)
        return
    raise OperationRefused(reason)


def _undeclared(config: JSONObject, document: Document, auth: str | Mapping[str, str]) -> list[Node]:
    """Return the requirements of an operation for which the document declares none, although there are credentials.

    Without any scheme the credentials are sent as a bearer token. Raises `OperationRefused` if there are several.
    """
    schemes = [*entries(document.root, "components", "securitySchemes")]
    if isinstance(auth, Mapping):
        return [dict.fromkeys(auth)]
    if len(schemes) > 1:
        names = brief(", ".join(schemes), 200)
        raise OperationRefused(
            f"it names none of the security schemes {names}: set auth to a variable for one of them"
        )
    if schemes:
        return [dict.fromkeys(schemes)]
    bearer = model_of(document, "SecurityScheme", {"type": "http", "scheme": "bearer"})
    _send(config, bearer, auth, "the service")
    return []


def _scheme(document: Document, name: str) -> Any:  # a model of the library
    raw = part(document.root, "components", "securitySchemes", name)
    if raw is None:
        raise OperationRefused(f"its security scheme {name!r} is not declared")
    scheme = model_of(document, "SecurityScheme", raw)
    kind, how = scheme.type, (scheme.scheme or "").lower()
    if kind == "http" and how not in ("bearer", "basic"):
        raise OperationRefused(f"its security scheme {name!r} is HTTP authentication {scheme.scheme!r}")
    if kind == "apiKey" and (
        not scheme.name or scheme.security_scheme_in not in ("header", "query", "cookie")
    ):
        raise OperationRefused(f"its security scheme {name!r} does not say where the key is sent")
    if kind == "apiKey" and scheme.security_scheme_in == "cookie" and not _COOKIE.fullmatch(scheme.name):
        raise OperationRefused(f"its security scheme {name!r} names no cookie")
    if kind not in ("http", "apiKey", "oauth2", "openIdConnect"):
        raise OperationRefused(f"its security scheme {name!r} is of the type {kind!r}")
    return scheme


def _variable(name: str, prefix: str, auth: Auth, count: int) -> str:
    if isinstance(auth, Mapping) and name in auth:
        return auth[name]
    if isinstance(auth, str):
        return auth if count == 1 else f"{auth}_{upper(name)}"
    return f"{prefix}_{upper(name)}" if prefix else upper(name)


def upper(text: str) -> str:
    """Convert `apiKey` to `API_KEY`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[^A-Za-z0-9]+", "_", parted).strip("_").upper()[:60] or "KEY"


def _send(config: JSONObject, scheme: Any, variable: str, name: str) -> None:
    execution = cast("JSONObject", config["execution"])
    headers = cast("JSONObject", execution.setdefault("headers", {}))
    if scheme.type == "http" and scheme.scheme.lower() == "basic":
        basic: JSONObject = {
            "username": f"${{env.{variable}_USERNAME}}",
            "password": f"${{env.{variable}_PASSWORD}}",
        }
        execution["basicAuth"] = basic
        _declare(config, scheme, f"{variable}_USERNAME", "text", f"The user name of {name}")
        _declare(config, scheme, f"{variable}_PASSWORD", "secret", f"The password of {name}")
        return
    place = f"${{env.{variable}}}"
    if scheme.type != "apiKey":
        headers["Authorization"] = f"Bearer {place}"
    elif scheme.security_scheme_in == "header":
        headers[scheme.name] = place
    elif scheme.security_scheme_in == "query":
        url = str(execution["url"])
        execution["url"] = f"{url}{'&' if '?' in url else '?'}{percent(scheme.name)}={place}"
    else:
        cookies = [str(headers["Cookie"])] if "Cookie" in headers else []
        headers["Cookie"] = "; ".join([*cookies, f"{scheme.name}={place}"])
    what = "API key" if scheme.type == "apiKey" else "bearer token"
    _declare(config, scheme, variable, "secret", f"The {what} of {name}")
    _drop_parameter(config, scheme)


def _drop_parameter(config: JSONObject, scheme: Any) -> None:
    """Remove the argument for a key that is also declared as a parameter, because the model does not know the key."""
    execution = cast("JSONObject", config["execution"])
    parameters = cast("dict[str, JSONObject]", execution.get("parameters", {}))
    for argument, each in [*parameters.items()]:
        same = str(each.get("name", argument)).lower() == (scheme.name or "authorization").lower()
        if same and each["in"] == (scheme.security_scheme_in or "header"):
            del parameters[argument]
            schema = cast("JSONObject", config["inputSchema"])
            del cast("JSONObject", schema["properties"])[argument]
            required = [
                name for name in cast("Sequence[str]", schema.get("required", [])) if name != argument
            ]
            schema["required"] = [*required]


def _declare(config: JSONObject, scheme: Any, variable: str, kind: str, otherwise: str) -> None:
    variables = cast("list[JSON]", config["variables"])
    text = " ".join((scheme.description or "").split())
    description = f"{otherwise}: {shortened(text, _MAX_DESCRIPTION)}" if text else f"{otherwise}."
    variables.append({"name": variable, "type": kind, "required": True, "description": description})
