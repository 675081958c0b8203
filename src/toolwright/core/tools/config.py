"""Configuration of tools as JSON (S3 "Tool Configuration"), validated with the path of every error."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from toolwright.core.arguments.errors import type_name
from toolwright.core.arguments.schema import compile_schema
from toolwright.core.env.env import NamedVariable, Variable, merged, name_error
from toolwright.core.errors import DefinitionError, InvalidConfiguration, InvalidJSON
from toolwright.core.files import ANY_TYPE, clean_mime_type
from toolwright.core.json_value import JSON, NOT_ONE_LINE, JSONObject, has_more_values, one_line, plain
from toolwright.core.limits import MAX_DESCRIPTION, MAX_ERRORS, MAX_NAME, MAX_SCHEMA_VALUES
from toolwright.core.schemas.provider_forms import can_be_object
from toolwright.core.text import brief, sentence
from toolwright.core.tools.approval import Approval, approval_from_json
from toolwright.core.tools.http.execution import Encoding, HttpExecution, execution_errors
from toolwright.core.tools.http.url_template import FORM_STYLES, STYLES, Parameter, Place, Style

EXECUTION_TYPES = ("gateway", "external", "space", "internal")
MAX_MILLISECONDS = 10**12  # milliseconds, about thirty years
_TYPES: Mapping[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list}
FIELDS: Mapping[str, str] = {
    "name": "string",
    "description": "string",
    "inputSchema": "object",
    "executionType": "string",
    "visible": "boolean",
    "isAsync": "boolean",
    "timeout": "number",
    "execution": "object",
    "expiresIn": "number",
    "readOnly": "boolean",
    "idempotent": "boolean",
    "destructive": "boolean",
    "lenient": "boolean",
    "variables": "array",
    "requiresApproval": "boolean or object",
}
_REQUIRED = ("name", "description", "inputSchema", "executionType")
_LENGTHS: Mapping[str, int] = {"name": MAX_NAME, "description": MAX_DESCRIPTION}  # of a new tool
_EXECUTION: Mapping[str, str] = {
    "url": "string",
    "method": "string",
    "headers": "object",
    "parameters": "object",
    "body": "boolean or string",
    "encoding": "object",
    "basicAuth": "object",
    "fields": "array",
    "publicOnly": "boolean",
}
_PARAMETER: Mapping[str, str] = {
    "in": "string",
    "name": "string",
    "style": "string",
    "explode": "boolean",
    "allowReserved": "boolean",
}
_ENCODING: Mapping[str, str] = {"contentType": "string", "style": "string", "explode": "boolean"}
_BASIC: Mapping[str, str] = {"username": "string", "password": "string"}
_VARIABLE: Mapping[str, str] = {
    "name": "string",
    "type": "string",
    "description": "string",
    "required": "boolean",
    "scoped": "boolean",
}
AddError: TypeAlias = Callable[[str, str], None]


def read_tool_config(config: object, prefix: str, trusted: bool) -> dict[str, Any]:
    """Return the fields of a `Tool` from a configuration, by their names in `Tool`.

    Raises `InvalidConfiguration` with all errors; their paths begin with `prefix`.
    """
    details: list[dict[str, str]] = []

    def add_error(path: str, message: str) -> None:
        full_path = ".".join(part for part in (prefix, path) if part)
        details.append({"path": full_path, "message": message})

    parsed = _read_object(config, add_error)
    fields = {} if parsed is None else _read(parsed, add_error, trusted)
    if details:
        raise _invalid_value(details[:MAX_ERRORS])
    return fields


def check_tool_lengths(config: object, prefix: str) -> None:
    """Raise `InvalidConfiguration` if a text of the tool's configuration is too long."""
    details = [
        {"path": f"{prefix}.{name}" if prefix else name, "message": f"must have at most {most} characters"}
        for name, most in too_long(config)
    ]
    if details:
        raise _invalid_value(details)


