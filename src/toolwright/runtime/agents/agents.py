"""Agents: declared by the app, or configured as JSON at run time, with stored values that may be encrypted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Agent, agent_id_of, entity_id_of, home_thread_id_of
from toolwright.core.agents.catalog import RESERVED, Catalog
from toolwright.core.agents.config import ConfiguredAgent, Identity, invalid_value, length_errors, read_agent
from toolwright.core.agents.prompt import Prompt
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import EnvChange, EnvTypes, EnvVar
from toolwright.core.errors import (
    AlreadyExists,
    DefinitionError,
    Forbidden,
    InvalidConfiguration,
    InvalidRequest,
    NotFound,
    ToolwrightError,
)
from toolwright.core.journal.agent_effects import DropMind
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Committed, Conflict, DropAgent, SaveAgent
from toolwright.core.json_value import (
    JSON,
    NOT_ONE_LINE,
    NOT_WRITABLE,
    JSONObject,
    dumps,
    one_line,
    plain,
    unwritable,
)
from toolwright.core.limits import MAX_DESCRIPTION, MAX_NAME, Page, ended_early
from toolwright.core.model import EXAMPLE_MODEL
from toolwright.core.ports import Clock, Models, NewId
from toolwright.core.spaces import Entity
from toolwright.core.text import brief
from toolwright.core.tools.openapi import OperationFault, ReadApi, api_entries, with_apis
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.runtime.carried import Carried
from toolwright.runtime.env import Environment, tenv_vars
from toolwright.runtime.journal import page, sweep_after
from toolwright.wire.space import member_removed_event

# the parts of a configuration that are separate rows, encrypted if they are secrets
VALUES = ("env", "tenvs")
COMMON_PROVIDERS = ("openai", "openai-chat", "openai-responses", "anthropic", "google", "test")
"""Providers that are known to exist. Others require importing their library, which takes a second."""
MAX_CACHED_REVISIONS = 1_000  # revisions of configured agents that are cached as active agents


def check_name(name: object) -> None:
    check_text("name", name)
    if not str(name).strip():
        raise InvalidRequest("name is empty.", [{"path": "name", "message": "is empty"}])
    if len(str(name)) > MAX_NAME:
        error = f"must have at most {MAX_NAME} characters"
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
        raise InvalidRequest(f"{path} {NOT_WRITABLE}.", [{"path": path, "message": NOT_WRITABLE}])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAgent:
    """An agent, whether it is new, and the operations of its OpenAPI documents that cannot be tools."""

    agent: Agent
    created: bool
    faults: Sequence[OperationFault] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """An agent and its configuration without values. The configuration of a declared agent is None."""

    agent: Agent
    config: JSONObject | None = None


class Agents(Carried):
    """Agents by name or id. Raises `NotFound` for unknown names."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        environment: Environment,
        models: Models,
        clock: Clock,
        new_id: NewId,
        read_api: ReadApi | None = None,
    ) -> None:
        self._models = models
        self._read_api = read_api
        self._store = store
        self.catalog = catalog
        self._environment = environment
        self._clock = clock
        self._new_id = new_id
        self._ready: dict[tuple[str, int], ActiveAgent] = {}

    @property
    def declared(self) -> Sequence[Agent]:
        """The agents that the app declares, in their order."""
        return self.catalog.agents

    async def get(self, name_or_id: str) -> Agent:
        """Return the current agent, without tools and values if its configuration no longer fits the app."""
        return (await self.show(name_or_id)).agent

    async def show(self, name_or_id: str) -> AgentView:
        """Return the agent of that name or id, with its configuration."""
        agent = await self._find(name_or_id)
        if isinstance(agent, ConfiguredAgent):
            return await self._view(agent)
        # raises, with a hint
        return AgentView(agent=self.catalog.agent(name_or_id) if agent is None else agent)

    async def id_of(self, name_or_id: str) -> str:
        """Return the agent's id. The id of a deleted agent is returned unchanged, because it can still have runs."""
        try:
            return (await self.get(name_or_id)).id
        except NotFound:
            return name_or_id

    async def list(self, limit: int = 50, offset: int = 0) -> Sequence[Agent]:
        """Return the declared agents in their order, then the configured agents, the oldest first."""
        rows = await self.show_all(limit, offset)
        return Page([each.agent for each in rows], more=rows.more)

    async def show_all(self, limit: int = 50, offset: int = 0) -> Page[AgentView]:
        """Return a page of all agents, with their configurations."""
        page(limit, offset)
        declared = [AgentView(agent=agent) for agent in self.declared[offset : offset + limit]]
        remaining = type(limit)(limit - len(declared))
        if not remaining:
            return Page(declared)
        rows = await self._store.agents.agents(limit=remaining, offset=max(0, offset - len(self.declared)))
        views = [*declared, *[await self._view(row) for row in rows]]
        return Page(views, more=ended_early(rows))

    async def of_entity(self, entity_id: str) -> Agent | None:
        """Return the agent of the entity, or None."""
        try:
            return await self.get(agent_id_of(entity_id))
        except NotFound:
            return None

    async def active(self, name_or_id: str) -> ActiveAgent:
        """Return the current agent, ready to run. Raises `InvalidConfiguration` if it no longer fits the app."""
        agent = await self.get(name_or_id)
        active = await self.find(agent.id)
        assert active is not None, "it was found a moment ago"
        return active

    async def find(self, agent_id: str, revision: int | None = None) -> ActiveAgent | None:
        """Return the active agent by its id, in the revision if one is given, or None if there is no such agent."""
        declared = self.catalog.find(agent_id)
        if declared is not None:
            return declared
        active = self._ready.get((agent_id, revision)) if revision is not None else None
        if active is not None:
            return active
        row = await self._store.agents.agent(agent_id, revision)
        return None if row is None else await self._activate(row)

    async def usable(self, agent_id: str, revision: int | None = None) -> ActiveAgent | None:
        """Return the active agent by its id. None also if its configuration no longer fits the app."""
        try:
            return await self.find(agent_id, revision)
        except (InvalidRequest, DefinitionError):
            return None

    async def missing_home_tenvs(self, agent_id: str) -> MissingTenvs:
        """Return the tenvs that are missing for a home thread of the agent; none if it has one already (D4)."""
        agent = await self.usable(agent_id)
        missing_tenvs = MissingTenvs() if agent is None else agent.missing_home_tenvs
        return (
            missing_tenvs
            if missing_tenvs and await self._store.thread(home_thread_id_of(agent_id)) is None
            else MissingTenvs()
        )

    async def exists(self, agent_id: str) -> bool:
        """Return whether the agent exists, whether it can run or not."""
        return self.catalog.find(agent_id) is not None or await self._store.agents.agent(agent_id) is not None

    async def save(
        self, name: str, config: JSON, description: str = "", *, trusted: bool = False
    ) -> SavedAgent:
        """Create or replace a configured agent. A run in progress keeps the revision it started with.

        A run whose model fails uses the new revision. An unchanged configuration is not written. `trusted` is for
        configurations written by the operator. Raises `InvalidConfiguration` with every invalid path, `AlreadyExists`
        for the name of an agent that the app declares, `CannotSeal` for a secret if no keys are configured.
        """
        check_name(name)
        check_description(description)
        config, errors = await self.read_apis(config, trusted=trusted)
        await in_thread_if_large(config, check_lengths, config)
        while True:  # retry if the agent was saved or deleted between the read and the commit
            was = await self._store.agents.named(name)
            saved = await self._save(name, description, config, was, trusted=trusted)
            if saved is not None:
                return SavedAgent(agent=saved, created=was is None, faults=errors)

    async def read_apis(
        self, config: JSON, *, trusted: bool = False
    ) -> tuple[JSON, Sequence[OperationFault]]:
        """Return the configuration with its OpenAPI documents replaced by their tools, and the documents' errors.

        A saved agent keeps these tools until it is configured again. Raises `InvalidConfiguration`.
        """
        read = self._read_api
        if read is None or not api_entries(config):
            return config, ()
        try:
            return await with_apis(config, lambda entry: read(entry, trusted))
        except InvalidConfiguration as error:
            raise invalid_value([within_config(fault) for fault in error.details]) from error

    async def update(
        self,
        name_or_id: str,
        *,
        name: str | None = None,
        config: JSON = None,
        description: str | None = None,
        trusted: bool = False,
    ) -> Agent:
        """Change the given fields of a configured agent. Raises `Forbidden` for an agent that the app declares."""
        if name is not None:
            check_name(name)
        if description is not None:
            check_description(description)
        config, _ = await self.read_apis(config, trusted=trusted)
        await in_thread_if_large(config, check_lengths, config)
        while True:  # retry if the agent was saved between the read and the commit
            was = await self._configured(name_or_id)
            saved = await self._save(
                was.name if name is None else name,
                was.description if description is None else description,
                await self._full_config(was) if config is None else config,
                was,
                trusted=was.config.get("trusted") is True if config is None else trusted,
            )
            if saved is not None:
                return saved

    async def delete(self, name_or_id: str) -> None:
        """Delete a configured agent. It leaves its spaces, and no new run of it starts."""
        while True:  # retry if a space has changed in the meantime
            was = await self._configured(name_or_id)
            while keepers := await self._store.agents.keepers_of_agent(was.id):
                await drop_minds(self._store, keepers, self._clock, self._new_id)
            entity_id = entity_id_of(was.id)
            unit = DropAgent(
                token=self._new_id("unit"),
                at=self._clock.now(),
                agent_id=was.id,
                entity_id=entity_id,
                author=Entity(id=entity_id, type="agent", display_name=was.name, metadata={}),
                told=(member_removed_event(entity_id),),
            )
            if not isinstance(await self._store.commit(unit), Conflict):
                return await sweep_after(f"The agent {name_or_id!r}", self._store, self._clock, self._new_id)

    def _declared(self, name: str) -> Agent | None:
        return next((one for one in self.declared if one.name == name), None)

    async def _find(self, name_or_id: str) -> Agent | ConfiguredAgent | None:
        """Return the agent with that id or name; reserved agents are never returned."""
        if not isinstance(name_or_id, str) or unwritable(name_or_id) or name_or_id in RESERVED:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            return None
        agent = await self._with_id(name_or_id) if name_or_id.startswith("agt_") else None
        return agent or self._declared(name_or_id) or await self._store.agents.named(name_or_id)

    async def _with_id(self, agent_id: str) -> Agent | ConfiguredAgent | None:
        declared = self.catalog.find(agent_id)
        return await self._store.agents.agent(agent_id) if declared is None else declared.agent

    async def _configured(self, name_or_id: str) -> ConfiguredAgent:
        agent = await self._find(name_or_id)
        if agent is None:
            raise NotFound(f"There is no agent {name_or_id!r}.")
        if isinstance(agent, Agent):
            raise Forbidden(f"The agent {agent.name!r} is declared in the code of the app. Change it there.")
        return agent

    async def _save(
        self, name: str, description: str, config: JSON, was: ConfiguredAgent | None, *, trusted: bool
    ) -> Agent | None:
        """Save the agent and return it, or None if it was changed in the meantime."""
        if self._declared(name) is not None:
            raise AlreadyExists(f"The app declares an agent {name!r} already. Choose another name.")
        other = await self._with_id(name)
        if other is not None and (was is None or other.id != was.id):
            raise AlreadyExists(f"The name {name!r} is the id of another agent. Choose another name.")
        plain_config = await in_thread_if_large(config, read_object, config)
        if was is not None and (
            same := await self._same(was, name, description, plain_config, trusted=trusted)
        ):
            return same
        now = self._clock.now()
        agent_id = self._new_id("agt") if was is None else was.id
        revision = 1 if was is None else was.revision + 1
        row = ConfiguredAgent(
            id=agent_id,
            name=name,
            description=description,
            config=without_values(plain_config) | {"trusted": trusted},
            revision=revision,
            created_at=now if was is None else was.created_at,
            updated_at=now,
        )
        agent = await in_thread_if_large(plain_config, self._checked, row, plain_config)
        await self._check_model(agent)
        values = await in_thread_if_large(plain_config, self._values, row, agent)
        unit = SaveAgent(
            token=self._new_id("unit"),
            at=now,
            agent=row,
            was=None if was is None else was.revision,
            env=values,
        )
        answer = await self._store.commit(unit)
        if isinstance(answer, Committed):
            return agent
        if answer.guard == "duplicate" and was is not None:
            raise AlreadyExists(f"There is another agent {name!r}. Choose another name.")
        return None

    async def _same(
        self, was: ConfiguredAgent, name: str, description: str, config: JSONObject, *, trusted: bool
    ) -> Agent | None:
        """Return the stored agent if it already has the requested configuration."""
        if (was.name, was.description) != (name, description):
            return None
        if without_values(config) | {"trusted": trusted} != was.config:
            return None
        stored = await self.usable(was.id, was.revision)
        agent = await in_thread_if_large(config, self._checked, was, config)
        if stored is None or values_of(stored.agent, stored.types) != values_of(agent, stored.types):
            return None
        return stored.agent

    def _checked(self, row: ConfiguredAgent, config: JSONObject) -> Agent:
        """Return the agent of a new configuration. Raises `InvalidConfiguration` before anything is stored."""
        try:
            agent = self._read(row, config)
            active = self.catalog.activate(agent)
        except InvalidConfiguration as error:
            raise invalid_value([within_config(fault) for fault in error.details]) from error
        except DefinitionError as error:
            raise InvalidConfiguration(
                error.message, [{"path": "config", "message": error.message}]
            ) from error
        if agent.toolkits and (missing := active.missing_home_tenvs):
            message = f"are not what its tools need in its home thread: {missing}"
            raise invalid_value([{"path": "config.tenvs", "message": message}])
        return agent

    async def _check_model(self, agent: Agent) -> None:
        """Reject model names that no provider has, and invalid scripts: of the agent, and of the model for summaries.

        Other requirements, such as a key or a library, can be added later.
        """
        active = self.catalog.activate(agent)
        models: dict[str, object] = {"config.model": active.model}
        policy = active.prompt.context or agent.context
        if policy is not None:
            models["config.context.summarizeWith"] = policy.summarize_with
        for path, model in models.items():
            if isinstance(model, str):
                await self._check_model_name(model, path)

    async def _check_model_name(self, model: str, path: str) -> None:
        provider, _, name = model.partition(":")
        if not one_line(model) or model != model.strip() or (":" in model and not name.strip()):
            fault = (
                f"must be a model as provider:model, such as {EXAMPLE_MODEL}, not {brief(repr(model), 100)}"
            )
            raise invalid_value([{"path": path, "message": fault}])
        if provider in COMMON_PROVIDERS and name:
            return
        try:
            await self._models(model)
        except DefinitionError as error:
            raise invalid_value(
                [{"path": path, "message": f"cannot be used: {error.message.rstrip('.')}"}]
            ) from error
        except ToolwrightError:  # a missing key or library can be added later
            return

    async def _view(self, row: ConfiguredAgent) -> AgentView:
        config: JSONObject = {name: part for name, part in row.config.items() if name != "trusted"}
        try:
            return AgentView(agent=(await self._activate(row)).agent, config=config)
        except (InvalidRequest, DefinitionError):
            return AgentView(agent=bare_agent(row), config=config)

    def _read(self, row: ConfiguredAgent, config: JSONObject) -> Agent:
        tools = {tool.name: tool for tool in self.catalog.tools}
        return read_agent(config, identity_of(row), tools, trusted=row.config.get("trusted") is True)

    def _values(self, row: ConfiguredAgent, agent: Agent) -> tuple[EnvChange, ...]:
        """Return the rows of the configuration's values, owned by the revision or by a tool's position in it."""
        change, at = self._environment.change, row.updated_at
        active = self.catalog.activate(agent)
        types = active.types
        changes = [change(row.owner, name, var, at) for name, var in types.stored(agent.env).items()]
        tenvs = tenv_vars(read_object(plain(agent.tenvs)), active.secret_tenvs)
        changes += [self._environment.tenv(row.owner, name, var, at) for name, var in tenvs.items()]
        for place, entry in with_env(row.config):
            tool_values = agent.tool_env.get(str(entry.get("name")), {})
            values = types.stored(tool_values).items()
            changes += [change(f"{row.owner}.{place}", name, var, at) for name, var in values]
        return tuple(changes)

    async def _full_config(self, row: ConfiguredAgent) -> JSONObject:
        """Return the configuration including its values."""
        config = {name: part for name, part in row.config.items() if name != "trusted"}
        env, tenvs = self._environment.values(await self._store.env_of(row.owner))
        config |= {"env": env_json(env), "tenvs": tenvs}
        tools = config.get("tools")
        if isinstance(tools, list):
            entries: list[JSON] = [*tools]
            for place, entry in with_env(row.config):
                own, _ = self._environment.values(await self._store.env_of(f"{row.owner}.{place}"))
                entries[place] = {**entry, "env": env_json(own)}
            config["tools"] = entries
        return config

    async def _activate(self, row: ConfiguredAgent) -> ActiveAgent:
        ready = self._ready.get((row.id, row.revision))
        if ready is not None:
            return ready
        config = await self._full_config(row)
        active = await in_thread_if_large(config, lambda: self.catalog.activate(self._read(row, config)))
        if len(self._ready) >= MAX_CACHED_REVISIONS:
            del self._ready[next(iter(self._ready))]
        self._ready[row.id, row.revision] = active
        return active
