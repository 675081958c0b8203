"""Parts of a runtime: the adapters selected by the settings, fallbacks if one cannot be opened, and MemoryJournal."""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from os import getpid
from pathlib import Path
from socket import gethostname
from typing import Any
from urllib.parse import urlsplit

from toolwright.adapters.bus.cluster import ClusterBus, Relay
from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.memory import MemoryCipher, MemoryFiles
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.motor.leases import NO_HEARTBEAT, LeaseMotor
from toolwright.adapters.store.locks import FileLock, NeverLock, NoLock, beside
from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.adapters.system import ClusterClock, SystemClock, build_version, new_id
from toolwright.core.concurrency import start_task
from toolwright.core.dependencies.scope import Overrides
from toolwright.core.errors import (
    CannotUnseal,
    DefinitionError,
    MissingExtra,
    NotFound,
    StoreError,
    ToolwrightError,
    missing_extra,
)
from toolwright.core.journal.store import Outage, Store
from toolwright.core.journal.units import IDLE, Node
from toolwright.core.mcp.servers import McpServers
from toolwright.core.ports import Cipher, Clock, Embedder, FileStore, JournalLock, Models, Motor, NewId
from toolwright.core.state.sandbox import Sandbox
from toolwright.core.threads.event import Event
from toolwright.core.tools.function import FunctionExecutor
from toolwright.core.tools.openapi import ReadApi
from toolwright.core.tools.pipeline import Executor
from toolwright.core.tools.tool import Kind
from toolwright.core.value import field
from toolwright.runtime import parts as runtime_parts
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.executors import CodeSandbox, HttpTools, LazyMcp, api_reader
from toolwright.wiring.lazy import NamedModels, models_of, open_embedder
from toolwright.wiring.settings import MEMORY, Settings
from toolwright.wiring.telemetry import open_telemetry

FILES = 1.0  # seconds in which the file store must answer whether it is shared with another node
log = logging.getLogger("toolwright.serve")
PAGE, MAX_LOGGED = 500, 20  # agents
MAX_SEALED_READ = 100  # secrets read to see whether there is one; broken rows are left out


