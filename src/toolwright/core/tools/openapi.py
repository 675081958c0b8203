"""Tools from an OpenAPI document: one HTTP tool per operation, or an error for an operation that cannot become one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, overload

from pydantic import BeforeValidator, Field, JsonValue, ValidationError

from toolwright.core.errors import DefinitionError, InvalidConfiguration, MissingExtra, missing_extra
from toolwright.core.forms import MAX_TOOLS, Form, NonEmptyText, form_error
from toolwright.core.json_value import JSON, JSONObject, has_more_values
from toolwright.core.limits import CONFIG_VALUES, MAX_ERRORS, MAX_JSON_VALUES
from toolwright.core.text import quantity, sentence
from toolwright.core.tools.config import MAX_MILLISECONDS, read_tool_config
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Value

T = TypeVar("T")
log = logging.getLogger("toolwright.openapi")

Effect: TypeAlias = Literal["read_only", "idempotent", "destructive", "none"]
DESCRIPTION = 1_000
"""Default maximum number of characters of a description: providers reject longer ones, and models read all of it."""
_IN_PYTHON = {"baseUrl": "base_url", "maxDescription": "max_description"}


class OnlyForm(Form):
    """Selection of operations. A missing field selects all. Operations and paths can contain `*`."""

    operations: list[NonEmptyText] | None = None
    tags: list[NonEmptyText] | None = None
    paths: list[NonEmptyText] | None = None
    methods: list[NonEmptyText] | None = None
    deprecated: bool = False


def _operations(only: object) -> object:
    """Convert a text or a list to the field `operations`."""
    if isinstance(only, str):
        return {"operations": [only]}
    return {"operations": cast("object", only)} if isinstance(only, list) else only


def _auth(auth: object) -> object:
    if auth not in (None, False) and not _are_texts(_values(auth)):
        raise ValueError("must be the name of a variable, or such names by security scheme, or false")
    return auth


def _selected_fields(fields: object) -> object:
    if not isinstance(fields, bool) and not all(map(_are_texts, _values(fields))):
        raise ValueError("must be true or false, a list of paths, or such lists by operation")
    return fields


def _values(value: object) -> list[object]:
    return [*cast("dict[object, object]", value).values()] if isinstance(value, dict) else [value]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, str) and each for each in cast("list[object]", value)
    )


class ApiForm(Form):
    """Options of an OpenAPI document in JSON; `timeout` is in milliseconds."""

    only: Annotated[OnlyForm | None, BeforeValidator(_operations)] = None
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] | None = None
    base_url: NonEmptyText | None = None
    auth: Annotated[bool | str | dict[str, str] | None, BeforeValidator(_auth)] = None
    headers: dict[str, NonEmptyText] = Field(default_factory=dict[str, str])
    fields: Annotated[bool | list[str] | dict[str, list[str]], BeforeValidator(_selected_fields)] = False
    effects: dict[str, Effect] = Field(default_factory=dict[str, Effect])
    max_description: Annotated[int, Field(ge=20, le=100_000)] = DESCRIPTION
    visible: bool | None = None
    timeout: Annotated[int, Field(gt=0, le=MAX_MILLISECONDS)] | None = None
    requires_approval: bool | dict[str, JsonValue] | None = None


class ApiEntry(ApiForm):
    """An OpenAPI document in the tools of a configured agent."""

    source: NonEmptyText | dict[str, JsonValue]


class OperationFault(Value):
    """An operation, such as `GET /pets`, that cannot become a tool, and the reason."""

    operation: str
    message: str


class Api(Value):
    """The tools of a document: their configurations, and the errors of operations that cannot become tools.

    `left_out` are headers of the document that are no arguments, because every request has them anyway.
    """

    title: str
    tools: tuple[JSONObject, ...]
    faults: tuple[OperationFault, ...]
    left_out: tuple[str, ...] = ()

    def errors_line(self) -> str | None:
        """Return the errors on one line, or None."""
        if not self.faults:
            return None
        first = "; ".join(
            f"{each.operation}: {each.message.rstrip('.')}" for each in self.faults[:MAX_ERRORS]
        )
        more = len(self.faults) - MAX_ERRORS
        suffix = f"; and {more} more" if more > 0 else ""
        what = quantity(len(self.faults), "operation")
        return sentence(f"Of the OpenAPI document {self.title!r}, {what} became no tool: {first}{suffix}")


ReadApi: TypeAlias = Callable[[ApiEntry, bool], Awaitable[Api]]
"""Reads the document of an entry; the flag is true if the operator wrote the entry. Raises `DefinitionError`."""


class OpenAPITools(Sequence[Tool]):
    """The tools of an OpenAPI document, in its order, accessible by index or name.

    `faults` are the errors of operations that cannot become tools.
    """

    def __init__(self, tools: Sequence[Tool], errors: Sequence[OperationFault]) -> None:
        self._tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in tools}
        self.faults = tuple(errors)

    @overload
    def __getitem__(self, key: int | str) -> Tool: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Tool]: ...
    def __getitem__(self, key: int | str | slice) -> Tool | Sequence[Tool]:
        return self._by_name[key] if isinstance(key, str) else self._tools[key]

    def __contains__(self, tool: object) -> bool:
        return tool in self._by_name if isinstance(tool, str) else tool in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"OpenAPITools([{', '.join(self._by_name)}], faults={len(self.faults)})"


def openapi(
    source: "str | PathLike[str] | Mapping[str, Any]",
    *,
    only: str | Sequence[str] | Mapping[str, Any] | None = None,
    name: str | None = None,
    base_url: str | None = None,
    auth: "bool | str | Mapping[str, str] | None" = None,
    headers: Mapping[str, str] | None = None,
    fields: "bool | Sequence[str] | Mapping[str, Sequence[str]]" = False,
    effects: Mapping[str, Effect] | None = None,
    max_description: int = DESCRIPTION,
) -> OpenAPITools:
    """Return the tools of an OpenAPI 3.0 or 3.1 document: `tools=[*tw.openapi("petstore.yaml")]`.

    Operations that cannot become a tool are in `faults`, and logged once. Requires the extra `openapi`.

    Args:
        source: a path, a URL, the text of a document as JSON or YAML, or the document as an object.
        only: operation ids, in which `*` matches anything; or a mapping with `operations`, `tags`, `paths`,
            `methods` and `deprecated` (true: deprecated operations too), all of which an operation must match.
        name: prefix of the names of the tools and of the variables.
        base_url: the address of the service, instead of the document's first server. It is trusted.
        auth: the variable that holds the credentials, or a variable for each security scheme; False sends no
            credentials. If the document declares no scheme, the variable is sent as a bearer token.
        headers: headers of every request, whose values can contain variables: `{"X-Team": "${env.TEAM}"}`.
        fields: True trims responses to the declared fields; paths such as `owner.login` keep only these fields, for all
            operations or by operation id.
        effects: `read_only`, `idempotent`, `destructive` or `none` by operation id, to override the method's default.
        max_description: maximum number of characters of a description.

    Raises:
        DefinitionError: if the document cannot be read, or has no usable operation.
        MissingExtra: without the extra `openapi`.
    """
    options: dict[str, Any] = {  # validated by the form
        "only": [*only] if isinstance(only, list | tuple) else only,
        "name": name,
        "baseUrl": base_url,
        "auth": auth,
        "headers": headers or {},
        "fields": [*fields] if isinstance(fields, tuple) else fields,
        "effects": effects or {},
        "maxDescription": max_description,
    }
    try:
        form = ApiForm.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        top, *below = map(str, first["loc"])
        where = ".".join([_IN_PYTHON.get(top, top), *below])
        raise DefinitionError(sentence(f"tw.openapi: {where} {form_error(first)}")) from None
    api = _load(source, form)
    return _tools(api)


def _load(source: object, form: ApiForm) -> Api:
    if _reader().is_url(source):
        return _in_thread(lambda: _fetched(str(source), form))
    return read_document(_reader().load(source), form, None)


async def _fetched(url: str, form: ApiForm) -> Api:
    document = await _reader().fetch(url, trusted=True)
    return read_document(document, form, url)


def _in_thread(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine in a separate thread, because the caller's thread can have a running event loop."""
    with ThreadPoolExecutor(1, "toolwright-openapi") as pool:
        return pool.submit(lambda: asyncio.run(begin())).result()


