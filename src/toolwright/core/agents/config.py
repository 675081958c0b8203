"""Configuration of an agent as JSON (API §3): validated, with the path of every error; and the stored agent."""

from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, TypeAlias, cast

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.alias_generators import to_camel

from toolwright.core.agents.agent import (
    CONFIGURED,
    Agent,
    HomeTools,
    OpenTo,
    Readers,
    Side,
    configured,
    reserved,
    toolkits_error,
)
from toolwright.core.agents.model_settings import (
    COMMON,
    NATIVE,
    OVER_HTTP,
    open_setting_error,
    setting_error,
)
from toolwright.core.agents.prompt import (
    DEFAULT_CONTEXT,
    EFFORTS,
    MAX_INSTRUCTIONS,
    MAX_PARALLEL,
    MIN_TOKENS,
    Context,
    Prompt,
)
from toolwright.core.env.env import Variable
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.forms import (
    FIELDS,
    MAX_TOOLS,
    OBJECT,
    TEXT,
    EnvForm,
    EnvVarForm,
    Form,
    Names,
    NonEmptyText,
    form_error,
    kind_of,
)
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ERRORS, MAX_ID, MAX_NAME, MAX_NAMES, MAX_SYSTEM
from toolwright.core.mcp.config import McpForm, read_servers
from toolwright.core.model import ModelSettings, Reasoning, ToolChoice
from toolwright.core.schemas.output import Output
from toolwright.core.text import nearest, sentence
from toolwright.core.tools.config import EXECUTION_TYPES, read_tool_config, read_variables, too_long
from toolwright.core.tools.http.url_template import MAX_URL
from toolwright.core.tools.mcp import McpServer
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Record, Stored, Value, changed

ErrorDetail: TypeAlias = dict[str, str]
MAX_STOPS = 100  # maximum number of stop sequences
_SETTINGS = {to_camel(name): name for name in (*COMMON, *NATIVE)}
_FIELDS_ELSEWHERE = {"thinking": "reasoning", "reasoning": "reasoning", "toolChoice": "toolChoice"}
_OPEN = ", ".join(sorted(map(to_camel, {*OVER_HTTP, *ModelSettings.__struct_fields__} - {"others"})))
_NOT_OPEN = f"is not a setting of configured agents; these are {_OPEN}"


def _read_claims(value: object) -> str:
    return OBJECT if isinstance(value, list) else TEXT


OpenToForm: TypeAlias = Annotated[
    Annotated[OpenTo, Tag(TEXT)] | Annotated[Names, Field(min_length=1), Tag(OBJECT)],
    Discriminator(_read_claims),
]


class SystemForm(Form):
    """System prompt of an agent."""

    system: str = ""


class ModelForm(Form):
    """A model by provider and name."""

    provider: NonEmptyText
    name: NonEmptyText


ModelChoice: TypeAlias = Annotated[
    Annotated[NonEmptyText, Tag(TEXT)] | Annotated[ModelForm, Tag(OBJECT)], Discriminator(kind_of)
]


class LoopForm(Form):
    """Options of an agent's runs."""

    max_steps: Annotated[int, Field(ge=1)] | None = None
    max_seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    inbox_preview: bool = False
    parallel: Annotated[int, Field(ge=1, le=MAX_PARALLEL)] | None = None


class ModelSettingsForm(Form):
    """Settings of the model, sent if the provider supports them. Those without a field are checked in `_settings`."""

    model_config = ConfigDict(extra="allow")

    temperature: Annotated[float, Field(ge=0, le=1e9)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop_sequences: Annotated[list[NonEmptyText], Field(max_length=MAX_STOPS)] | None = None
    presence_penalty: Annotated[float, Field(ge=-1e9, le=1e9)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-1e9, le=1e9)] | None = None