class MemoryJournal:
    """In-memory state of a runtime: rows, files, secrets. Only one runtime at a time can use it."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.store = MemoryStore(self.bus.publish)
        self.files = MemoryFiles()
        self.cipher = MemoryCipher()


class DefaultParts(runtime_parts.Parts):
    """The parts of a runtime, by default in memory, with the tools of `Settings()`."""

    clock: Clock = field(default_factory=SystemClock)
    new_id: NewId = new_id
    models: Models = field(default_factory=NamedModels)
    files: FileStore = field(default_factory=MemoryFiles)
    cipher: Cipher = field(default_factory=MemoryCipher)
    sandbox: Sandbox = field(default_factory=CodeSandbox)
    executors: Mapping[Kind, Executor] = field(default_factory=lambda: {"function": FunctionExecutor()})
    read_api: ReadApi = field(default_factory=lambda: api_reader(Settings()))
    mcp: McpServers = field(default_factory=lambda: LazyMcp(Settings()))


async def open_parts(
    settings: Settings,
    embedder: Embedder | None = None,
    model: object | None = None,
    memory: MemoryJournal | None = None,
    overrides: Overrides | None = None,
    lifespan: object = None,
    make_motor: Callable[[Store, Clock], Motor] | None = None,
) -> DefaultParts:
    """Return the parts that the settings name: a journal, its lock, the embedded scheduler.

    A given `embedder` takes precedence, a `model` overrides all models, and `memory` is used if the settings name an
    in-memory journal. `overrides` replace dependencies, `lifespan` is the value yielded by the app's lifespan.
    `make_motor` creates another scheduler.
    """
    opened = None
    if embedder is None and settings.embedder is not None:
        opened = open_embedder(settings.embedder)
    telemetry = open_telemetry(settings)
    if not settings.database_url.startswith(MEMORY):
        memory = None
    bus = _bus(settings) if memory is None else memory.bus
    clock = clock_of(settings)
    files = await _open_files(settings, memory)
    store, lock = await open_journal(settings, bus.publish, memory)
    await _check_key(settings, store)
    cipher = cipher_of(settings) if memory is None or settings.encryption_keys else memory.cipher
    marker = await _check_cluster(settings, store, cipher, files, clock)
    follows = None
    if isinstance(clock, ClusterClock) and (not settings.work or make_motor is not None):
        # a node compares clocks at each heartbeat
        follows = start_task(clock.follow(store.now), "toolwright-cluster-clock")
    outage = Outage(clock)
    cluster = bus if isinstance(bus, ClusterBus) else None
    if make_motor is not None:
        motor = make_motor(store, clock)
    else:
        check = partial(_check_nodes, settings, store, cipher.keys, files, clock, known_digest=marker)
        motor = _motor(settings, store, clock, lock, outage, cluster, cipher, marker, check)
    models, functions = models_of(model), FunctionExecutor(overrides=overrides)
    http_tools, mcp = HttpTools(settings, telemetry), LazyMcp(settings)

    async def end_threads() -> None:
        functions.close()
        if follows is not None:
            follows.cancel()

    if cluster is not None:
        await cluster.start()
    return DefaultParts(
        store=store,
        motor=motor,
        bus=bus,
        clock=clock,
        models=models,
        files=files,
        cipher=cipher,
        executors={"function": functions, "gateway": http_tools, "mcp": mcp},
        mcp=mcp,
        read_api=api_reader(settings),
        telemetry=telemetry,
        outage=outage,
        lifespan=lifespan,
        embedder=embedder or opened,
        unready=partial(_unready, settings, motor),
        look_for_worker=partial(worker_warning, settings, store, cipher.keys, files, clock)
        if needs_worker(settings)
        else None,
        close=(
            models.aclose,
            http_tools.aclose,
            mcp.aclose,
            end_threads,
            *(() if cluster is None else (cluster.close,)),
            *(() if memory is not None and files is memory.files else (files.close,)),
            *(() if opened is None else (opened.aclose,)),
        ),
    )


async def _open_files(settings: Settings, memory: MemoryJournal | None) -> FileStore:
    """Return the file store. Raises an error if it cannot be used, or not by all processes of a cluster."""
    files = file_store(settings) if memory is None or settings.files_url is not None else memory.files
    if settings.cluster is not None and isinstance(files, MemoryFiles):
        raise DefinitionError(
            "A cluster needs files that all its processes share: set TOOLWRIGHT_FILES_URL to s3://… or to a folder "
            "that they share."
        )
    if settings.files_url is not None and settings.files_folder is not None:
        await files.probe()  # a configured folder must be usable; buckets are checked later
    return files


async def _check_cluster(
    settings: Settings, store: Store, cipher: Cipher, files: FileStore, clock: Clock
) -> str:
    """Compare clocks and settings with the cluster. Returns the digest of `_check_nodes`, empty without a cluster.

    If this process cannot join, closes the store and raises the error.
    """
    if not isinstance(clock, ClusterClock):
        return ""
    try:
        await clock.compare(store.now)
        return await _check_nodes(settings, store, cipher.keys, files, clock)
    except ToolwrightError:
        await store.close()
        raise


def _bus(settings: Settings) -> MemoryBus:
    """Return the bus of a single process, or of a process in a cluster."""
    if settings.cluster is None:
        return MemoryBus()
    relay: Relay  # loaded lazily, because they need extras
    if settings.cluster == "postgres":
        notifications = import_module("toolwright.adapters.store.postgres.connection")
        relay = notifications.PostgresRelay(settings.database_url)
    else:
        relay = _nats_relay(settings.cluster, settings.database_url)
    return ClusterBus(relay, works=settings.work)


def _nats_relay(servers: str, database_url: str) -> Any:  # lazily: it needs an extra
    try:
        nats = import_module("toolwright.adapters.bus.nats")
    except ImportError as error:
        raise missing_extra("A cluster with NATS", "nats", error) from error
    return nats.NatsRelay(
        [each.strip() for each in servers.split(",")], urlsplit(database_url).path.strip("/")
    )


async def broker_error(settings: Settings) -> str | None:
    """Return the reason why the cluster's NATS servers are unreachable, or None if one answers or there are none."""
    if settings.cluster is None or settings.cluster == "postgres":
        return None
    try:
        relay_error: str | None = await _nats_relay(settings.cluster, settings.database_url).fault()
    except MissingExtra as error:
        return error.message
    return relay_error


