"""Stored configurations of agents: the structure in one row, the values in separate rows, encrypted if secret."""

from collections.abc import Mapping, Sequence

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.config import ConfiguredAgent, Identity, invalid_value, length_errors
from toolwright.core.agents.prompt import Prompt
from toolwright.core.env.env import EnvTypes, EnvVar
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.effects import DropMind
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply
from toolwright.core.json_value import JSON, NOT_ONE_LINE, JSONObject, dumps, one_line, plain, unwritable
from toolwright.core.limits import MAX_DESCRIPTION
from toolwright.core.ports import Clock, NewId

LONGEST_NAME = 200  # characters
# the parts of a configuration that are separate rows, encrypted if they are secrets
VALUES = ("env", "tenvs")


def check_name(name: object) -> None:
    check_text("name", name)
    if not str(name).strip():
        raise InvalidRequest("name is empty.", [{"path": "name", "message": "is empty"}])
    if len(str(name)) > LONGEST_NAME:
        error = f"must have at most {LONGEST_NAME} characters"
        raise InvalidRequest(f"name {error}.", [{"path": "name", "message": error}])
    if not one_line(str(name)):
        raise InvalidRequest(f"name {NOT_ONE_LINE}.", [{"path": "name", "message": NOT_ONE_LINE}])


def check_description(text: object) -> None:
    check_text("description", text)
    if len(str(text)) > MAX_DESCRIPTION:
        error = f"must have at most {MAX_DESCRIPTION} characters"
        raise InvalidRequest(f"description {error}.", [{"path": "description", "message": error}])


def check_lengths(config: JSON) -> None:
    """Raise `InvalidConfiguration` if a text of the configuration is too long."""
    errors = length_errors(config)
    if errors:
        raise invalid_value([within_config(error) for error in errors])


def check_text(path: str, text: object) -> None:
    if not isinstance(text, str) or unwritable(text):
        error = "must be text without NUL and lone surrogates"
        raise InvalidRequest(f"{path} {error}.", [{"path": path, "message": error}])


def read_object(config: JSON) -> JSONObject:
    copy = plain(config)
    if not isinstance(copy, dict):
        raise InvalidRequest(
            "config must be an object.", [{"path": "config", "message": "must be an object"}]
        )
    dumps(copy)
    return copy


def without_values(config: JSONObject) -> JSONObject:
    """Return the configuration without its values, as stored in plain text."""
    structure = {name: part for name, part in config.items() if name not in VALUES}
    tools = structure.get("tools")
    if isinstance(tools, list):
        structure["tools"] = [
            entry | {"env": {}} if isinstance(entry, dict) and "env" in entry else entry for entry in tools
        ]
    return structure


def with_env(config: JSONObject) -> list[tuple[int, JSONObject]]:
    """Return the entries of `tools` that have values of their own, with their positions."""
    tools = config.get("tools")
    entries = tools if isinstance(tools, list) else []
    return [(n, entry) for n, entry in enumerate(entries) if isinstance(entry, dict) and "env" in entry]


def env_json(values: Mapping[str, EnvVar]) -> JSONObject:
    return {name: {"value": var.value, "type": var.type} for name, var in values.items()}


async def drop_minds(store: Store, keepers: Sequence[str], clock: Clock, new_id: NewId) -> None:
    """Delete everything that is stored under these owner ids, in one transaction for each."""
    for each in keepers:
        effects = (DropMind(agent_id=each),)
        await store.commit(Apply(token=new_id("unit"), at=clock.now(), effects=effects))


def bare_agent(row: ConfiguredAgent) -> Agent:
    """Return a placeholder for a configuration that no longer fits the app; no threads can be opened with it."""
    identity = identity_of(row)
    return Agent(
        row.name,
        Prompt(row.name),
        description=row.description,
        key=identity.key,
        revision=identity.revision,
        open_to="nobody",
    )


def identity_of(row: ConfiguredAgent) -> Identity:
    """Return the identity of the configured agent in the row."""
    key = row.id.removeprefix("agt_")
    return Identity(name=row.name, description=row.description, key=key, revision=row.revision)


def values_of(agent: Agent, types: EnvTypes) -> tuple[dict[str, EnvVar], JSON, dict[str, dict[str, EnvVar]]]:
    """Return all values of an agent's configuration; plain text gets the given types."""
    tools = {name: types.stored(own) for name, own in agent.tool_env.items()}
    return types.stored(agent.env), plain(agent.tenvs), tools


def within_config(error: dict[str, str]) -> dict[str, str]:
    """Return an error of a configuration, with its path in the request."""
    path = f"config.{error['path']}" if error["path"] else "config"
    return {"path": path, "message": error["message"]}
