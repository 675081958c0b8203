"""Configurations of MCP servers, as JSON (S3) and in Python: validated, with the path of every error."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, TypeAdapter, ValidationError

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.forms import MAX_TOOLS, Form, NonEmptyText, form_error
from toolwright.core.json_value import NOT_ONE_LINE, one_line
from toolwright.core.text import sentence
from toolwright.core.tools.approval import Approval
from toolwright.core.tools.http.execution import execution_errors
from toolwright.core.tools.http.url_template import InvalidTemplate, read_header, read_url
from toolwright.core.tools.mcp import McpServer, McpToolOptions, Revision

MAX_SERVERS = 1_000
MAX_ARGS = 1_000
MAX_TIMEOUT = 10**12  # ms
Milliseconds: TypeAlias = Annotated[int, Field(gt=0, le=MAX_TIMEOUT)]
ErrorDetail: TypeAlias = dict[str, str]
_OF_CODE = "is only taken from files and code: the process would run on the server"


class ApprovalForm(Form):
    """The terms of an approval; `expires_in` is in milliseconds."""

    by: Literal["anyone", "service", "person"] | Annotated[list[NonEmptyText], Field(min_length=1)] = "anyone"
    expires_in: Milliseconds | None = None
    edit: bool = True
    reason: bool = True


Requirement: TypeAlias = bool | ApprovalForm


class McpToolForm(Form):
    """Options of one tool; `timeout` is in milliseconds."""

    visible: bool | None = None
    timeout: Milliseconds | None = None
    requires_approval: Requirement | None = None


class McpServerForm(Form):
    """A server whose tools the agent can call."""

    name: NonEmptyText
    url: NonEmptyText | None = None
    transport: Literal["http", "sse", "stdio"] | None = None
    headers: Annotated[dict[str, str], Field(max_length=100)] = Field(default_factory=dict[str, str])
    command: NonEmptyText | None = None
    args: Annotated[list[str], Field(max_length=MAX_ARGS)] = Field(default_factory=list[str])
    env: Annotated[dict[str, str], Field(max_length=MAX_ARGS)] = Field(default_factory=dict[str, str])
    revision: Revision | None = None
    allowed_tools: Annotated[list[NonEmptyText], Field(max_length=MAX_TOOLS)] | None = None
    visible: bool = False
    timeout: Milliseconds | None = None
    tools: Annotated[dict[str, McpToolForm], Field(max_length=MAX_TOOLS)] = Field(
        default_factory=dict[str, McpToolForm]
    )
    sampling: bool = False
    hold_changes: bool = False
    instructions: bool | None = None
    resources: bool = False
    requires_approval: Requirement = False

    @property
    def resolved_transport(self) -> Literal["http", "sse", "stdio"]:
        """Return the transport, derived from `command` if not given."""
        return self.transport or ("http" if self.command is None else "stdio")


class McpForm(Form):
    """The servers of an agent or an app: configurations, and names of the app's servers."""

    servers: Annotated[list[Any], Field(max_length=MAX_SERVERS)] = Field(default_factory=list[Any])


def read_servers(entries: Iterable[object], path: str, *, trusted: bool) -> list[McpServer | str]:
    """Return the servers of these configurations. A text is the name of one of the app's servers.

    Raises `InvalidConfiguration` with the path of every error.
    """
    return _read(_numbered(path, entries), trusted=trusted)


def _read(entries: Iterable[tuple[str, object]], *, trusted: bool) -> list[McpServer | str]:
    """Return the servers of the configurations, each given with its path."""
    servers: list[McpServer | str] = []
    errors: list[ErrorDetail] = []
    names: set[str] = set()
    for where, entry in entries:
        server = entry if isinstance(entry, McpServer | str) else _server(entry, where, errors, trusted)
        if server is None:
            continue
        name = server if isinstance(server, str) else server.name
        if name in names:
            errors.append({"path": f"{where}.name", "message": f"{name!r} is the name of another server"})
        names.add(name)
        servers.append(server)
    if errors:
        first = errors[0]
        raise InvalidConfiguration(sentence(f"{first['path']} {first['message']}"), [*errors])
    return servers


def declared_servers(declared: object, subject: str) -> list[McpServer | str]:
    """Return the servers that an app or an agent declares in Python: as S3's object, by name, or as a list.

    Raises `InvalidConfiguration`.
    """
    if declared is None:
        return []
    try:
        return _read(_entries(declared), trusted=True)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{subject}: {error.message}", [*error.details]) from None


def _entries(declared: object) -> list[tuple[str, object]]:
    """Return the configurations, each with its path. Raises `InvalidConfiguration`."""
    if isinstance(declared, Mapping):
        fields = cast("Mapping[str, Any]", declared)
        if set(fields) == {"servers"} and isinstance(fields["servers"], list):
            return _numbered("mcp.servers", cast("list[object]", fields["servers"]))
        return [(f"mcp.{name}", _entry_by_name(name, entry)) for name, entry in fields.items()]
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        raise InvalidConfiguration(
            f"mcp must be servers by name, or a list of them, not {brief_value(declared)}."
        )
    return _numbered("mcp", cast("Iterable[object]", declared))


def _numbered(path: str, entries: Iterable[object]) -> list[tuple[str, object]]:
    return [(f"{path}.{number}", entry) for number, entry in enumerate(entries)]