def _motor(
    settings: Settings,
    store: Store,
    clock: Clock,
    lock: JournalLock,
    outage: Outage,
    cluster: ClusterBus | None,
    cipher: Cipher,
    marker: str,
    check: Callable[[str], Awaitable[object]],
) -> Motor:
    """Return the embedded scheduler, or the scheduler of a cluster's node."""
    concurrency, tell = settings.concurrency, None if cluster is None else cluster.wake
    if not (settings.work and isinstance(clock, ClusterClock)):
        lock = lock if settings.work else NeverLock()
        return EmbeddedMotor(store, clock, lock, concurrency=concurrency, outage=outage, tell=tell)
    leases = import_module("toolwright.adapters.store.postgres.leases").PostgresLeases(
        settings.database_url,
        version=build_version(),
        slots=concurrency,
        keys=cipher.keys,
        files=marker,
        address=settings.node_url or f"{gethostname()} (pid {getpid()})",
        alike=alike(settings),
        clock_moved=clock.moved,
        check=check,
    )  # lazily: it needs the extra
    motor = LeaseMotor(store, clock, leases, concurrency=concurrency, outage=outage, tell=tell)
    if cluster is not None:
        cluster.woken = motor.woken_elsewhere
    return motor


def _unready(settings: Settings, motor: Motor) -> str | None:
    """Return the reason why this node of a cluster currently executes no runs, or None."""
    if not settings.executes_in_cluster or motor.driving:
        return None
    return motor.unready if isinstance(motor, LeaseMotor) else NO_HEARTBEAT


def needs_worker(settings: Settings) -> bool:
    """Return whether this process's runs are executed only by other processes, which can be looked up."""
    return not settings.work and settings.database_url.startswith("postgres")


async def worker_warning(
    settings: Settings, store: Store, keys: Sequence[str], files: FileStore, clock: Clock
) -> str | None:
    """Return a warning if no living process can execute the runs of this process.

    Either none executes runs, or a node that started later has another encryption key or other files. Raises
    `StoreError`.
    """
    # Loaded lazily, because it needs the extra.
    lock = import_module("toolwright.adapters.store.postgres.locks")
    seen = await lock.look_for_executors(settings.database_url)
    if not (seen.nodes or seen.is_locked):
        return IDLE
    if settings.cluster is None:
        return None
    return next(iter(await node_errors(await _living(store, clock), keys, files)), None)


async def _living(store: Store, clock: Clock) -> list[Node]:
    now = clock.now()
    return [node for node in await store.nodes() if node.is_alive(now)]


def warn_without_work(settings: Settings) -> None:
    """Log that this process executes no runs, and the reason."""
    if not settings.work:
        log.warning(
            "This process executes no runs, because TOOLWRIGHT_WORK is off. Other processes on this database do."
        )
    elif settings.cluster is None:  # a node logs itself why it cannot join
        log.warning(
            "Another process executes the runs of this database. This one takes over when that one ends. If that is a "
            "different app, whose agents are not those of this one, give this one a database of its own%s.",
            "" if settings.sqlite_path is None else f", such as sqlite:///{_program()}.db",
        )


def _program() -> str:
    """Return the name of the program, for the name of a file."""
    name = Path(sys.argv[0]).stem
    return name if name.isidentifier() and name != "toolwright" else "my_app"


async def _check_key(settings: Settings, store: Store) -> None:
    """Raise an error if the key file is lost: values encrypted with it could not be read with a new key."""
    file = key_file(settings)
    if file is None or file.exists():
        return
    if await store.sealed_otherwise("", MAX_SEALED_READ):
        await store.close()
        raise CannotUnseal(
            f"The journal contains secrets, but their key file {str(file)!r} does not exist. Restore it, or set "
            "TOOLWRIGHT_ENCRYPTION_KEYS to go on without them."
        )


@cache
def _cluster_clock(database_url: str) -> ClusterClock:
    return ClusterClock()


def clock_of(settings: Settings) -> Clock:
    """Return the clock shared by the settings' runtime and its gateway."""
    return SystemClock() if settings.cluster is None else _cluster_clock(settings.database_url)


