"""Relations of tools to the prompts and agents that they call: S0 §4 and §5."""

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import pydantic
from pydantic.alias_generators import to_camel

from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.checks import brief_value
from toolwright.core.env.env import name_error
from toolwright.core.errors import DefinitionError
from toolwright.core.forms import form_error
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_NAMES
from toolwright.core.text import sentence
from toolwright.core.threads.run import Side
from toolwright.core.tools.approval import Requirement, requirement
from toolwright.core.tools.mcp import McpCall
from toolwright.core.value import Value

Name: TypeAlias = Annotated[str, pydantic.Field(min_length=1)]


def _tenv_name(name: str) -> str:
    error = name_error(name)
    if error is not None:
        raise ValueError(f"has the name {error}")
    return name


TenvName: TypeAlias = Annotated[str, pydantic.AfterValidator(_tenv_name)]


class _DefinitionForm(pydantic.BaseModel):
    """A part of a definition, with names in snake_case or as in S0. Raises `DefinitionError` with the invalid field."""

    _rules: ClassVar[str] = "an object"
    model_config = pydantic.ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # most apps do not use them
    )

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _plain_error(
        cls, value: Any, handler: pydantic.ModelWrapValidatorHandler["_DefinitionForm"]
    ) -> "_DefinitionForm":  # user input
        try:
            return handler(value)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            steps = first["loc"][:-2] if first["loc"][-1:] == ("[key]",) else first["loc"]
            path = ".".join(str(part) for part in steps if not str(part).startswith(("literal", "function")))
            unknown = first["type"] == "extra_forbidden"
            path_error = f"there is no field {path!r}" if unknown else f"{path} {form_error(first)}"
            kind_error = f"it must be {cls._rules}, not {brief_value(value)}"
            raise DefinitionError(
                sentence(f"{cls.__name__} is invalid: {path_error if path else kind_error}")
            ) from None


class SubpromptConfig(_DefinitionForm):
    """A prompt as a tool (S0 §4): the parts of its answer, and its arguments.

    By default the answer includes its text, its calls and their errors. `init_user_message_property` names the argument
    that is its user message, `init_attachments_property` the argument with paths of files of the thread.
    `requires_approval` is as in `Tool`.
    """

    name: Name
    include_text_response: bool = True
    include_tool_calls: bool = True
    include_errors: bool = True
    init_user_message_property: Name | None = None
    init_attachments_property: Name | None = None
    requires_approval: Any = None  # a `Requirement`, or its JSON; parsed by `requirement`

    @pydantic.field_validator("requires_approval")
    @classmethod
    def _read_approval(cls, value: Any) -> Requirement:  # user input
        return requirement(value, cls.__name__)


class Immediate(_DefinitionForm):
    """A child for each group of values (S0 §5): `name_env` provides its name, `description_env` its first message.

    `scoped_env` are names of values that each child gets for itself: `NAME`, or `NAME_<suffix>` with the same suffix
    for all names. Only the values of `name_env` and `description_env` are ever shown to a model.
    """

    _rules: ClassVar[str] = "true, false or an object"
    name_env: Name | None = None
    description_env: Name | None = None
    scoped_env: tuple[Name, ...] = pydantic.Field(default=(), strict=False)

    @property
    def designated(self) -> tuple[str, ...]:
        """The names whose values are shown to models."""
        return tuple([name for name in (self.name_env, self.description_env) if name is not None])

    @property
    def related(self) -> tuple[str, ...]:
        """The names for which each child has a value, all with the same suffix."""
        return self.scoped_env or self.designated


class Resumable(_DefinitionForm):
    """A child that outlives its session (S0 §5).

    `receives_messages` is the side that receives messages. `max_instances` limits the number of concurrent children;
    None means no limit. `parent_communication`: `implicit` reports the end of each session to the parent, `explicit`
    only reports what `state.notify_parent` sends.
    """

    _rules: ClassVar[str] = "false or an object"
    receives_messages: Side = "side_a"
    max_instances: Annotated[int, pydantic.Field(ge=1)] | None = None
    parent_communication: Literal["implicit", "explicit"] = "implicit"