def _entry_by_name(name: str, entry: object) -> object:
    """Return the configuration declared under that name."""
    if isinstance(entry, McpServer):
        own = entry.name
    elif not isinstance(entry, Mapping):
        raise InvalidConfiguration(f"the MCP server {name!r} must be an object, not {brief_value(entry)}.")
    else:
        entry = {"name": name, **cast("Mapping[str, Any]", entry)}
        own = entry["name"]
    if own != name:
        raise InvalidConfiguration(f"the MCP server {brief_value(own)} is declared as {name!r}.")
    return entry


def _server(entry: object, path: str, errors: list[ErrorDetail], trusted: bool) -> McpServer | None:
    try:
        form = _form().validate_python(_camel(entry))
    except ValidationError as error:
        for each in error.errors():
            error_path = ".".join([path, *map(str, each["loc"])])
            errors.append({"path": error_path, "message": form_error(each)})
        return None
    form_errors = [*_form_errors(form, trusted)]
    errors += [{"path": f"{path}.{field}", "message": message} for field, message in form_errors]
    return None if form_errors else _server_of_form(form, trusted)


@cache
def _form() -> TypeAdapter[McpServerForm]:
    """Return the validator, built when the first configuration is read."""
    return TypeAdapter(McpServerForm)


def _camel(entry: object) -> object:
    """Return the entry with Python field names converted to JSON spelling."""
    if not isinstance(entry, Mapping):
        return entry
    fields = cast("Mapping[str, Any]", entry)
    spelled = {name: field.alias or name for name, field in McpServerForm.model_fields.items()}
    return {spelled.get(name, name): each for name, each in fields.items()}


def _form_errors(form: McpServerForm, trusted: bool) -> Iterable[tuple[str, str]]:
    """Yield the errors of a configuration whose fields have valid types: pairs of a field and a message."""
    if not one_line(form.name) or not form.name.strip():
        yield "name", NOT_ONE_LINE
    if form.resolved_transport == "stdio":
        if not trusted:
            yield ("transport" if form.command is None else "command"), _OF_CODE
        elif form.command is None:
            yield "command", "is required for a server on stdio"
        if form.url is not None:
            yield "url", "is not taken by a server on stdio"
        if form.headers:
            yield "headers", "are not taken by a server on stdio: give env"
        yield from _env_errors(form)
        return
    for field in ("command", "args", "env"):
        if getattr(form, field):
            yield field, ("is only taken by a server on stdio" if trusted else _OF_CODE)
    if form.url is None:
        yield "url", "is required"
    else:
        try:
            slots = read_url(form.url).slots
        except InvalidTemplate as error:
            yield "url", str(error)
        else:
            for slot in slots:
                if slot.kind == "argument":
                    yield (
                        "url",
                        f"must not have the placeholder {{{slot.name}}}: there are only variables, ${{env.NAME}}",
                    )
    for field, message in execution_errors("http://host", "POST", [*form.headers.items()]):
        yield field, message


def _env_errors(form: McpServerForm) -> Iterable[tuple[str, str]]:
    for name, text in form.env.items():
        try:
            read_header(text)
        except InvalidTemplate as error:
            yield f"env.{name}", str(error)
        if not name or "=" in name or "\0" in name or "\0" in text:
            yield f"env.{name}", "is no variable that a process can have"


def _server_of_form(form: McpServerForm, trusted: bool) -> McpServer:
    seconds = {} if form.timeout is None else {"timeout": form.timeout / 1000}
    return McpServer(
        name=form.name,
        transport=form.resolved_transport,
        url=form.url,
        headers=tuple(form.headers.items()),
        command=form.command,
        args=tuple(form.args),
        env=tuple(form.env.items()),
        revision=form.revision,
        allowed_tools=None if form.allowed_tools is None else frozenset(form.allowed_tools),
        visible=form.visible,
        tools=tuple(
            [
                (
                    name,
                    McpToolOptions(
                        visible=each.visible,
                        timeout=None if each.timeout is None else each.timeout / 1000,
                        requires_approval=_approval(each.requires_approval),
                    ),
                )
                for name, each in form.tools.items()
            ]
        ),
        sampling=form.sampling,
        hold_changes=form.hold_changes,
        resources=form.resources,
        instructions=not form.hold_changes if form.instructions is None else form.instructions,
        trusted=trusted,
        requires_approval=_approval(form.requires_approval) or None,
        **seconds,
    )


def _approval(form: Requirement | None) -> Approval | Literal[False] | None:
    if form is None or form is False:
        return form
    if form is True:
        return Approval()
    seconds = None if form.expires_in is None else form.expires_in / 1000
    return Approval(by=form.by, expires_in=seconds, edit=form.edit, reason=form.reason)


def chosen_servers(
    chosen: Sequence[McpServer | str] | None, declared: Mapping[str, McpServer], agent: str
) -> tuple[McpServer, ...]:
    """Return the servers of an agent, with the app's servers resolved by name. None selects all servers of the app.

    Raises `DefinitionError` for a name that the app does not have.
    """
    if chosen is None:
        return tuple(declared.values())
    for each in chosen:
        if isinstance(each, str) and each not in declared:
            known = f"It has: {', '.join(declared)}" if declared else "It has none"
            raise DefinitionError(
                sentence(
                    f"Agent {agent!r} names the MCP server {each!r}, which the app does not have. {known}"
                )
            )
    return tuple([declared[each] if isinstance(each, str) else each for each in chosen])