async def _check_nodes(
    settings: Settings,
    store: Store,
    keys: Sequence[str],
    files: FileStore,
    clock: Clock,
    own_id: str = "",
    *,
    known_digest: str = "",
) -> str:
    """Return the digest of the bytes with which a node proves that it shares the files: the living nodes' or a new one.

    This process's file store is known to have the bytes of `known_digest`. `own_id` is this process's node if it has
    joined. Raises `DefinitionError` if this process cannot run together with the living nodes.
    """
    living = [node for node in await _living(store, clock) if node.id != own_id]
    for reason in await node_errors(living, keys, files, known_digest):
        raise DefinitionError(reason)
    if own_id or not settings.work:  # logged once
        for note in node_notes(living, settings):
            log.warning("%s", note)
    marker = next((node.files for node in living if node.files), "")
    if marker:
        return marker
    try:
        return await files.put(f"The files of a cluster: {new_id('files')}\n".encode())
    except StoreError as error:
        log.warning("Files cannot be stored at the moment: %s", error.message)
        return ""


async def node_errors(
    living: Sequence[Node], keys: Sequence[str], files: FileStore, known_digest: str = ""
) -> list[str]:
    """Return the reasons, as sentences, why a process with these keys and files cannot join the living nodes.

    The files are known to have the bytes of `known_digest`.
    """
    errors: list[str] = []
    markers = [*{node.files for node in living} - {"", known_digest}]
    has_files = dict(
        zip(markers, await asyncio.gather(*[_has_file(files, each) for each in markers]), strict=True)
    )
    for node in living:
        theirs = node.keys.split(",") if node.keys else []
        if theirs and theirs[0] not in keys:
            errors.append(
                f"The node {node.id} encrypts secrets with a key that this process does not have. Set the "
                "same TOOLWRIGHT_ENCRYPTION_KEYS at all processes of the cluster."
            )
        elif keys and not theirs:
            errors.append(
                f"The node {node.id} has no encryption keys, so it cannot decrypt the secrets of this process. Set the "
                "same TOOLWRIGHT_ENCRYPTION_KEYS at all processes of the cluster."
            )
        elif keys and keys[0] not in theirs:
            errors.append(
                f"This process encrypts secrets with a key that the node {node.id} does not have. Add the key to all "
                "processes of the cluster as the second of TOOLWRIGHT_ENCRYPTION_KEYS before you make it the first."
            )
        if not has_files.get(node.files, True):
            errors.append(
                f"The node {node.id} does not share the files of this process. Set the same TOOLWRIGHT_FILES_URL at "
                "all processes of the cluster, s3://… or a folder that they share."
            )
    return errors


def alike(settings: Settings) -> str:
    """Return the settings that must be the same in all processes of a cluster, as published by a node.

    The secret keys are represented by two bytes of a digest, which reveal nothing.
    """
    broker = "postgres" if settings.cluster == "postgres" else "nats"
    secrets = sha256("\0".join(sorted(settings.secret_keys)).encode()).hexdigest()[:4]
    return f"{broker},{secrets}"


def node_notes(living: Sequence[Node], settings: Settings) -> list[str]:
    """Return the settings in which living nodes differ from this process, and the limitations that follow."""
    notes: dict[str, str] = {}
    own_settings = alike(settings).split(",")
    for node in living:
        broker, _, secrets = node.alike.partition(",")
        if broker and broker != own_settings[0]:
            notes["broker"] = (
                f"The node {node.id} sends messages to other processes by {broker}, this process by {own_settings[0]}. "
                "Streamed text and wake-ups are delayed between them. Set the same TOOLWRIGHT_CLUSTER at all processes."
            )
        if secrets and secrets != own_settings[1]:
            notes["secrets"] = (
                f"The node {node.id} has other secret keys than this process. Each rejects stream tokens and sign-ins "
                "of the other. Set the same TOOLWRIGHT_SECRET_KEYS at all processes."
            )
    return [*notes.values()]


async def _has_file(files: FileStore, digest: str) -> bool:
    """Return whether the bytes exist, or cannot be looked up at the moment."""
    try:
        async with asyncio.timeout(FILES):  # a node must join before it is considered dead
            await files.get(digest)
    except NotFound:
        return False
    except (StoreError, TimeoutError):
        pass  # reported by `/ready` and the doctor
    return True