class SubagentToolConfig(_DefinitionForm):
    """An agent as a tool, which runs in a child thread (S0 §5).

    With `blocking` the caller waits until the child has finished. Otherwise the caller continues, and the child's
    completion arrives in its inbox. The `init_…` properties name the arguments for its first message, its files and its
    name. `immediate` runs it before the first model step of the prompt; `optional` names a flag in the env: the tool is
    offered if the flag is `true`, `1` or `yes`. Without `resumable` it is a direct call, which can have
    `requires_approval`. `tenvs` are the child's tenvs, `pass_tenvs` names tenvs of the caller to pass; the child
    inherits none. `deps` gives the child deps of its own type: True passes the caller's deps unchanged, and
    `{"order": "id"}` takes the field `order` from the field `id` of the caller's (`"address.city"` from a field of a
    field). Without it the child has none.
    """

    name: Name
    blocking: bool = True
    init_user_message_property: Name | None = None
    init_attachments_property: Name | None = None
    init_agent_name_property: Name | None = None
    immediate: bool | Immediate = False
    optional: Name | None = None
    resumable: Literal[False] | Resumable = False
    requires_approval: Any = None  # a `Requirement`, or its JSON; parsed by `requirement`

    tenvs: dict[TenvName, pydantic.JsonValue] = pydantic.Field(
        default_factory=dict[str, pydantic.JsonValue], max_length=MAX_NAMES, repr=False
    )
    pass_tenvs: tuple[TenvName, ...] = pydantic.Field(default=(), max_length=MAX_NAMES, strict=False)
    deps: Literal[True] | dict[Name, Name] | None = None

    @pydantic.field_validator("requires_approval")
    @classmethod
    def _read_approval(cls, value: Any) -> Requirement:  # user input
        return requirement(value, cls.__name__)

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.resumable and self.requires_approval is not None:
            raise DefinitionError(
                f"The agent {self.name!r} is resumable, so a built-in tool creates it without an approval. "
                "Leave out requires_approval, or resumable."
            )
        both = next((name for name in self.pass_tenvs if name in self.tenvs), None)
        if both is not None:
            raise DefinitionError(
                f"SubagentToolConfig is invalid: {both!r} is in both tenvs and pass_tenvs; keep one of them."
            )
        return self

    def child_deps(self, deps: JSONObject | None) -> JSONObject | None:
        """Return the child's deps, given the caller's, or None if the child has none."""
        if self.deps is None or deps is None or self.deps is True:
            return deps if self.deps is True else None
        fields: JSONObject = {}
        for name, path in self.deps.items():
            value: JSON = deps
            for step in path.split("."):
                if not isinstance(value, dict) or step not in value:
                    break
                value = value[step]
            else:
                fields[name] = value
        return fields

    @property
    def always_immediate(self) -> bool:
        """Return whether it runs immediately, regardless of flags in the env."""
        return self.immediate is True and self.optional is None


class AgentTool(Value, gc=True):
    """An agent as a tool of a prompt, made by `Agent.as_tool`. It is added to the app together with the prompt.

    `agent` is a `tw.Agent`, `description` tells the model when to call it, `config` configures the call.
    """

    agent: Any  # an `Agent`, defined in a higher module
    description: str
    config: SubagentToolConfig

    @property
    def name(self) -> str:
        """The name of the agent, and of the tool."""
        return self.config.name


class PromptCall(Value):
    """Relation of a tool of the kind `prompt` to the prompt that it calls."""

    config: SubpromptConfig


class AgentCall(Value):
    """Relation of a tool of the kind `agent` to a child thread of the agent with that id, described by `about`.

    `validator` validates its arguments. It is None for an agent whose prompt requires only a message.
    """

    config: SubagentToolConfig
    agent_id: str
    about: str = ""
    validator: ArgumentValidator | None = None

    @property
    def schema(self) -> JSONObject | None:
        """The schema of its arguments, or None."""
        return None if self.validator is None else self.validator.schema


class Handoff(Value):
    """Relation of a tool of the kind `agent` to the agent that it hands the thread over to."""

    agent_id: str


class Lifecycle(Value):
    """Relation of the built-in tools for resumable agents: `create` an instance, or `message` an existing one."""

    verb: Literal["create", "message"]
    relations: tuple[AgentCall, ...]


Relation: TypeAlias = PromptCall | AgentCall | Handoff | Lifecycle | McpCall


def is_on(flag: str | None) -> bool:
    """Return whether the value of an `optional` flag is `true`, `1` or `yes`."""
    return flag is not None and flag.lower() in ("true", "1", "yes")
