"""Apps as named in a command: `module:app`, or a configuration file of agents, people and spaces as JSON (API §2)."""

import hashlib
import json
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, NoReturn, cast

from pydantic import AfterValidator, Field, JsonValue, ValidationError

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.catalog import Catalog
from toolwright.core.agents.config import ErrorDetail, Form, Identity, length_errors, read_agent
from toolwright.core.concurrency import entered
from toolwright.core.errors import (
    AlreadyExists,
    DefinitionError,
    InvalidConfiguration,
    InvalidRequest,
    NotFound,
)
from toolwright.core.forms import form_error
from toolwright.core.journal.store import Store
from toolwright.core.json_text import HALF, HalfCharacter, refuse_halves
from toolwright.core.json_value import JSON, NOT_ONE_LINE, one_line
from toolwright.core.limits import MAX_NAME
from toolwright.core.ports import Clock, Motor
from toolwright.core.spaces import DM_MEMBERS, DeliveryOrder, Entity, Space, SpaceKind
from toolwright.core.text import sentence
from toolwright.core.tools.openapi import with_apis_of_file
from toolwright.core.tools.tool import Tool
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.spaces.entities import MAX_EXTERNAL_ID
from toolwright.runtime.spaces.fields import id_of
from toolwright.wiring.app import App
from toolwright.wiring.parts import MemoryJournal
from toolwright.wiring.settings import Settings

DEFAULT_FILE = Path("app.py")
_OURS = str(Path(__file__).resolve().parent.parent)
HIDES = "has the name of the package, so that programs in this folder import it instead: rename it."


def find_app(target: str | None) -> App:
    """Return the app of that target, or the `app` in the current folder's `app.py`.

    Raises `DefinitionError` if there is none.
    """
    if target:
        return load_app(target)
    if DEFAULT_FILE.is_file():
        return load_app("app:app")
    raise DefinitionError(
        "No app is configured. Pass --app MODULE:APP, set TOOLWRIGHT_APP, or change to a folder with an app.py."
    )


def load_app(target: str) -> App:
    """Return the app of `module:app`, or of `module` if its name is `app`; the current folder is searched first.

    `module:agent` is an app with only that agent.

    Raises `DefinitionError`, with a one-sentence message, if the module or app does not exist, or the module fails.
    """
    name, _, path = target.partition(":")
    if name.endswith(".py") or "/" in name:
        raise DefinitionError(
            f"{target!r} is a path. Name the module, as in {Path(name).stem + ':app'!r}, from its folder."
        )
    if not all(part.isidentifier() for part in name.split(".")):
        raise DefinitionError(f"{target!r} is not of the form MODULE:APP, as in 'app:app'.")
    folder = str(Path.cwd())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    hiding = hiding_file()
    if hiding is not None and name.split(".")[0] == "toolwright":
        raise DefinitionError(f"{hiding} {HIDES}")
    return _app_in(_module(name), path or "app")


def hiding_file() -> Path | None:
    """Return the file that programs in the current folder import in place of this package, if any."""
    files = [Path("toolwright.py"), Path("toolwright/__init__.py")]
    return next((each for each in files if each.is_file() and each.resolve().parent != Path(_OURS)), None)


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise DefinitionError(
                f"There is no module {name!r}, neither in this folder nor among the installed packages."
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # a user's module can raise anything
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> DefinitionError:
    """Return the error for an exception raised by a module, with the position in its own code."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _OURS))
    ]
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{Path(error.filename).name}, line {error.lineno}: "
        return DefinitionError(
            f"The module {name!r} cannot be imported. {where}{type(error).__name__}: {error.msg}"
        )
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    return DefinitionError(
        f"The module {name!r} cannot be imported. {where}{type(error).__name__}: {str(error) or 'no message'}"
    )


def _app_in(module: ModuleType, path: str) -> App:
    value: object = module
    for name in path.split("."):
        if not hasattr(value, name):
            raise DefinitionError(f"The module {module.__name__!r} has no {path!r}.{_hint(module, path)}")
        value = getattr(value, name)
    if isinstance(value, Agent):
        return App(agents=[cast("Agent", value)])
    if not isinstance(value, App):
        raise DefinitionError(
            f"'{module.__name__}:{path}' is neither a tw.App nor a tw.Agent but of the type {type(value).__name__!r}."
            f"{_hint(module, path)}"
        )
    return value


def _hint(module: ModuleType, path: str) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, App | Agent)]
    close = get_close_matches(path, apps, n=1) or apps[:1]
    return f" Did you mean '{module.__name__}:{close[0]}'?" if close else ""


NonEmptyText = Annotated[str, Field(min_length=1)]


def _line(text: str) -> str:
    if not one_line(text):
        raise ValueError(NOT_ONE_LINE)
    return text


def _space_id(text: str) -> str:
    try:
        return id_of(text)
    except InvalidRequest as error:
        raise ValueError(error.details[0]["message"]) from error


Name = Annotated[NonEmptyText, Field(max_length=MAX_NAME), AfterValidator(_line)]


class AgentEntry(Form):
    """An agent; the file's author is trusted with the addresses of its tools (D13)."""

    name: Name
    description: str = ""
    config: dict[str, JsonValue]


class EntityEntry(Form):
    """A person, identified by `externalId`."""

    type: Literal["human"]
    external_id: Annotated[NonEmptyText, Field(max_length=MAX_EXTERNAL_ID)]
    display_name: Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_line)] | None = None