def file_store(settings: Settings) -> FileStore:
    """Return the file store of the settings."""
    folder = settings.files_folder
    if folder is None and not (settings.files_url or "").startswith("s3://"):
        return MemoryFiles()
    objects = import_module("toolwright.adapters.files")  # lazily: loaded when files are configured
    opened: FileStore = (
        objects.open_bucket(settings.files_url) if folder is None else objects.open_folder(folder)
    )
    return opened


def cipher_of(settings: Settings) -> Cipher:
    """Return the configured keys, or a key file for a journal in a file, or none for one in Postgres."""
    path = settings.sqlite_path
    if path is None and settings.database_url.startswith("memory:") and not settings.encryption_keys:
        return MemoryCipher()
    fernet = import_module("toolwright.adapters.cipher")  # lazily: importing cryptography is slow
    file = key_file(settings)
    cipher: Cipher = (
        fernet.FernetCipher(settings.encryption_keys) if file is None else fernet.KeyFileCipher(file)
    )
    return cipher


def key_file(settings: Settings) -> Path | None:
    """Return the path of the key file of an SQLite journal without configured keys, or None for any other journal."""
    path = settings.sqlite_path
    return None if path is None or settings.encryption_keys else beside(path, "key")


def check_exists(database: Path) -> None:
    """Raise `NotFound` if the database does not exist, for commands that need an existing one."""
    if not database.is_file():
        raise NotFound(f"There is no database {str(database)!r}: name it in TOOLWRIGHT_DATABASE_URL.")


async def wait_for_database(settings: Settings, seconds: float) -> None:
    """Wait for a Postgres server that does not accept connections yet. Raises `StoreError` after these seconds."""
    if settings.database_url.startswith("postgres") and find_spec("asyncpg") is not None:
        opening = import_module("toolwright.adapters.store.postgres.opening")  # lazily: it needs the extra
        await opening.wait_for_postgres(settings.database_url, seconds)


async def open_journal(
    settings: Settings, publish: Callable[[Sequence[Event]], None], memory: MemoryJournal | None = None
) -> tuple[Store, JournalLock]:
    """Open the journal of the settings, and the lock of the process that executes its runs."""
    path = settings.sqlite_path
    if memory is not None:
        memory.store.reopen()
        return memory.store, NoLock()
    if path is None and settings.database_url.startswith("memory:"):
        return MemoryStore(publish), NoLock()
    opening = import_module("toolwright.adapters.store.opening")  # lazily: importing SQLAlchemy is slow
    if path is not None:
        return await opening.open_sqlite(path, publish), FileLock(path)
    url = settings.database_url
    store: Store = await opening.open_postgres(
        url,
        publish,
        is_node=settings.cluster is not None,
        locks=settings.executes_alone,
        connections=settings.database_connections,
    )
    locks = import_module("toolwright.adapters.store.postgres.locks")  # lazily: it needs the extra
    return store, locks.PostgresLock(url)


async def warn_about_agents(runtime: Runtime, models: Models, default_model: str | None) -> None:
    """Log why agents cannot run: they have no model, or one that cannot be created. Sends no requests to models.

    It takes seconds if providers' libraries have to be loaded; the first runs then start faster.
    """
    count = 0
    async for problem in _unusable(runtime, models, default_model):
        count += 1
        if count <= MAX_LOGGED:
            log.warning(problem)
    if count > MAX_LOGGED:
        log.warning("%s more agents cannot run because their models cannot be used.", count - MAX_LOGGED)


async def _unusable(runtime: Runtime, models: Models, default_model: str | None) -> AsyncGenerator[str]:
    errors: dict[str, str | None] = {}
    offset = 0
    while agents := await runtime.agents.list(PAGE, offset):
        offset += len(agents)
        for agent in agents:
            try:
                model = (await runtime.agents.active(agent.id)).model or default_model
            except NotFound:
                continue  # deleted in the meantime
            except ToolwrightError as error:
                yield f"The agent {agent.name!r} cannot run: {error.message}"
                continue
            if model is None:
                yield f"The agent {agent.name!r} has no model: name one in its prompt, or set TOOLWRIGHT_MODEL."
            elif isinstance(model, str):
                if model not in errors:
                    errors[model] = await _model_error(model, models)
                if (reason := errors[model]) is not None:
                    yield f"The agent {agent.name!r} cannot run: {reason}"


async def _model_error(model: str, models: Models) -> str | None:
    try:
        await models(model)
    except ToolwrightError as error:
        return error.message
    return None