class ContextForm(Form):
    """Token limit of the requests, and how older parts of a conversation are shortened."""

    max_tokens: Annotated[int, Field(ge=MIN_TOKENS, lt=2**31)] | None = None
    start_at: Annotated[float, Field(gt=0, lt=1)] = DEFAULT_CONTEXT.start_at
    keep: Annotated[float, Field(gt=0, lt=1, validate_default=True)] = DEFAULT_CONTEXT.keep
    summarize: bool = True
    summarize_with: NonEmptyText | None = None
    instructions: Annotated[str, Field(max_length=MAX_INSTRUCTIONS)] = ""

    @field_validator("keep")
    @classmethod
    def _keeps_less(cls, keep: float, info: ValidationInfo) -> float:
        start_at = info.data.get("start_at")  # missing if invalid
        if start_at is not None and keep >= start_at:
            raise ValueError(f"is {keep:g} and must be less than startAt ({start_at:g})")
        return keep


class ToolOptions(Form):
    """Changes that an agent makes to one of the app's tools; `timeout` is in milliseconds."""

    visible: bool | None = None
    timeout: Annotated[int, Field(gt=0)] | None = None


class AppToolForm(Form):
    """One of the app's tools, with its own variables."""

    name: NonEmptyText
    env: EnvForm = Field(default_factory=dict[str, str | EnvVarForm])
    options: ToolOptions = Field(default_factory=ToolOptions)


def _effort(value: JsonValue) -> JsonValue:
    if value is not None and not isinstance(value, bool) and value not in EFFORTS:
        raise ValueError(
            f"must be {', '.join(map(repr, EFFORTS))}, true or false; its readers are set by reasoningReaders"
        )
    return value


class AgentForm(Form):
    """A complete configuration of an agent; the `tools` are read individually."""

    agent: SystemForm = Field(default_factory=SystemForm)
    model: ModelChoice | None = None
    model_settings: ModelSettingsForm | None = None
    reasoning: Annotated[JsonValue, AfterValidator(_effort)] = None
    reasoning_readers: Readers = "services"
    tool_choice: ToolChoice = "auto"
    output: dict[str, JsonValue] | None = None
    context: ContextForm | None = None
    variables: list[JsonValue] = Field(default_factory=list[JsonValue], max_length=MAX_NAMES)
    loop: LoopForm = Field(default_factory=LoopForm)
    tools: list[JsonValue] = Field(default_factory=list[JsonValue], max_length=MAX_TOOLS)
    mcp: McpForm = Field(default_factory=McpForm)
    toolkits: Names = Field(default_factory=lambda: [*CONFIGURED])
    env: EnvForm = Field(default_factory=dict[str, str | EnvVarForm])
    tenvs: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    user_env: Names = Field(default_factory=list[str])
    open_to: OpenToForm | None = None
    home_tools: HomeTools = "own"
    shared_memory: bool = False


class Identity(Value):
    """Identity of a configured agent. Its ids are derived from `key`, which is None if the agent is only validated."""

    name: str
    description: str = ""
    key: str | None = None
    revision: int | None = None


def read_agent(config: JSON, identity: Identity, tools: Mapping[str, Tool], *, trusted: bool) -> Agent:
    """Return the agent of a configuration; `tools` are the app's tools by name.

    `trusted` is true if the operator wrote the configuration: its HTTP tools can then reach private addresses (D13).
    Raises `InvalidConfiguration` with every invalid path.
    """
    form = _form(config)
    toolkits = configured(form.toolkits)
    if toolkits is None:
        mixed = "must be 'spaces' and 'mind', or 'channels' and 'memory'"
        raise invalid_value([{"path": "toolkits", "message": toolkits_error(form.toolkits) or mixed}])
    errors: list[ErrorDetail] = []
    settings = _settings(form.model_settings, errors, trusted=trusted)
    chosen, tool_env = _tools(form, tools, reserved(toolkits), errors, trusted=trusted)
    variables = read_variables(
        form.variables, lambda path, message: errors.append({"path": path, "message": message})
    )
    output = _output(form.output, errors)
    if errors:
        raise invalid_value(errors)
    with _as_configuration():
        prompt = _prompt(identity.name, form, settings, chosen, variables, output)
    servers = _servers(form.mcp, trusted)
    with _as_configuration():
        return Agent(
            identity.name,
            Side(prompt, max_steps=form.loop.max_steps, max_seconds=form.loop.max_seconds),
            description=identity.description,
            env=_env(form.env),
            tenvs=form.tenvs,
            user_env=form.user_env,
            toolkits=[*toolkits],
            inbox_preview=form.loop.inbox_preview,
            key=identity.key,
            revision=identity.revision,
            tool_env=tool_env,
            mcp=servers,
            open_to=form.open_to,
            home_tools=form.home_tools,
            shared_memory=form.shared_memory,
            reasoning=form.reasoning_readers,
        )