class SpaceEntry(Form):
    """A space; `members` are external ids, and names of agents."""

    id: Annotated[str, AfterValidator(_space_id)] | None = None
    name: Name
    kind: SpaceKind = "private"
    delivery: DeliveryOrder = "all"
    members: list[NonEmptyText] = Field(default_factory=list[NonEmptyText])

    @property
    def key(self) -> str:
        """The space's id. If none is given, it is derived from the name, and the same at every start."""
        return self.id or f"spc_{hashlib.sha256(self.name.encode()).hexdigest()[:20]}"


class ConfigFile(Form):
    """A complete configuration file."""

    agents: list[AgentEntry]
    entities: list[EntityEntry] = Field(default_factory=list[EntityEntry])
    spaces: list[SpaceEntry] = Field(default_factory=list[SpaceEntry])


def read_config(path: Path, tools: Mapping[str, Tool]) -> ConfigFile:
    """Read the file. Raises `DefinitionError`, whose one-line message names every error by its path."""
    try:
        content: object = json.loads(
            path.read_text(encoding="utf-8-sig"), parse_constant=_constant, object_pairs_hook=_once
        )
        refuse_halves(cast("JSON", content))  # unchanged since parsing
    except HalfCharacter as error:
        raise file_error(path, [_error_at(error.path, HALF)]) from None
    except OSError as error:
        raise DefinitionError(sentence(f"{str(path)!r} cannot be read: {error.strerror}")) from error
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{str(path)!r} is not valid JSON: it is not UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise DefinitionError(sentence(f"{str(path)!r} is not valid JSON: {error}")) from error
    try:
        file = ConfigFile.model_validate(content)
    except ValidationError as error:
        raise file_error(
            path, [_error_at(each["loc"], form_error(each)) for each in error.errors()]
        ) from None
    file, unread = _with_apis(file, path.parent)
    errors = [*_twice(file), *(unread or _agent_errors(file.agents, tools)), *_crowded(file.spaces)]
    if errors:
        raise file_error(path, errors)
    return file


def file_error(path: Path, errors: Sequence[ErrorDetail]) -> DefinitionError:
    """Return all errors as one error with a single-line message."""
    problems = "; ".join(f"{error['path']} {error['message']}".strip().rstrip(".") for error in errors)
    return DefinitionError(sentence(f"{path.name}: {' '.join(problems.split())}"))


def _agent_errors(entries: Sequence[AgentEntry], tools: Mapping[str, Tool]) -> list[ErrorDetail]:
    errors: list[ErrorDetail] = []
    for number, entry in enumerate(entries):
        details = length_errors(entry.config)
        try:
            read_agent(entry.config, Identity(name=entry.name), tools, trusted=True)
        except InvalidConfiguration as error:
            details += error.details
        place = f"agents.{number}.config"
        errors += [
            {"path": f"{place}.{each['path']}".rstrip("."), "message": each["message"]} for each in details
        ]
    return errors