def too_long(config: object) -> list[tuple[str, int]]:
    """Return the fields of a tool's configuration that are too long for a new one, with the maximum of each."""
    fields = cast("dict[object, object]", config) if isinstance(config, dict) else {}
    lengths = {name: len(text) for name, text in fields.items() if isinstance(text, str)}
    return [(name, most) for name, most in _LENGTHS.items() if lengths.get(name, 0) > most]


def _invalid_value(details: list[dict[str, str]]) -> InvalidConfiguration:
    text = "; ".join(f"{each['path']} {each['message']}".strip() for each in details)
    return InvalidConfiguration(sentence(f"The tool is not configured rightly: {text}"), details)


def _read_object(config: object, add_error: AddError) -> JSONObject | None:
    try:
        parsed = plain(config)
    except InvalidJSON as error:
        add_error("", error.message.rstrip("."))
        return None
    if not isinstance(parsed, dict):
        add_error("", f"must be an object, not {type_name(parsed)}")
        return None
    return parsed


def _read(entry: JSONObject, error: AddError, trusted: bool) -> dict[str, Any]:
    fine = _typed(entry, FIELDS, "", error)
    for name in _REQUIRED:
        if entry.get(name) is None:
            error(name, "is missing")
    kind = fine.get("executionType", "")
    if kind and kind not in EXECUTION_TYPES:
        error("executionType", f"must be one of {', '.join(EXECUTION_TYPES)}, not {brief(repr(kind), 60)}")
    for name in ("name", "description"):
        if name in fine and not str(fine[name]).strip():
            error(name, "must not be empty")
    if not one_line(str(fine.get("name", ""))):
        error("name", NOT_ONE_LINE)
    if kind == "space" and fine.get("visible") is False:
        error("visible", "must be true for a space tool: people answer it in the space")
    if kind in ("external", "space") and fine.get("lenient"):
        error(
            "lenient",
            "must not be true for this executionType, which is executed with the recorded arguments",
        )
    if fine.get("readOnly") and fine.get("destructive"):
        error("destructive", "must not be true for a tool that is readOnly")
    parameters = _schema(fine.get("inputSchema"), str(fine.get("name")), error)
    variables = read_variables(fine.get("variables"), error)
    execution = _execution(fine, kind, parameters, variables, trusted, error)
    return {
        "name": fine.get("name"),
        "description": fine.get("description"),
        "kind": kind,
        "parameters": parameters,
        "execution": execution,
        "is_async": fine.get("isAsync", False),
        "expires_in": _seconds(fine, "expiresIn", error),
        "read_only": fine.get("readOnly", False),
        "idempotent": fine.get("idempotent", False),
        "destructive": fine.get("destructive", False),
        "lenient": fine.get("lenient", False),
        "variables": _needed(variables, execution),
        "requires_approval": _approval(fine.get("requiresApproval"), error),
        **({"visible": fine["visible"]} if "visible" in fine else {}),
        **({"timeout": _seconds(fine, "timeout", error)} if "timeout" in fine else {}),
    }


def _typed(entry: JSONObject, types: Mapping[str, str], path: str, error: AddError) -> JSONObject:
    """Return the known fields with a valid type. Null counts as absent."""
    fine: JSONObject = {}
    for name, value in entry.items():
        where = f"{path}{brief(name, 60)}"
        if name not in types:
            error(where, f"is not a known field: there are {', '.join(types)}")
        elif value is not None and not _is(value, types[name]):
            article = "an" if types[name] in ("object", "array") else "a"
            error(where, f"must be {article} {types[name]}, not {type_name(value)}")
        elif value is not None:
            fine[name] = value
    return fine


def _is(value: JSON, kind: str) -> bool:
    if kind == "boolean or object":
        return isinstance(value, bool | dict)
    if kind == "boolean or string":
        return isinstance(value, bool | str)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind])


