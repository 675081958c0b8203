"""`toolwright doctor`: checks of installation, settings, database, models, tools, keys, files and address."""

import asyncio
import os
import platform
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.util import find_spec
from time import monotonic
from typing import Literal
from urllib.parse import urlsplit

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolwright.adapters.models.shutdowns import shutdown_of
from toolwright.adapters.system import build_version, certificates
from toolwright.cli.loop import run
from toolwright.cli.output import FAILED, Refusal, log_briefly, one_line, shown_url
from toolwright.cli.settings import declared, read_settings, the_app
from toolwright.core.errors import CannotSeal, ToolwrightError
from toolwright.core.journal.units import IDLE
from toolwright.core.model import EXAMPLE_MODEL, ModelRequest, ModelSettings
from toolwright.core.text import quantity
from toolwright.core.threads.message import Message
from toolwright.core.tools.http.addresses import is_loopback
from toolwright.hooks import Judge
from toolwright.web.auth.access import ServiceKey
from toolwright.wiring import upkeep
from toolwright.wiring.app import App
from toolwright.wiring.config import DEFAULT_FILE, HIDES, hiding_file
from toolwright.wiring.lazy import NamedModels
from toolwright.wiring.parts import broker_error, cipher_of, file_store, key_file, node_errors, node_notes
from toolwright.wiring.settings import MEMORY, Settings, warning

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "openai": ("pydantic_ai", "openai"),
    "anthropic": ("pydantic_ai", "anthropic"),
    "postgres": ("asyncpg",),
    "mcp": ("mcp",),
    "console": ("nicegui",),
    "sandbox": ("deno", "pydantic_monty"),
    "telemetry": ("opentelemetry.sdk", "prometheus_client"),
    "sentry": ("sentry_sdk",),
    "pydantic-ai": ("pydantic_ai",),
    "openai-agents": ("agents",),
    "langchain": ("langchain_core",),
    "openapi": ("openapi_pydantic", "jsonref"),
    "nats": ("nats",),
    "patterns": ("regex",),
}
"""The modules whose presence shows that an extra is installed."""
MAX_SKEW = 5.0  # seconds by which a node's clock may differ from the database's
SLOW_COMMIT, SLOW_FILE, SLOW_ANSWER = (
    0.05,
    1.0,
    10.0,
)  # seconds from which a measured time is reported as slow
REACH = 30.0  # seconds that a model has for its answer
ASKED = ModelRequest(
    messages=(
        Message(id="doctor", role="user", content="Say ok.", created_at=datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    settings=ModelSettings(max_tokens=64),
)
STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check: its subject, its verdict and a message."""

    subject: str
    verdict: Literal["ok", "note", "broken"]
    message: str


def check_installation() -> Iterator[Finding]:
    """Return the versions of Python and Toolwright, and the installed extras."""
    yield Finding("python", "ok", f"{platform.python_version()}, toolwright {build_version()}")
    installed = [extra for extra, modules in EXTRAS.items() if all(map(_is_installed, modules))]
    missing = [extra for extra in EXTRAS if extra not in installed]
    more = f"; not installed: {', '.join(missing)}" if missing else ""
    yield Finding("extras", "ok" if installed else "note", f"{', '.join(installed) or 'none'}{more}")


def check_names() -> Iterator[Finding]:
    """Check that no file of this folder hides the package."""
    hiding = hiding_file()
    if hiding is not None:
        yield Finding("names", "broken", f"{hiding} {HIDES}")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # its parent package is missing, or its import is blocked
        return False


def check_variables(environment: Iterable[str]) -> Iterator[Finding]:
    """Check for variables with our prefix that are not settings."""
    message = warning(environment, list(Settings.model_fields))
    if message is not None:
        yield Finding("settings", "note", message)


def measured(subject: str, message: str, seconds: float, slow: float, consequence: str) -> Finding:
    """Return the finding of a measured time, a note if it is longer than `slow`."""
    is_slow = seconds > slow
    taken = f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
    more = f", which is slow: {consequence}" if is_slow else ""
    return Finding(subject, "note" if is_slow else "ok", f"{message} {taken}{more}")


async def check_database(settings: Settings, clock: Callable[[], float] = monotonic) -> list[Finding]:
    """Check that the database can be read and written in time, its schema revision, and who executes its runs."""
    url = shown_url(settings.database_url)
    try:
        revision = await upkeep.revision(settings, locks=settings.executes_alone)
        executors = await upkeep.executors(settings)
        is_newest = revision == upkeep.HEAD
        broken = await upkeep.broken_rows(settings) if is_newest else ()
        seconds = await upkeep.commit_seconds(settings, clock) if is_newest else None
    except ToolwrightError as error:
        return [Finding("database", "broken", f"{url}: {error.message}")]
    schema = Finding("schema", "ok", f"revision {revision}, the newest")
    if revision is None:
        schema = Finding("schema", "note", "no tables yet; they are created on first use")
    elif revision > upkeep.HEAD:
        schema = Finding(
            "schema", "ok", f"revision {revision} of a newer version, which this version can use"
        )
    elif revision != upkeep.HEAD and settings.cluster is not None:
        message = f"revision {revision}, of {upkeep.HEAD}: run `toolwright db upgrade` before nodes start"
        schema = Finding("schema", "broken", message)
    elif revision != upkeep.HEAD:
        message = f"revision {revision}, of {upkeep.HEAD}: it is upgraded on next use"
        schema = Finding("schema", "note", message)
    rows = [Finding("row", "broken", each.sentence) for each in broken]
    owner = Finding("owner", "ok", executors or "no process executes runs at the moment")
    # A single process that executes runs is usually started after the doctor. Nodes and servers without work would
    # leave all runs waiting.
    if executors is None and (settings.cluster is not None or not settings.work):
        owner = Finding("owner", "note", IDLE)
    database = Finding("database", "ok", url)
    if seconds is not None and not settings.database_url.startswith(MEMORY):
        why = "each step of a run waits for several"
        database = measured("database", f"{url}: a commit takes", seconds, SLOW_COMMIT, why)
    return [database, schema, *rows, owner]


async def check_models(settings: Settings, of_agents: list[str], *, reach: bool) -> list[Finding]:
    """Check the models of the settings and of the app's agents. With `reach`, send each of them a request."""
    configured = [each for each in (settings.model, settings.summary_model) if each]
    names: dict[str, None] = dict.fromkeys([*configured, *of_agents])
    if not names:
        return [Finding("model", "note", f"none: set TOOLWRIGHT_MODEL, as in {EXAMPLE_MODEL}")]
    models = NamedModels()
    try:
        checked = [await _check_model(models, name, reach=reach) for name in names]
    finally:
        await models.aclose()
    return [*checked, *shutdowns(names, datetime.now(UTC).date())]


def shutdowns(names: Iterable[str], today: date) -> Iterator[Finding]:
    """Yield a note for each model whose provider has announced its end."""
    for name in names:
        day = shutdown_of(name)
        if day is not None:
            verb = "is" if day > today else "was"
            yield Finding(
                "model", "note", f"{name} {verb} shut down by its provider on {day}: name another model"
            )


async def _check_model(models: NamedModels, name: str, *, reach: bool) -> Finding:
    try:
        model = await models(name)
        if not reach:
            return Finding("model", "ok", f"{name}; --reach sends it a request")
        started = monotonic()
        async with asyncio.timeout(REACH), aclosing(model.respond(ASKED)) as events:
            async for _ in events:
                pass
    except ToolwrightError as error:
        return Finding("model", "broken", error.message)
    except TimeoutError:
        return Finding("model", "broken", f"{name} did not answer within {REACH:.0f} seconds")
    return answered(name, monotonic() - started)


def answered(name: str, seconds: float) -> Finding:
    """Return the finding of a model that has answered."""
    return measured(
        "model", f"{name} answered within", seconds, SLOW_ANSWER, "every step of a run waits for it"
    )


def check_app(target: str | None) -> tuple[Finding, list[str]]:
    """Check that the app can be loaded. Return the finding and the names of the models of its agents and hooks."""
    if not target and not DEFAULT_FILE.is_file():
        return Finding(
            "app", "note", "no app in this folder: name one with --app MODULE:APP or TOOLWRIGHT_APP"
        ), []
    try:
        app = declared(the_app(target))
    except Refusal as refusal:
        return Finding("app", "broken", str(refusal)), []
    agents = app.catalog.agents
    usable = [app.catalog.active(agent.id) for agent in agents]
    models = [active.model for active in usable]
    policies = [active.prompt.context or active.agent.context for active in usable]
    models += [policy.summarize_with for policy in policies if policy is not None]
    asked = [each for active in usable if active.hooks is not None for each in active.hooks.before_call]
    models += [each.model for each in asked if isinstance(each, Judge)]
    names = ", ".join(agent.name for agent in agents)
    finding = Finding("app", "ok", f"{target or 'app:app'}, agents: {names or 'none'}")
    return finding, [model for model in models if isinstance(model, str)]


async def check_tools(settings: Settings, app: App) -> list[Finding]:
    """Check that the providers of the agents' models accept all of the agents' tools."""
    models = NamedModels()
    findings: list[Finding] = []
    try:
        for agent in app.catalog.agents:
            active = app.catalog.active(agent.id)
            model = active.model if active.model is not None else settings.model
            if not isinstance(model, str):
                continue
            with suppress(ToolwrightError):  # a model that cannot be created is reported separately
                errors = getattr(await models(model), "tool_faults", None)
                definitions = tuple([tool.definition for tool in active.tools])
                for each in () if errors is None else errors(definitions):
                    about = (
                        "" if each.tool is None else f"the tool {each.tool!r} cannot be offered to {model}: "
                    )
                    findings.append(Finding("tools", "note", f"{agent.name}: {about}{each.message}"))
    finally:
        await models.aclose()
    return findings


def check_mcp(settings: Settings, target: str | None) -> list[Finding]:
    """Check that the agents' models accept all tools, and that the agents' MCP servers are reachable."""
    if not target and not DEFAULT_FILE.is_file():
        return []
    try:
        app = declared(the_app(target))
    except Refusal:
        return []  # check_app reports it
    tools = run(check_tools(settings, app))
    if not any(app.catalog.active(agent.id).mcp for agent in app.catalog.agents):
        return tools
    from toolwright.cli.mcp import check_servers  # noqa: PLC0415 - few apps have them

    servers_found = run(check_servers(app, settings))
    servers = [
        Finding("mcp", "ok" if is_reachable else "broken", f"{name}: {message}")
        for name, is_reachable, message in servers_found
    ]
    return [*tools, *servers]


def check_trust(environment: Mapping[str, str]) -> Finding:
    """Check that the certificates that verify HTTP tools, models and MCP servers can be read."""
    try:
        named = certificates(environment)
    except ToolwrightError as error:
        return Finding("certificates", "broken", error.message)
    return Finding("certificates", "ok", named or "those of the system")


def check_keys(settings: Settings) -> Finding:
    """Check whether callers need a key."""
    keys, public = settings.secret_keys, settings.public_keys
    if not settings.keyed:
        return Finding(
            "keys", "note", "none: every caller on this machine has all rights, other callers have none"
        )
    if not keys:
        message = f"{_counted(public, 'public')}, no secret key: no service can register people"
        return Finding("keys", "note", message)
    more = f", {_counted(public, 'public')}" if public else ""
    names_and_scopes = [
        f"{each.name} ({each.scope})" for each in map(ServiceKey.read, keys) if each.name is not None
    ]
    names = f": {', '.join(names_and_scopes)}" if names_and_scopes else ""
    return Finding("keys", "ok", _counted(keys, "secret") + names + more)


async def check_secrets(settings: Settings) -> Finding:
    """Check whether secrets can be stored, which keys encrypt them, and whether these decrypt the stored secrets."""
    try:
        unreadable = await upkeep.unreadable_secrets(settings)
    except CannotSeal as error:
        return Finding("secrets", "broken", error.message)
    except ToolwrightError:
        unreadable = 0  # check_database reports it
    file = key_file(settings)
    if unreadable:
        count = f"{'at least ' if unreadable == upkeep.SECRETS else ''}{quantity(unreadable, 'secret')}"
        where = "TOOLWRIGHT_ENCRYPTION_KEYS" if file is None else f"the key file {file}"
        them = "it" if unreadable == 1 else "them"
        return Finding(
            "secrets",
            "broken",
            f"{count} cannot be read: {where} does not have the key that encrypted {them}",
        )
    if settings.encryption_keys:
        return Finding("secrets", "ok", f"encrypted with {len(settings.encryption_keys)} configured key(s)")
    if file is not None:
        message = f"encrypted with the key file {file}" + (
            "" if file.exists() else ", created with the first secret"
        )
        return Finding("secrets", "ok", message)
    if settings.database_url.startswith(MEMORY):
        return Finding("secrets", "ok", "kept in memory only")
    return Finding(
        "secrets", "note", "rejected: set TOOLWRIGHT_ENCRYPTION_KEYS (toolwright keys new prints one)"
    )


async def check_files(settings: Settings, clock: Callable[[], float] = monotonic) -> Finding:
    """Check that files can be stored: write a file and delete it."""
    folder = settings.files_folder
    if folder is not None and settings.files_url is None and not folder.absolute().parent.is_dir():
        return Finding("files", "note", "next to the database, whose folder does not exist")
    location = (settings.files_url or "in memory") if folder is None else str(folder)
    started = clock()
    try:
        await file_store(settings).probe()
    except ToolwrightError as error:
        return Finding("files", "broken", error.message)
    seconds = clock() - started
    if folder is None and settings.files_url is None:
        return Finding("files", "ok", location)
    more = "" if folder is None or folder.exists() else ", created with the first file"
    return measured(
        "files",
        f"{location}{more}: storing a file takes",
        seconds,
        SLOW_FILE,
        "messages with files wait for it",
    )


async def check_nodes(settings: Settings) -> list[Finding]:
    """Check that this process can join the cluster: its nodes, their clocks and versions, its NATS servers.

    Without a cluster in the settings, check whether nodes of one are alive on the database.
    """
    if settings.cluster is None:
        return await _check_alone(settings)
    broker: list[Finding] = []
    if settings.cluster != "postgres":
        error = await broker_error(settings)
        verdict = "ok" if error is None else "broken"
        hosts = ", ".join(
            [urlsplit(each.strip()).netloc.rpartition("@")[2] for each in settings.cluster.split(",")]
        )
        message = f"{hosts} answers" if error is None else f"{hosts} cannot be used: {error}"
        broker = [Finding("NATS", verdict, message)]
    try:
        if await upkeep.revision(settings) is None:
            return broker
        cluster, files = await upkeep.cluster(settings), file_store(settings)
    except ToolwrightError as error:
        return [*broker, Finding("nodes", "broken", error.message)]
    living = cluster.living
    findings = [Finding("nodes", "ok" if living else "note", f"{len(living)} alive")]
    if cluster.is_locked:
        message = f"{upkeep.ALONE}, and nodes wait until it ends: set the variable there too"
        findings = [Finding("nodes", "note", message)]
    for node in living:
        if abs(node.skew) > MAX_SKEW * 1_000_000:
            message = f"the clock of {node.id} differs from the database's by {node.skew / 1e6:+.1f} s"
            findings.append(Finding("nodes", "note", message))
    findings += [Finding("nodes", "note", note) for note in node_notes(living, settings)]
    errors = await node_errors(living, cipher_of(settings).keys, files)
    await files.close()
    return [*broker, *findings, *[Finding("nodes", "broken", error_message) for error_message in errors]]


async def _check_alone(settings: Settings) -> list[Finding]:
    """Return a finding if nodes of a cluster are alive on the database of a process without TOOLWRIGHT_CLUSTER."""
    try:
        if not settings.database_url.startswith("postgres") or await upkeep.revision(settings) is None:
            return []
        living = (await upkeep.cluster(settings)).living
    except ToolwrightError:
        return []  # check_database reports it
    if not living:
        return []
    nodes = quantity(len(living), "living node")
    message = f"{nodes} of a cluster on this database: a process without TOOLWRIGHT_CLUSTER executes no runs"
    return [Finding("nodes", "note", message)]


def _counted(keys: tuple[str, ...], kind: str) -> str:
    return f"{len(keys)} {kind} key{'s' if len(keys) > 1 else ''}"


def check_address(settings: Settings, host: str, port: int) -> Finding:
    """Check that a server may listen on the address, and that its port is free."""
    place = f"{host}, port {port}"
    if not settings.keyed and not is_loopback(host):
        return Finding("address", "broken", f"{place}: needs keys, or a loopback address")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        return Finding("address", "broken", f"{place}: {error.strerror or os.strerror(error.errno or 0)}")
    return Finding("address", "ok", f"{place} is free")


def doctor(target: str | None, host: str, port: int, *, reach: bool) -> int:
    """Print a table of findings and return the exit code: 1 if something is broken.

    With `reach`, each model is sent a short request.
    """
    log_briefly()
    findings = [*check_installation(), *check_names(), *check_variables(os.environ)]
    try:
        settings = read_settings()
    except Refusal as refusal:
        findings.append(Finding("settings", "broken", str(refusal)))
    else:
        app_finding, model_names = check_app(target)
        findings += [
            *run(_check_dependencies(settings, model_names, reach=reach)),
            app_finding,
            *check_mcp(settings, target),
        ]
        findings += [
            check_trust(os.environ),
            check_keys(settings),
            run(check_secrets(settings)),
            check_address(settings, host, port),
        ]
    _print(findings)
    return FAILED if any(finding.verdict == "broken" for finding in findings) else 0


async def _check_dependencies(settings: Settings, model_names: list[str], *, reach: bool) -> list[Finding]:
    return [
        *await check_database(settings),
        await check_files(settings),
        *await check_nodes(settings),
        *await check_models(settings, model_names, reach=reach),
    ]


def _print(findings: list[Finding]) -> None:
    console = Console()
    if not console.is_terminal:
        for finding in findings:
            print(finding.subject, finding.verdict, one_line(finding.message), sep="\t")
        return
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    for finding in findings:
        table.add_row(
            finding.subject, Text(finding.verdict, STYLES[finding.verdict]), Text(one_line(finding.message))
        )
    console.print(table)