def read_document(document: JSONObject, form: ApiForm, url: str | None) -> Api:
    """Return the tools of a document from this URL, or None for the caller's own document. Raises `DefinitionError`."""
    read: Callable[[JSONObject, ApiForm, str | None], Api] = _reader().read_api
    api = read(document, form, url)
    message = api.errors_line()
    if message is not None:
        if not api.tools:
            raise DefinitionError(message)
        log.warning("%s", message)
    if api.left_out:
        names = ", ".join(api.left_out[:MAX_ERRORS])
        log.warning(
            "Of the OpenAPI document %r, headers that a request has anyway are no arguments: %s.",
            api.title,
            names,
        )
    return api


async def read_entry(
    entry: ApiEntry, *, trusted: bool, allow: Sequence[str] = (), folder: Path | None = None
) -> Api:
    """Return the tools of the document in an agent's configuration, whose path is relative to the folder.

    An entry that is not `trusted` cannot name files of the server or reach private addresses that are not allowed
    (D13). Raises `DefinitionError`.
    """
    reader = await asyncio.to_thread(_reader)
    if reader.is_url(entry.source):
        document = await reader.fetch(entry.source, trusted=trusted, allow=allow)
        return await asyncio.to_thread(read_document, document, entry, cast("str", entry.source))
    if not trusted and reader.is_path(entry.source):
        raise DefinitionError("source names a file, which is only allowed in files and code")
    document = await asyncio.to_thread(reader.load, entry.source, folder)
    return await asyncio.to_thread(read_document, document, entry, None)


