"""Puts a runtime together from its parts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.cipher.memory import MemoryCipher
from toolwright.adapters.files.memory import MemoryFiles
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.store.locks import FileLock, NoLock, beside
from toolwright.adapters.store.memory import MemoryStore
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.catalog import Catalog
from toolwright.core.errors import CannotUnseal
from toolwright.core.event import Event
from toolwright.core.function import FunctionExecutor
from toolwright.core.pipeline import Executor
from toolwright.core.ports import Bus, Cipher, Clock, Files, Lock, Models, Motor, NewId, Store
from toolwright.core.sandbox import Sandbox
from toolwright.core.tool import Kind
from toolwright.core.toolkits import MIND, SPACES
from toolwright.runtime.acts import Acts
from toolwright.runtime.agents import Agents
from toolwright.runtime.asking import ANSWER_LIMITS, Asking
from toolwright.runtime.before import Before
from toolwright.runtime.births import Births
from toolwright.runtime.calls import Calls, Instant
from toolwright.runtime.carrying import Carrying
from toolwright.runtime.closing import Closing
from toolwright.runtime.drain import Drainer
from toolwright.runtime.ending import Ending
from toolwright.runtime.entities import Entities
from toolwright.runtime.env import Environment
from toolwright.runtime.equipment import Equipment
from toolwright.runtime.files import FileKeeper, ThreadFiles
from toolwright.runtime.follow import Events
from toolwright.runtime.front_ends import FrontEnds
from toolwright.runtime.health import Health
from toolwright.runtime.hold import Listeners
from toolwright.runtime.home import Homes
from toolwright.runtime.housekeeping import Housekeeper
from toolwright.runtime.inboxes import Inboxes
from toolwright.runtime.instants import INSTANTS
from toolwright.runtime.keys import Keys
from toolwright.runtime.lifecycle import lifecycle_tools
from toolwright.runtime.lineages import Lineages
from toolwright.runtime.loop import Loop
from toolwright.runtime.minds import Minds
from toolwright.runtime.nested import Nested
from toolwright.runtime.offering import Offering
from toolwright.runtime.offers import Offers
from toolwright.runtime.pending import PendingCalls
from toolwright.runtime.plans import Plans
from toolwright.runtime.prompts import Prompts
from toolwright.runtime.reports import Reports
from toolwright.runtime.requests import Requests
from toolwright.runtime.rooms import Rooms
from toolwright.runtime.runs import Runs
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.spaces import Spaces
from toolwright.runtime.speakers import Speakers
from toolwright.runtime.speech import Speech
from toolwright.runtime.subagents import Subagents
from toolwright.runtime.threads import Threads
from toolwright.runtime.timers import CALL, PLAN, Timers
from toolwright.runtime.toolkits.mind import MindToolkit
from toolwright.runtime.toolkits.spaces import SpacesToolkit
from toolwright.runtime.waiting import INLINE_WAIT, Waiting
from toolwright.runtime.wakeups import Wakeups
from toolwright.wiring.http_tools import HttpTools
from toolwright.wiring.models import NamedModels
from toolwright.wiring.sandbox import CodeSandbox
from toolwright.wiring.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that a runtime is made of."""

    store: Store
    motor: Motor
    bus: Bus
    clock: Clock = field(default_factory=SystemClock)
    new_id: NewId = new_id
    models: Models = field(default_factory=NamedModels)
    files: Files = field(default_factory=MemoryFiles)
    cipher: Cipher = field(default_factory=MemoryCipher)
    sandbox: Sandbox = field(default_factory=CodeSandbox)
    executors: Mapping[Kind, Executor] = field(default_factory=lambda: {"function": FunctionExecutor()})
    close: Sequence[Callable[[], Awaitable[None]]] = ()
    instants: Mapping[Kind, Instant] = field(default_factory=lambda: INSTANTS)


