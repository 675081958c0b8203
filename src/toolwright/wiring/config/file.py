"""An app that is a configuration file: its agents, people and spaces exist whenever it runs."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.catalog import Catalog
from toolwright.core.agents.config import Identity, read_agent
from toolwright.core.errors import AlreadyThere, DefinitionError, InvalidRequest, NotFound
from toolwright.core.journal.store import Store
from toolwright.core.ports import Clock, Motor
from toolwright.core.spaces.entity import Entity
from toolwright.core.spaces.space import Space
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.app import App
from toolwright.wiring.config.form import ConfigFile, SpaceEntry, faulty_file, read_config
from toolwright.wiring.memory_journal import MemoryJournal
from toolwright.wiring.settings import Settings


class ConfigApp(App):
    """An empty app whose runtimes begin with what a file says.

    What is the same already is not written again; what is in the journal but not in the file stays. A subclass, since
    whoever serves an app opens its runtime.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._config = read_config(path, {tool.name: tool for tool in self.catalog.tools})
        self.catalog = Catalog(configured=[*_agents(self._config)])

    @asynccontextmanager
    async def runtime(
        self,
        settings: Settings | None = None,
        *,
        grace: float = 10.0,
        memory: MemoryJournal | None = None,
        motor: Callable[[Store, Clock], Motor] | None = None,
    ) -> AsyncGenerator[Runtime]:
        """Run the app, with everything that the file names."""
        async with super().runtime(settings, grace=grace, memory=memory, motor=motor) as runtime:
            await apply(self._config, runtime, self._path)
            yield runtime


def _agents(config: ConfigFile) -> Iterator[Agent]:
    """The file's agents as they are declared there; one that is invalid is told of when the file is applied."""
    for entry in config.agents:
        with suppress(DefinitionError):
            yield read_agent(
                entry.config, Identity(name=entry.name, description=entry.description), {}, trusted=True
            )


async def apply(config: ConfigFile, runtime: Runtime, path: Path) -> None:
    """Bring the journal to what the file says. Raises `DefinitionError` with the path of what cannot be.

    Spaces are looked at before anything is written: a member that is nobody changes nothing.
    """
    place = ""
    try:
        for number, space in enumerate(config.spaces):
            place = f"spaces.{number}"
            await _check_space(space, config, runtime)
        for number, agent in enumerate(config.agents):
            place = f"agents.{number}"
            await runtime.agents.save(agent.name, agent.config, agent.description, trusted=True)
        for number, person in enumerate(config.entities):
            place = f"entities.{number}"
            known = await runtime.entities.named(person.external_id)
            if known is None or known.display_name != person.display_name:
                await runtime.entities.create(
                    external_id=person.external_id, display_name=person.display_name
                )
        for number, space in enumerate(config.spaces):
            place = f"spaces.{number}"
            await _space(space, runtime)
    except (InvalidRequest, NotFound, AlreadyThere, DefinitionError) as error:
        raise faulty_file(path, [{"path": f"{place}:", "message": error.message}]) from error


async def _check_space(entry: SpaceEntry, config: ConfigFile, runtime: Runtime) -> None:
    new = {*(agent.name for agent in config.agents), *(person.external_id for person in config.entities)}
    for name in entry.members:
        if name not in new:
            await _member(name, runtime)
    space = await _find_space(entry, runtime)
    if space is not None and space.kind != entry.kind:
        raise DefinitionError(f"The space {space.id!r} is {space.kind}, which cannot become {entry.kind}.")


async def _space(entry: SpaceEntry, runtime: Runtime) -> None:
    members = [await _member(name, runtime) for name in entry.members]
    space = await _find_space(entry, runtime)
    if space is None:
        ids = [member.id for member in members]
        await runtime.spaces.create(
            entry.name, entry.kind, id=entry.key, members=ids, delivery=entry.delivery
        )
        return
    if (space.name, space.delivery) != (entry.name, entry.delivery):
        await runtime.spaces.update(space.id, name=entry.name, delivery=entry.delivery)
    for member in members:
        if not await runtime.spaces.is_member(space.id, member.id):
            await runtime.spaces.add_member(space.id, member.id)


async def _find_space(entry: SpaceEntry, runtime: Runtime) -> Space | None:
    try:
        return await runtime.spaces.get(entry.key)
    except NotFound:
        return None


async def _member(name: str, runtime: Runtime) -> Entity:
    """The person whom tokens call so, else the agent of that name."""
    return await runtime.entities.named(name) or await runtime.entities.find(name)