def _with_apis(file: ConfigFile, folder: Path) -> tuple[ConfigFile, list[ErrorDetail]]:
    """Return the file with the tools of its agents' OpenAPI documents, and the errors of these documents."""
    agents: list[AgentEntry] = []
    errors: list[ErrorDetail] = []
    for number, entry in enumerate(file.agents):
        try:
            config = cast("dict[str, JsonValue]", with_apis_of_file(entry.config, folder))  # still an object
            agents.append(entry.model_copy(update={"config": config}))
        except InvalidConfiguration as error:
            place = f"agents.{number}.config"
            errors += [
                {"path": f"{place}.{each['path']}", "message": each["message"]} for each in error.details
            ]
    return (file, errors) if errors else (file.model_copy(update={"agents": agents}), [])


def _crowded(spaces: Sequence[SpaceEntry]) -> list[ErrorDetail]:
    return [
        {"path": f"spaces.{number}.members", "message": f"must have at most {DM_MEMBERS} members in a dm"}
        for number, space in enumerate(spaces)
        if space.kind == "dm" and len(set(space.members)) > DM_MEMBERS
    ]


def _twice(file: ConfigFile) -> list[ErrorDetail]:
    return [
        *_repeated("agents", "name", [entry.name for entry in file.agents]),
        *_repeated("entities", "externalId", [entry.external_id for entry in file.entities]),
        *_repeated("spaces", "id", [entry.key for entry in file.spaces]),
    ]


def _repeated(noun: str, what: str, names: Iterable[str]) -> list[ErrorDetail]:
    seen: set[str] = set()
    errors: list[ErrorDetail] = []
    for number, name in enumerate(names):
        if name in seen:
            errors.append({"path": f"{noun}.{number}.{what}", "message": f"is a duplicate: {name!r}"})
        seen.add(name)
    return errors


def _error_at(path: tuple[int | str, ...], message: str) -> ErrorDetail:
    return {"path": ".".join(map(str, path)) or "The file", "message": message}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # parsed JSON
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object has a duplicate key")
    return result


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class ConfigApp(App):
    """An empty app whose runtimes first apply a configuration file.

    Unchanged entries are not written again; entries of the journal that are not in the file are kept. It is a subclass
    because the server opens the runtime through the app. `configured` are the agents of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._config = read_config(path, {tool.name: tool for tool in self.catalog.tools})
        self.configured = [*_agents(self._config)]
        self.catalog = Catalog(configured=self.configured)

    @entered
    async def runtime(
        self,
        settings: Settings | None = None,
        *,
        grace: float = 10.0,
        memory: MemoryJournal | None = None,
        motor: Callable[[Store, Clock], Motor] | None = None,
    ) -> AsyncGenerator[Runtime]:
        """Open the runtime and apply the file to it."""
        async with super().runtime(settings, grace=grace, memory=memory, motor=motor) as runtime:
            await apply(self._config, runtime, self._path)
            yield runtime


def _agents(config: ConfigFile) -> Iterator[Agent]:
    """Yield the agents that the file declares. Their errors are reported when the file is applied."""
    for entry in config.agents:
        with suppress(DefinitionError):
            yield read_agent(
                entry.config, Identity(name=entry.name, description=entry.description), {}, trusted=True
            )


async def apply(config: ConfigFile, runtime: Runtime, path: Path) -> None:
    """Apply the file to the journal. Raises `DefinitionError` with the path of an entry that cannot be applied.

    Spaces are validated before anything is written, so an unknown member changes nothing.
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
            entity = await runtime.entities.get_by_external_id(person.external_id)
            if entity is None or entity.display_name != person.display_name:
                await runtime.entities.create(
                    external_id=person.external_id, display_name=person.display_name
                )
        for number, space in enumerate(config.spaces):
            place = f"spaces.{number}"
            await _space(space, runtime)
    except (InvalidRequest, NotFound, AlreadyExists, DefinitionError) as error:
        raise file_error(path, [{"path": f"{place}:", "message": error.message}]) from error


async def _check_space(entry: SpaceEntry, config: ConfigFile, runtime: Runtime) -> None:
    new = {*(agent.name for agent in config.agents), *(person.external_id for person in config.entities)}
    for name in entry.members:
        if name not in new:
            await _member(name, runtime)
    space = await _find_space(entry, runtime)
    if space is not None and space.kind != entry.kind:
        raise DefinitionError(f"The space {space.id!r} is {space.kind} and cannot become {entry.kind}.")


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
    """Return the person with that external id, or the agent of that name."""
    return await runtime.entities.get_by_external_id(name) or await runtime.entities.find(name)