def assemble(
    catalog: Catalog,
    parts: Parts,
    settings: Settings,
    inline_wait: float = INLINE_WAIT,
    answer_limits: tuple[float, float] = ANSWER_LIMITS,
) -> Runtime:
    """The runtime of these parts, not yet started."""
    store, motor, bus, clock, ids = parts.store, parts.motor, parts.bus, parts.clock, parts.new_id
    environment = Environment(parts.cipher)
    keeper = FileKeeper(
        parts.files, clock, ids, max_attachment=settings.max_attachment, max_text=settings.max_result_text
    )
    agents = Agents(store, catalog, environment, clock, ids)
    rooms = Rooms(store, agents)
    homes = Homes(store, agents)
    births = Births(store, environment, clock, ids)
    executors: Mapping[Kind, Executor] = {
        "agent": Subagents(store, agents, births, clock, ids),
        **parts.executors,
    }
    calls = Calls(executors, parts.instants, bus, keeper, environment, store, parts.sandbox)
    asking = Asking(
        parts.models, bus, keeper, homes, default_model=settings.model, answer_limits=answer_limits
    )
    entities = Entities(store, agents, environment, clock, ids)
    wakeups = Wakeups(agents, clock, ids, settings.max_chain_depth)
    speech = Speech(store, rooms, wakeups)
    spaces = Spaces(store, Acts(store, motor, clock, ids), entities, rooms, speech, clock, ids)
    equipment = Equipment({SPACES: SpacesToolkit(spaces, speech).tools, MIND: MindToolkit(store).tools})
    offers = Offers(store, motor, clock)
    listeners = Listeners(motor.wake, offers.opened, bus.publish)
    speakers, lineages = Speakers(agents, equipment.equip), Lineages(store, agents, environment)
    nested = Nested(store)
    closing = Closing(calls, nested, Ending(Reports(store)), max_steps=settings.max_steps)
    carrying = Carrying(calls, asking, Waiting(store, calls, inline_wait), nested, closing)
    before = Before(carrying, closing, speakers, Offering(store, lifecycle_tools), environment)
    loop = Loop(calls, asking, before, carrying, closing)
    drainer = Drainer(store, loop, calls, speakers, lineages, clock, ids, listeners, rooms)
    plans = Plans(store, wakeups, motor.wake, clock, ids)
    keys = Keys(store, environment, clock, ids)
    runs = Runs(store, motor, bus, clock, ids)
    requests = Requests(store, motor, agents, speakers, lineages, births, environment, clock, ids)
    pending = PendingCalls(store, motor, agents, environment, drainer.known, keeper, rooms, clock, ids)
    return Runtime(
        catalog=catalog,
        agents=agents,
        store=store,
        motor=motor,
        drainer=drainer,
        timers=Timers(store, drainer, {CALL: pending.expire, PLAN: plans.fire}, clock, ids),
        threads=Threads(store, motor, agents, runs, environment, keeper, clock, ids, lineages),
        runs=runs,
        requests=requests,
        calls=pending,
        offers=offers,
        files=ThreadFiles(store, keeper),
        minds=Minds(store, agents),
        prompts=Prompts(store, agents, homes, rooms, equipment.equip),
        inboxes=Inboxes(store, agents, wakeups, motor, clock, ids),
        entities=entities,
        spaces=spaces,
        clients=FrontEnds(store, entities, clock, ids),
        events=Events(store, bus, motor),
        health=Health(store, clock, ids),
        keys=keys,
        housekeeper=Housekeeper(store, motor, keys, parts.files, clock, ids),
        close=(*parts.close, parts.sandbox.close),
    )


async def open_parts(settings: Settings) -> Parts:
    """The parts that the settings name: a journal, its lock, the embedded motor."""
    bus, clock, files = MemoryBus(), SystemClock(), file_store(settings)
    if settings.files_url is not None and settings.files_folder is not None:
        await files.probe()  # a folder that was named must be usable; a bucket is not waited for
    store, lock = await _journal(settings, bus.publish)
    await _check_key(settings, store)
    motor = EmbeddedMotor(store, clock, lock, concurrency=settings.concurrency)
    models, functions = NamedModels(), FunctionExecutor()
    http_tools = HttpTools(settings)

    async def end_threads() -> None:
        functions.close()

    return Parts(
        store=store,
        motor=motor,
        bus=bus,
        clock=clock,
        models=models,
        files=files,
        cipher=_cipher(settings),
        executors={"function": functions, "gateway": http_tools},
        close=(models.aclose, http_tools.aclose, end_threads, files.close),
    )


async def _check_key(settings: Settings, store: Store) -> None:
    """A key that is lost must not be replaced in silence: what it has sealed could never be read again."""
    file = key_file(settings)
    if file is not None and not file.exists() and await store.sealed_otherwise("", 1):
        await store.close()
        raise CannotUnseal(
            f"The journal holds secrets, but their key file {str(file)!r} is not there: put it back, or set "
            "TOOLWRIGHT_ENCRYPTION_KEYS to go on without them."
        )


def file_store(settings: Settings) -> Files:
    """Where the settings say that files lie."""
    folder = settings.files_folder
    if folder is None and not (settings.files_url or "").startswith("s3://"):
        return MemoryFiles()
    objects = import_module(
        "toolwright.adapters.files.objects"
    )  # by name: it loads when files are configured
    opened: Files = objects.open_bucket(settings.files_url) if folder is None else objects.open_folder(folder)
    return opened


def _cipher(settings: Settings) -> Cipher:
    """The configured keys; else a key file for a journal in a file, and none for one in Postgres."""
    path = settings.sqlite_path
    if path is None and settings.database_url.startswith("memory:") and not settings.encryption_keys:
        return MemoryCipher()
    fernet = import_module(
        "toolwright.adapters.cipher.fernet"
    )  # by name: cryptography takes its time to load
    file = key_file(settings)
    made: Cipher = (
        fernet.FernetCipher(settings.encryption_keys) if file is None else fernet.KeyFileCipher(file)
    )
    return made


def key_file(settings: Settings) -> Path | None:
    """Where the key of an SQLite journal lies for which none is configured; None for any other."""
    path = settings.sqlite_path
    return None if path is None or settings.encryption_keys else beside(path, "key")


async def _journal(settings: Settings, publish: Callable[[Sequence[Event]], None]) -> tuple[Store, Lock]:
    path = settings.sqlite_path
    if path is not None:
        return await open_sqlite(path, publish), FileLock(path)
    if settings.database_url.startswith("memory:"):
        return MemoryStore(publish), NoLock()
    store = await open_postgres(settings.database_url, publish, connections=settings.database_connections)
    locks = import_module("toolwright.adapters.store.postgres_lock")  # by name: it needs the extra
    return store, locks.PostgresLock(settings.database_url)