def _form(config: JSON) -> AgentForm:
    try:
        return AgentForm.model_validate(config)
    except ValidationError as error:
        raise invalid_value(
            [_error_detail(each["loc"], form_error(each)) for each in error.errors()]
        ) from None


@contextmanager
def _as_configuration() -> Generator[None]:
    """Raise errors of definitions as errors of the configuration, without a path."""
    try:
        yield
    except DefinitionError as error:
        raise InvalidConfiguration(error.message, [{"path": "", "message": error.message}]) from error


def _prompt(
    name: str,
    form: AgentForm,
    settings: JSONObject,
    tools: Sequence[Tool],
    variables: Sequence[Variable],
    output: Output | None,
) -> Prompt:
    model = form.model
    return Prompt(
        name,
        prompt=form.agent.system,
        model=f"{model.provider}:{model.name}" if isinstance(model, ModelForm) else model,
        tools=tools,
        tool_choice=form.tool_choice,
        reasoning=cast("Reasoning", form.reasoning),
        output=output,
        variables=variables,
        model_settings=settings or None,
        context=None if form.context is None else Context(**form.context.model_dump()),
        parallel=form.loop.parallel,
    )


def _settings(form: ModelSettingsForm | None, errors: list[ErrorDetail], *, trusted: bool) -> JSONObject:
    """Return the settings of the model by their names in Python. Only the operator can set all of them."""
    if form is None:
        return {}
    settings: JSONObject = form.model_dump(exclude_none=True)
    for written in form.model_extra or {}:
        value = settings.pop(written, None)
        error = _setting_error(written, value, trusted=trusted) if len(errors) < MAX_ERRORS else None
        if error is not None:
            errors.append({"path": f"modelSettings.{written}", "message": error})
        elif value is not None and written in _SETTINGS:
            settings[_SETTINGS[written]] = value
    return settings


def _setting_error(written: str, value: JSON, *, trusted: bool) -> str | None:
    name = _SETTINGS.get(written)
    if written in _FIELDS_ELSEWHERE:
        return f"is no setting of the model: set {_FIELDS_ELSEWHERE[written]} beside modelSettings"
    if name is None:
        return f"{FIELDS.unknown}.{nearest(written, _SETTINGS)}".removesuffix(".")
    if trusted:
        return setting_error(name, value)
    return open_setting_error(name, value) if name in OVER_HTTP else _NOT_OPEN


def _servers(form: McpForm, trusted: bool) -> list[McpServer | str]:
    try:
        return read_servers(form.servers, "mcp.servers", trusted=trusted)
    except InvalidConfiguration as error:
        raise invalid_value([*error.details]) from None


def _output(schema: JSONObject | None, errors: list[ErrorDetail]) -> Output | None:
    """Return the declared output, or None. Errors of its schema are added to `errors`."""
    try:
        return None if schema is None else Output(schema, "output")
    except InvalidConfiguration as error:
        errors += [_within("output", each) for each in error.details]
    except DefinitionError as error:
        errors.append({"path": "output", "message": error.message})
    return None


