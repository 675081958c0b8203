"""Agents that run as soon as a prompt is active (S0 §5): which ones, and what each is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolwright.core.env.env import EnvVar
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.message import Message
from toolwright.core.tools.relations import AgentCall, Immediate, SubagentToolConfig
from toolwright.runtime.env.env import ThreadEnv

MOST_GROUPS = 100  # children of one relationship


@dataclass(frozen=True, slots=True)
class Group:
    """One child to be: its name and first message, if values give them, and the values that it gets for itself."""

    name: str | None = None
    message: str | None = None
    values: Mapping[str, EnvVar] | None = None


def groups(config: SubagentToolConfig, env: ThreadEnv) -> list[Group]:
    """One for each suffix that all names have; a single one where no values are related.

    Raises `InvalidRequest` where a value that a model would be shown is a secret.
    """
    immediate = config.immediate
    if not isinstance(immediate, Immediate):
        return [Group()]
    related = immediate.scoped_env or tuple(
        [n for n in (immediate.name_env, immediate.description_env) if n is not None]
    )
    if not related:
        return [Group()]
    children = [_group(immediate, suffix, env) for suffix in sorted(_suffixes(related, env))]
    if len(children) > MOST_GROUPS:
        raise InvalidRequest(f"At most {MOST_GROUPS} children run at once, not {len(children)}.")
    return children


def immediate_arguments(
    relation: AgentCall, group: Group, messages: Sequence[Message], arguments: Mapping[str, JSON] | None
) -> JSONObject:
    """The arguments of the call: the first message is the group's, the thread's argument, or what was said last.

    An agent with a schema of its own gets those of the thread's arguments that the schema has.
    """
    config, own = relation.config, _own_arguments(relation.schema, arguments)
    property_ = config.init_user_message_property
    message: JSON = group.message
    if message is None and property_ is not None and arguments is not None:
        message = arguments.get(property_)
    if message in (None, ""):
        message = next((m.content for m in reversed(messages) if m.role == "user" and m.content), config.name)
    name = group.name or (config.name if config.resumable else None)
    if config.resumable:
        inner = own if own is None or property_ is None else {**own, property_: message}
        return {"message": message, "name": name, **({} if inner is None else {"arguments": inner})}
    spoken = property_ or ("message" if own is None else None)
    made: JSONObject = {**(own or {}), **({} if spoken is None else {spoken: message})}
    named = config.init_agent_name_property or ("name" if own is None else None)
    return made if name is None or named is None else {**made, named: name}


def _own_arguments(schema: JSONObject | None, arguments: Mapping[str, JSON] | None) -> JSONObject | None:
    """Arguments of the thread that an agent takes; None for one without a schema."""
    if schema is None:
        return None
    properties = schema.get("properties")
    names = properties if isinstance(properties, dict) else {}
    return {name: value for name, value in (arguments or {}).items() if name in names}


def _suffixes(names: Sequence[str], env: ThreadEnv) -> set[str]:
    """Suffixes that make of all these names ones that have a value: nothing, or `_` and more."""
    set_names = env.names()
    suffixes = [
        {n[len(name) :] for n in set_names if n == name or n.startswith(f"{name}_")} for name in names
    ]
    return set[str].intersection(*suffixes) - {"_"}


def _group(immediate: Immediate, suffix: str, env: ThreadEnv) -> Group:
    name, description = (
        _text_value(immediate.name_env, suffix, env),
        _text_value(immediate.description_env, suffix, env),
    )
    values = {each: env.get(each + suffix) for each in immediate.scoped_env}
    return Group(name, description, {each: value for each, value in values.items() if value is not None})


def _text_value(name: str | None, suffix: str, env: ThreadEnv) -> str | None:
    value = None if name is None else env.get(name + suffix)
    if value is not None and value.type == "secret":
        raise InvalidRequest(f"{name}{suffix} is shown to models: store it as text, not as a secret.")
    return value.value if value is not None and value.value.strip() else None