def api_entries(config: JSON) -> dict[int, JSON]:
    """Return the documents among the tools of an agent's configuration, by their index."""
    tools = config.get("tools") if isinstance(config, dict) else None
    entries = tools if isinstance(tools, list) else []
    return {
        n: each["openapi"] for n, each in enumerate(entries) if isinstance(each, dict) and "openapi" in each
    }


async def with_apis(
    config: JSON, read: Callable[[ApiEntry], Awaitable[Api]]
) -> tuple[JSON, list[OperationFault]]:
    """Return the configuration with its documents replaced by their tools, and the errors of the documents.

    Raises `InvalidConfiguration` with the path of every error of an entry.
    """
    documents = api_entries(config)
    if not documents or not isinstance(config, dict) or not isinstance(config["tools"], list):
        return config, []
    apis: dict[int, Api] = {}
    details: list[dict[str, str]] = []
    for number, entry in documents.items():
        path = f"tools.{number}.openapi"
        if config["tools"][number] != {"openapi": entry}:
            details.append({"path": f"tools.{number}", "message": "must have no other field beside openapi"})
            continue
        try:
            apis[number] = await read(ApiEntry.model_validate(entry))
        except ValidationError as error:
            details += [
                {"path": ".".join(map(str, (path, *each["loc"]))), "message": form_error(each)}
                for each in error.errors()
            ]
        except (DefinitionError, MissingExtra) as error:
            details.append({"path": path, "message": error.message.rstrip(".")})
    if not details and sum(len(api.tools) for api in apis.values()) > MAX_TOOLS:
        details.append({"path": "tools", "message": f"must be {MAX_TOOLS} at most"})
    if not details and has_more_values([api.tools for api in apis.values()], CONFIG_VALUES * MAX_JSON_VALUES):
        details.append(
            {"path": "tools", "message": f"must have {CONFIG_VALUES * MAX_JSON_VALUES} values at most"}
        )
    if details:
        first = details[0]
        raise InvalidConfiguration(sentence(f"{first['path']} {first['message']}"), details[:MAX_ERRORS])
    tools: list[JSON] = []
    for number, entry in enumerate(config["tools"]):
        tools += apis[number].tools if number in apis else [entry]
    return {**config, "tools": tools}, [
        operation_error for api in apis.values() for operation_error in api.faults
    ]


def with_apis_of_file(config: JSON, folder: Path) -> JSON:
    """Return the configuration of a file in that folder, with its documents replaced by their tools.

    Raises `InvalidConfiguration` with the path of every error of an entry.
    """
    if not api_entries(config):
        return config
    read = partial(read_entry, trusted=True, folder=folder)
    return _in_thread(lambda: with_apis(config, read))[0]


def _tools(api: Api) -> OpenAPITools:
    tools = [Tool(**read_tool_config(config, "", trusted=True)) for config in api.tools]
    return OpenAPITools(tools, api.faults)


def _reader() -> Any:  # a module
    """Return the module of the adapter, found by its name: the core imports no adapter. Raises `MissingExtra`."""
    try:
        return import_module("toolwright.adapters.openapi.reader")
    except ImportError as error:
        raise missing_extra("An OpenAPI document", "openapi", error) from error