def _within(place: str, error: ErrorDetail) -> ErrorDetail:
    return {**error, "path": f"{place}.{error['path']}" if error["path"] else place}


LENGTHS: Mapping[str, int] = {
    "agent.system": MAX_SYSTEM,
    "model": MAX_NAME,
    "model.provider": MAX_NAME,
    "model.name": MAX_NAME,
    "context.summarizeWith": MAX_NAME,
    "mcp.servers.*.name": MAX_NAME,
    "mcp.servers.*.url": MAX_URL,
    "mcp.servers.*.allowedTools.*": MAX_ID,
    "tools.*": MAX_ID,
    "toolkits.*": MAX_NAME,
    "userEnv.*": MAX_NAME,
    "openTo.*": MAX_NAME,
}
"""Maximum number of characters of a text, by its path in a new configuration."""


def length_errors(config: JSON) -> list[ErrorDetail]:
    """Return errors for texts that are too long for a new configuration. Stored configurations remain valid."""
    errors = [
        _too_long(path, most)
        for places, most in LENGTHS.items()
        for path, text in _at(config, places.split("."))
        if isinstance(text, str) and len(text) > most
    ]
    for path, entry in _at(config, ["tools", "*"]):
        if isinstance(entry, dict) and "executionType" in entry:
            errors += [_too_long(f"{path}.{name}", most) for name, most in too_long(entry)]
        elif isinstance(entry, dict) and len(str(entry.get("name"))) > MAX_ID:
            errors.append(_too_long(f"{path}.name", MAX_ID))
    return errors[:MAX_ERRORS]


def _too_long(path: str, most: int) -> ErrorDetail:
    return {"path": path, "message": f"must have at most {most} characters"}