def _seconds(fine: JSONObject, name: str, error: AddError) -> float | None:
    milliseconds = cast("float | None", fine.get(name))  # a number, as just validated
    if milliseconds is None:
        return None
    if not 0 < milliseconds <= MAX_MILLISECONDS:
        error(name, f"must be a positive number of milliseconds, at most 10**12, not {milliseconds!r}")
        return None
    return milliseconds / 1000


def _schema(schema: JSON, name: str, add_error: AddError) -> JSONObject:
    """Return the schema, with type `object` set, as providers require it."""
    if not isinstance(schema, dict):
        return {}
    if schema.get("type", "object") != "object":
        add_error("inputSchema.type", "must be 'object': a tool's arguments always are one")
        return {}
    if not can_be_object(schema):
        add_error("inputSchema", "must be the schema of an object: a tool's arguments always are one")
        return {}
    if has_more_values(schema, MAX_SCHEMA_VALUES):
        add_error(
            "inputSchema", f"must have at most {MAX_SCHEMA_VALUES} values: a model reads it at every step"
        )
        return {}
    try:
        compile_schema(schema, name)
    except DefinitionError as error:
        add_error(
            "inputSchema", f"is not a valid JSON Schema: {error.message.partition(': ')[2].rstrip('.')}"
        )
        return {}
    return {"type": "object", **schema}


def _approval(entry: JSON, error: AddError) -> Approval | None:
    approval, errors = approval_from_json(entry)
    for path, message in errors:
        error(f"requiresApproval.{path}" if path else "requiresApproval", message)
    return approval


def read_variables(entries: JSON, error: AddError) -> tuple[Variable, ...]:
    """Parse `[{name, type?, description?, required?, scoped?}]`. Passes each error to `error` with its path."""
    by_name: dict[str, Variable] = {}
    for number, each in enumerate(entries if isinstance(entries, list) else []):
        path = f"variables.{number}"
        if not isinstance(each, dict):
            error(path, f"must be an object, not {type_name(each)}")
            continue
        fine = _typed(each, _VARIABLE, f"{path}.", error)
        if each.get("name") is None or fine.get("name") == "":
            error(f"{path}.name", "is missing")
        if fine.get("type", "text") not in ("text", "secret"):
            error(f"{path}.type", "must be text or secret")
        elif fine.get("name"):
            try:
                variable = Variable(**cast("Any", fine))  # of the right types, as just validated
            except DefinitionError:
                error(f"{path}.name", f"must be printable, of 1 to {MAX_NAME} characters")
                continue
            if variable.name in by_name:
                error(f"{path}.name", f"{variable.name!r} is declared twice")
            by_name[variable.name] = variable
    return tuple(by_name.values())


def _needed(variables: tuple[Variable, ...], execution: HttpExecution | None) -> tuple[Variable, ...]:
    """Return the declared variables and the variables in the URL and headers.

    The latter are required, and secrets unless they are declared otherwise.
    """
    if execution is None:
        return variables
    names = [name for name in execution.variables if name_error(name) is None]
    return merged([*variables, *[NamedVariable(name, "secret") for name in names]])


def _execution(
    fine: JSONObject,
    kind: JSON,
    schema: JSONObject,
    variables: tuple[Variable, ...],
    trusted: bool,
    add_error: AddError,
) -> HttpExecution | None:
    raw = fine.get("execution")
    if not isinstance(raw, dict):
        if kind == "gateway" and "execution" not in fine:
            add_error("execution.url", "is missing: a gateway tool is called there")
        return None
    parts = _typed(raw, _EXECUTION, "execution.", add_error)
    if raw.get("url") is None:
        add_error("execution.url", "is missing: the tool is called there")
    method = str(parts.get("method", "POST")).upper()
    headers = cast("JSONObject", parts.get("headers", {}))  # an object, as just validated
    url = parts.get("url", "http://unknown/")  # other types are reported already
    errors = list(execution_errors(url, method, [*headers.items()]))
    for path, message in errors:
        add_error(f"execution.{path}", message)
    if errors:
        return None
    parameters = _parameters(parts.get("parameters"), add_error)
    encoding = _encodings(parts.get("encoding"), add_error)
    basic = _basic(parts.get("basicAuth"), add_error)
    try:
        execution = HttpExecution(
            url=str(url),
            method=cast("Any", method),  # one of the methods, as just validated
            headers=tuple([(name, str(text)) for name, text in headers.items()]),
            required=tuple([each.name for each in variables if each.required]),
            trusted=trusted and parts.get("publicOnly") is not True,
            parameters=parameters,
            body=cast("bool | str | None", parts.get("body")),  # as just validated
            encoding=encoding,
            basic=basic,
            fields=_paths(parts.get("fields"), add_error),
        )
    except DefinitionError as error:
        add_error("execution", error.message.removeprefix("An HTTP tool's ").rstrip("."))
        return None
    unknown = execution.error_with(schema) if schema else None
    if unknown is not None:
        add_error("execution.url", unknown)
    return execution


