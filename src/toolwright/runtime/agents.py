"""Agents: those that the app declares, and those that were configured as JSON while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolwright.core.agent import Agent, agent_id_of
from toolwright.core.agent_config import Identity, read_agent
from toolwright.core.catalog import ActiveAgent, Catalog
from toolwright.core.configured import ConfiguredAgent
from toolwright.core.env import EnvChange, EnvVar, read_env, stored_only
from toolwright.core.errors import AlreadyThere, Forbidden, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.plain import plain, unwritable
from toolwright.core.ports import Clock, NewId, Store
from toolwright.core.units import Committed, Conflict, DropAgent, SaveAgent
from toolwright.runtime.asked import page
from toolwright.runtime.env import Environment, tenv_vars

LONGEST_NAME = 200  # characters
REMEMBERED = 1_000  # revisions of configured agents that are kept ready to run
VALUES = (
    "env",
    "tenvs",
)  # the parts of a configuration that are rows of their own, sealed where they are secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """An agent, and whether it is a new one."""

    agent: Agent
    created: bool


class Agents:
    """Agents by name or id. Names that lead nowhere raise `NotFound`."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        environment: Environment,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._environment = environment
        self._clock = clock
        self._new_id = new_id
        self._ready: dict[tuple[str, int], ActiveAgent] = {}

    @property
    def declared(self) -> Sequence[Agent]:
        """Those that the app declares, in their order."""
        return self._catalog.agents

    async def get(self, name_or_id: str) -> Agent:
        """The agent as it is now."""
        found = self._declared(name_or_id)
        if found is None:
            row = await self._row(name_or_id)
            if row is None:
                return self._catalog.agent(name_or_id)  # raises, with a hint
            found = (await self._activate(row)).agent
        return found

    async def id_of(self, name_or_id: str) -> str:
        """The agent's id; that of one which is gone is taken as it is, since it may still have runs."""
        try:
            return (await self.get(name_or_id)).id
        except NotFound:
            return name_or_id

    async def list(self, limit: int = 50, offset: int = 0) -> Sequence[Agent]:
        """The declared ones in their order, then the configured ones, the oldest first."""
        page(limit, offset)
        declared = self.declared[offset : offset + limit]
        rest = limit - len(declared)
        if not rest:
            return declared
        rows = await self._store.agents.agents(limit=rest, offset=max(0, offset - len(self.declared)))
        return [*declared, *[(await self._activate(row)).agent for row in rows]]

    async def of_entity(self, entity_id: str) -> Agent | None:
        """The agent that is this entity."""
        try:
            return await self.get(agent_id_of(entity_id))
        except NotFound:
            return None

    async def active(self, name_or_id: str) -> ActiveAgent:
        """The agent ready to run, as it is now."""
        agent = await self.get(name_or_id)
        found = await self.find(agent.id)
        assert found is not None, "it was found a moment ago"
        return found

    async def find(self, agent_id: str, revision: int | None = None) -> ActiveAgent | None:
        """The same by its id, in that revision if one is given; None if there is no such agent."""
        declared = self._catalog.find(agent_id)
        if declared is not None:
            return declared
        known = self._ready.get((agent_id, revision)) if revision is not None else None
        if known is not None:
            return known
        row = await self._store.agents.agent(agent_id, revision)
        return None if row is None else await self._activate(row)

    async def save(self, name: str, config: JSON, description: str = "", *, trusted: bool = False) -> Saved:
        """Configure an agent, or the one of that name anew; a run at work keeps what it began with.

        `trusted` is for what the operator wrote. Raises `InvalidConfiguration` with every faulty path, `AlreadyThere`
        for the name of an agent that the app declares, `CannotSeal` for a secret where there are no keys.
        """
        _check_name(name)
        _check_text("description", description)
        while True:
            was = await self._store.agents.named(name)
            saved = await self._save(name, description, config, was, trusted=trusted)
            if saved is not None:
                return Saved(agent=saved, created=was is None)

    async def update(
        self,
        name_or_id: str,
        *,
        name: str | None = None,
        config: JSON = None,
        description: str | None = None,
        trusted: bool = False,
    ) -> Agent:
        """Change what is given of a configured agent; `Forbidden` for one that the app declares."""
        if name is not None:
            _check_name(name)
        if description is not None:
            _check_text("description", description)
        while True:
            was = await self._configured(name_or_id)
            kept = await self._whole(was) if config is None else config
            saved = await self._save(
                was.name if name is None else name,
                was.description if description is None else description,
                kept,
                was,
                trusted=trusted,
            )
            if saved is not None:
                return saved

    async def delete(self, name_or_id: str) -> None:
        """Delete a configured agent: it leaves its spaces, and no new run of it begins."""
        was = await self._configured(name_or_id)
        agent = (await self._activate(was)).agent
        unit = DropAgent(
            token=self._new_id("unit"), at=self._clock.now(), agent_id=was.id, entity_id=agent.entity_id
        )
        if isinstance(await self._store.commit(unit), Conflict):
            raise NotFound(f"There is no agent {name_or_id!r}.")

    async def config(self, name_or_id: str) -> JSONObject | None:
        """The configuration without its values; None for an agent that the app declares."""
        if self._declared(name_or_id) is not None:
            return None
        return (await self._configured(name_or_id)).config

    def _declared(self, name_or_id: str) -> Agent | None:
        return next((one for one in self.declared if name_or_id in (one.name, one.id)), None)

    async def _row(self, name_or_id: str) -> ConfiguredAgent | None:
        if not isinstance(name_or_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            return None
        if unwritable(name_or_id):
            return None
        named = await self._store.agents.named(name_or_id)
        return named or await self._store.agents.agent(name_or_id)

    async def _configured(self, name_or_id: str) -> ConfiguredAgent:
        declared = self._declared(name_or_id)
        if declared is not None:
            raise Forbidden(f"The app declares the agent {declared.name!r}: change it there.")
        row = await self._row(name_or_id)
        if row is None:
            raise NotFound(f"There is no agent {name_or_id!r}.")
        return row

    async def _save(
        self, name: str, description: str, config: JSON, was: ConfiguredAgent | None, *, trusted: bool
    ) -> Agent | None:
        """The agent as it is then; None if somebody else was faster."""
        if self._declared(name) is not None:
            raise AlreadyThere(f"The app declares an agent {name!r}: give this one another name.")
        whole = _object(config)
        now = self._clock.now()
        agent_id = self._new_id("agt") if was is None else was.id
        revision = 1 if was is None else was.revision + 1
        row = ConfiguredAgent(
            id=agent_id,
            name=name,
            description=description,
            config=_without_values(whole) | {"trusted": trusted},
            revision=revision,
            created_at=now if was is None else was.created_at,
            updated_at=now,
        )
        agent = self._read(row, whole)
        self._catalog.activate(agent)  # what is wrong with it is found before it is kept
        unit = SaveAgent(
            token=self._new_id("unit"),
            at=now,
            agent=row,
            was=None if was is None else was.revision,
            env=self._values(row, agent),
        )
        answer = await self._store.commit(unit)
        if isinstance(answer, Committed):
            return agent
        if answer.guard == "duplicate" and was is not None:
            raise AlreadyThere(f"There is another agent {name!r}.")
        return None

    def _read(self, row: ConfiguredAgent, whole: JSONObject) -> Agent:
        who = Identity(
            name=row.name,
            description=row.description,
            key=row.id.removeprefix("agt_"),
            revision=row.revision,
        )
        tools = {tool.name: tool for tool in self._catalog.tools}
        return read_agent(whole, who, tools, trusted=row.config.get("trusted") is True)

    def _values(self, row: ConfiguredAgent, agent: Agent) -> tuple[EnvChange, ...]:
        """The rows of its values: env and tenvs under the revision, those of single tools under their place in it."""
        change, at = self._environment.change, row.updated_at
        changes = [change(row.owner, name, var, at) for name, var in stored_only(read_env(agent.env)).items()]
        secret = self._catalog.activate(agent).secret_tenvs
        tenvs = tenv_vars(_object(plain(agent.tenvs)), secret)
        changes += [self._environment.tenv(row.owner, name, var, at) for name, var in tenvs.items()]
        for place, entry in _with_env(row.config):
            own = agent.tool_env.get(str(entry.get("name")), {})
            values = stored_only(read_env(own)).items()
            changes += [change(f"{row.owner}.{place}", name, var, at) for name, var in values]
        return tuple(changes)

    async def _whole(self, row: ConfiguredAgent) -> JSONObject:
        """The configuration with its values again."""
        whole = {name: part for name, part in row.config.items() if name != "trusted"}
        env, tenvs = self._environment.values(await self._store.env_of(row.owner))
        whole |= {"env": _env_json(env), "tenvs": tenvs}
        tools = whole.get("tools")
        if isinstance(tools, list):
            entries: list[JSON] = [*tools]
            for place, entry in _with_env(row.config):
                own, _ = self._environment.values(await self._store.env_of(f"{row.owner}.{place}"))
                entries[place] = {**entry, "env": _env_json(own)}
            whole["tools"] = entries
        return whole

    async def _activate(self, row: ConfiguredAgent) -> ActiveAgent:
        known = self._ready.get((row.id, row.revision))
        if known is not None:
            return known
        agent = self._read(row, await self._whole(row))
        active = self._catalog.activate(agent)
        if len(self._ready) >= REMEMBERED:
            del self._ready[next(iter(self._ready))]
        self._ready[row.id, row.revision] = active
        return active


def _check_name(name: object) -> None:
    _check_text("name", name)
    if not str(name).strip():
        raise InvalidRequest("name is empty.", [{"path": "name", "message": "is empty"}])
    if len(str(name)) > LONGEST_NAME:
        fault = f"must have at most {LONGEST_NAME} characters"
        raise InvalidRequest(f"name {fault}.", [{"path": "name", "message": fault}])


def _check_text(path: str, text: object) -> None:
    if not isinstance(text, str) or unwritable(text):
        fault = "must be text without NUL and lone surrogates"
        raise InvalidRequest(f"{path} {fault}.", [{"path": path, "message": fault}])


def _object(config: JSON) -> JSONObject:
    given = plain(config)
    if not isinstance(given, dict):
        raise InvalidRequest(
            "config must be an object.", [{"path": "config", "message": "must be an object"}]
        )
    dumps(given)
    return given


def _without_values(config: JSONObject) -> JSONObject:
    """The configuration as it is kept in the open."""
    kept = {name: part for name, part in config.items() if name not in VALUES}
    tools = kept.get("tools")
    if isinstance(tools, list):
        kept["tools"] = [
            entry | {"env": {}} if isinstance(entry, dict) and "env" in entry else entry for entry in tools
        ]
    return kept


def _with_env(config: JSONObject) -> list[tuple[int, JSONObject]]:
    """The entries of `tools` that bring values of their own, with their places."""
    tools = config.get("tools")
    entries = tools if isinstance(tools, list) else []
    return [(n, entry) for n, entry in enumerate(entries) if isinstance(entry, dict) and "env" in entry]


def _env_json(values: Mapping[str, EnvVar]) -> JSONObject:
    return {name: {"value": var.value, "type": var.type} for name, var in values.items()}