def _at(value: JSON, places: Sequence[str], path: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield the values at these paths, each with its path; `*` matches each item of a list."""
    if not places:
        yield path.removeprefix("."), value
    elif places[0] == "*" and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _at(item, places[1:], f"{path}.{number}")
    elif isinstance(value, dict) and places[0] in value:
        yield from _at(value[places[0]], places[1:], f"{path}.{places[0]}")


def check_script(config: JSON, allowed: Set[str]) -> None:
    """Reject a configuration whose model is a script file on the server, unless the script is allowed.

    Raises `InvalidConfiguration`.
    """
    fields = config if isinstance(config, dict) else {}
    model, context = fields.get("model"), fields.get("context")
    if isinstance(model, dict):
        model = f"{model.get('provider')}:{model.get('name')}"
    models: dict[str, JSON] = {"config.model": model}
    if isinstance(context, dict):
        for name in ("summarizeWith", "summarize_with"):
            models[f"config.context.{name}"] = context.get(name)
    for path, script in models.items():
        if isinstance(script, str) and script.startswith("scripted:") and script not in allowed:
            error = "names a script, which is a file of the server"
            how = "name it in TOOLWRIGHT_MODEL, or configure this agent in a file"
            raise invalid_value([{"path": path, "message": f"{error}: {how}"}])


def _tools(
    form: AgentForm,
    tools: Mapping[str, Tool],
    built_in: frozenset[str],
    errors: list[ErrorDetail],
    *,
    trusted: bool,
) -> tuple[list[Tool], dict[str, dict[str, str | JSONObject]]]:
    chosen: list[Tool] = []
    env: dict[str, dict[str, str | JSONObject]] = {}
    names = set(built_in)
    for number, entry in enumerate(form.tools):
        path = f"tools.{number}"
        try:
            tool, own = _tool(entry, tools, path, trusted=trusted)
        except InvalidConfiguration as error:
            errors += error.details
            if len(errors) >= MAX_ERRORS:
                break
            continue
        if tool.name in names:
            what = (
                "is the name of a built-in tool" if tool.name in built_in else "is the name of another tool"
            )
            errors.append({"path": f"{path}.name", "message": f"{tool.name!r} {what}"})
        names.add(tool.name)
        chosen.append(tool)
        if own:
            env[tool.name] = own
    return chosen, env


def _tool(
    entry: JSON, tools: Mapping[str, Tool], path: str, *, trusted: bool
) -> tuple[Tool, dict[str, str | JSONObject]]:
    if isinstance(entry, dict) and "executionType" in entry:
        return Tool(**read_tool_config(entry, path, trusted)), {}
    if isinstance(entry, dict) and "openapi" in entry:
        raise invalid_value(
            [{"path": f"{path}.openapi", "message": "cannot be read here: OpenAPI documents are not taken"}]
        )
    if isinstance(entry, dict) and not entry.keys() <= AppToolForm.model_fields.keys():
        kinds = ", ".join(EXECUTION_TYPES)
        message = (
            f"is required for a tool of its own ({kinds}); a tool of the app has name, env and options only"
        )
        raise invalid_value([{"path": f"{path}.executionType", "message": message}])
    try:
        form = AppToolForm.model_validate({"name": entry} if isinstance(entry, str) else entry)
    except ValidationError as error:
        raise invalid_value(
            [_error_detail((path, *each["loc"]), form_error(each)) for each in error.errors()]
        ) from None
    if form.name not in tools:
        message = (
            f"names the tool {form.name!r}, which the app does not have; a configuration has an executionType"
        )
        raise invalid_value([{"path": path, "message": message}])
    return _changed(tools[form.name], form.options), _env(form.env)


def _changed(tool: Tool, options: ToolOptions) -> Tool:
    if options.visible is not None:
        tool = changed(tool, visible=options.visible)
    return tool if options.timeout is None else changed(tool, timeout=options.timeout / 1000)


def _env(env: EnvForm) -> dict[str, str | JSONObject]:
    return {
        name: value if isinstance(value, str) else {"value": value.value, "type": value.type}
        for name, value in env.items()
    }


def invalid_value(errors: list[ErrorDetail]) -> InvalidConfiguration:
    """Return the error of an invalid configuration. Its message is the first error, its details are all errors."""
    first = errors[0]
    where = f"{first['path']} " if first["path"] else ""
    return InvalidConfiguration(sentence(f"{where}{first['message']}"), [*errors])


def _error_detail(path: tuple[int | str, ...], message: str) -> ErrorDetail:
    """Return the error of one field. The path omits the member of a union that pydantic selected."""
    steps = [str(part) for part in path if part not in (TEXT, OBJECT)]
    return {"path": ".".join(steps), "message": message}


class AgentHead(Record):
    """The current revision of a configured agent."""

    STORED = Stored(key=("id",), unique=("name",))

    id: str
    name: str
    revision: int
    created_at: datetime
    updated_at: datetime


class AgentRevision(Record):
    """The configuration of an agent in one revision. It remains after the agent is deleted."""

    STORED = Stored(key=("agent_id", "revision"), owner="agent_id")

    agent_id: str
    revision: int
    name: str
    description: str
    config: JSONObject
    created_at: datetime


class ConfiguredAgent(Value):
    """One revision of an agent's configuration; `revision` counts 1, 2, 3 …

    A run keeps the revision with which it started, so an update takes effect at the next run. Values of `env` and
    `tenvs` are not in `config` but in separate rows, encrypted if they are secrets; `owner` is the owner of these rows.
    """

    id: str
    name: str
    description: str
    config: JSONObject
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def head(self) -> AgentHead:
        """The row that makes this revision the current one."""
        return AgentHead(
            id=self.id,
            name=self.name,
            revision=self.revision,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    @property
    def row(self) -> AgentRevision:
        """The row of this revision."""
        return AgentRevision(
            agent_id=self.id,
            revision=self.revision,
            name=self.name,
            description=self.description,
            config=self.config,
            created_at=self.updated_at,
        )

    @property
    def owner(self) -> str:
        """The owner of this revision's env rows."""
        return f"{self.id}.{self.revision}"