def _parameters(entries: JSON, error: AddError) -> tuple[tuple[str, Parameter], ...]:
    """Parse `{argument: {in, name?, style?, explode?, allowReserved?}}`."""
    parameters: list[tuple[str, Parameter]] = []
    for argument, fine, path in _objects(entries, "parameters", _PARAMETER, error):
        place = fine.get("in")
        styles = STYLES.get(cast("Place", place))
        if styles is None:
            error(f"{path}.in", f"must be one of {', '.join(STYLES)}")
            continue
        style = fine.get("style", styles[0])
        if style not in styles:
            error(f"{path}.style", f"must be one of {', '.join(styles)} in {place}")
            continue
        parameter = Parameter(
            name=str(fine.get("name", argument)),
            place=cast("Place", place),
            style=style,
            explode=cast("bool | None", fine.get("explode")),
            reserved=fine.get("allowReserved") is True,
        )
        parameters.append((argument, parameter))
    return tuple(parameters)


def _encodings(entries: JSON, error: AddError) -> tuple[tuple[str, Encoding], ...]:
    """Parse `{field: {contentType?, style?, explode?}}`."""
    encodings: list[tuple[str, Encoding]] = []
    for name, fine, path in _objects(entries, "encoding", _ENCODING, error):
        style, content_type = fine.get("style"), fine.get("contentType")
        if style is not None and style not in FORM_STYLES:
            error(f"{path}.style", f"must be one of {', '.join(FORM_STYLES)}")
        elif content_type is not None and clean_mime_type(str(content_type)) == ANY_TYPE != content_type:
            error(f"{path}.contentType", "must be one content type, as image/png")
        else:
            encoding = Encoding(
                content_type=cast("str | None", content_type),
                style=cast("Style | None", style),
                explode=cast("bool | None", fine.get("explode")),
            )
            encodings.append((name, encoding))
    return tuple(encodings)


def _objects(
    entries: JSON, field: str, types: Mapping[str, str], error: AddError
) -> Iterator[tuple[str, JSONObject, str]]:
    """Yield the objects of an object by name, with their known fields and their paths."""
    for name, each in (entries if isinstance(entries, dict) else {}).items():
        path = f"execution.{field}.{brief(name, 60)}"
        if isinstance(each, dict):
            yield name, _typed(each, types, f"{path}.", error), path
        else:
            error(path, f"must be an object, not {type_name(each)}")


def _basic(entry: JSON, error: AddError) -> tuple[str, str] | None:
    if not isinstance(entry, dict):
        return None
    fine = _typed(entry, _BASIC, "execution.basicAuth.", error)
    for name in _BASIC:
        if entry.get(name) is None:
            error(f"execution.basicAuth.{name}", "is missing")
    return str(fine.get("username", "")), str(fine.get("password", ""))


def _paths(entries: JSON, error: AddError) -> tuple[str, ...]:
    paths = entries if isinstance(entries, list) else []
    if not all(isinstance(each, str) and each for each in paths):
        error("execution.fields", "must be a list of paths, as owner.login")
        return ()
    return tuple(map(str, paths))
