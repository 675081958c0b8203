"""`toolwright doctor`: its checks, and their findings."""

import asyncio
import os
import platform
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from time import monotonic
from typing import Literal
from urllib.parse import urlsplit

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolwright.cli.loop import run
from toolwright.cli.output import FAILED, Refusal, log_briefly, one_line, shown_url
from toolwright.cli.settings import read_settings, the_app
from toolwright.core.errors import DISTRIBUTION, ToolwrightError
from toolwright.core.journal.units import IDLE
from toolwright.core.model import ModelRequest, ModelSettings
from toolwright.core.text import quantity
from toolwright.core.threads.message import Message
from toolwright.web.auth.access import ServiceKey, is_loopback
from toolwright.wiring import database
from toolwright.wiring.app import App
from toolwright.wiring.config import DEFAULT_FILE
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
}
"""The modules by which one sees whether an extra is installed."""
MOST_SKEW = 5.0  # seconds that the clock of a node may differ from the database's
REACH = 30.0  # seconds that a model has to answer in
ASKED = ModelRequest(
    messages=(
        Message(id="doctor", role="user", content="Say ok.", created_at=datetime(2026, 1, 1, tzinfo=UTC)),
    ),
    settings=ModelSettings(max_tokens=64),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Verdict on one thing."""

    what: str
    verdict: Literal["ok", "note", "broken"]
    said: str


def check_installation() -> Iterator[Finding]:
    """Python, Toolwright and its extras."""
    yield Finding("python", "ok", f"{platform.python_version()}, toolwright {version(DISTRIBUTION)}")
    there = [extra for extra, modules in EXTRAS.items() if all(map(_is_installed, modules))]
    missing = [extra for extra in EXTRAS if extra not in there]
    more = f"; not installed: {', '.join(missing)}" if missing else ""
    yield Finding("extras", "ok" if there else "note", f"{', '.join(there) or 'none'}{more}")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (
        ModuleNotFoundError,
        ValueError,
    ):  # of a package that is not there, or is kept from being imported
        return False


def check_variables(environment: Iterable[str]) -> Iterator[Finding]:
    """Check whether a variable looks like a setting and is none."""
    said = warning(environment, list(Settings.model_fields))
    if said is not None:
        yield Finding("settings", "note", said)


async def check_database(settings: Settings) -> list[Finding]:
    """Check whether the database is reachable, what its tables are like, and who drives it."""
    place = shown_url(settings.database_url)
    try:
        revision = await database.revision(settings, locks=settings.executes_alone)
        executors = await database.executors(settings)
        broken = await database.broken_rows(settings) if revision == database.HEAD else ()
    except ToolwrightError as error:
        return [Finding("database", "broken", f"{place}: {error.message}")]
    schema = Finding("schema", "ok", f"revision {revision}, the newest")
    if revision is None:
        schema = Finding("schema", "note", "no tables yet; they are made when it is first used")
    elif revision > database.HEAD:
        schema = Finding("schema", "ok", f"revision {revision} of a newer version, which this one can use")
    elif revision != database.HEAD and settings.cluster is not None:
        said = f"revision {revision}, of {database.HEAD}: run `toolwright db upgrade` before nodes start"
        schema = Finding("schema", "broken", said)
    elif revision != database.HEAD:
        said = f"revision {revision}, of {database.HEAD}: it is upgraded when it is next used"
        schema = Finding("schema", "note", said)
    rows = [Finding("row", "broken", each.sentence) for each in broken]
    owner = Finding("owner", "ok", executors or "no process executes runs at the moment")
    # A process that executes runs itself is usually started after the doctor; others would serve and nothing more.
    if executors is None and (settings.cluster is not None or not settings.work):
        owner = Finding("owner", "note", IDLE)
    return [Finding("database", "ok", place), schema, *rows, owner]


async def check_models(settings: Settings, named: list[str], *, reach: bool) -> list[Finding]:
    """Check the models of the settings and of the app's agents; with `reach`, send each of them a request."""
    own = [each for each in (settings.model, settings.summary_model) if each]
    names: dict[str, None] = dict.fromkeys([*own, *named])
    if not names:
        return [Finding("model", "note", "none: set TOOLWRIGHT_MODEL, as in openai:gpt-5-mini")]
    models = NamedModels()
    try:
        return [await _check_model(models, name, reach=reach) for name in names]
    finally:
        await models.aclose()


async def _check_model(models: NamedModels, name: str, *, reach: bool) -> Finding:
    try:
        model = await models(name)
        if not reach:
            return Finding("model", "ok", f"{name}; --reach asks it")
        begun = monotonic()
        async with asyncio.timeout(REACH), aclosing(model.respond(ASKED)) as events:
            async for _ in events:
                pass
    except ToolwrightError as error:
        return Finding("model", "broken", error.message)
    except TimeoutError:
        return Finding("model", "broken", f"{name} has not answered within {REACH:.0f} seconds")
    return Finding("model", "ok", f"{name} has answered within {monotonic() - begun:.1f} seconds")


def check_app(target: str | None) -> tuple[Finding, list[str]]:
    """Check whether the app can be loaded, and the names of its agents' models."""
    if not target and not DEFAULT_FILE.is_file():
        return Finding("app", "note", "none here: name one with --app MODULE:APP or TOOLWRIGHT_APP"), []
    try:
        app = the_app(target)
    except Refusal as refusal:
        return Finding("app", "broken", str(refusal)), []
    agents = app.catalog.agents
    usable = [app.catalog.active(agent.id) for agent in agents]
    models = [active.model for active in usable]
    policies = [active.prompt.context or active.agent.context for active in usable]
    models += [policy.summarize_with for policy in policies if policy is not None]
    names = ", ".join(agent.name for agent in agents)
    found = Finding("app", "ok", f"{target or 'app:app'}, agents: {names or 'none'}")
    return found, [model for model in models if isinstance(model, str)]


async def check_tools(settings: Settings, app: App) -> list[Finding]:
    """Check whether the models of the app's agents are offered all of their tools."""
    models = NamedModels()
    found: list[Finding] = []
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
                    about = "" if each.tool is None else f"the tool {each.tool!r} is not offered to {model}: "
                    found.append(Finding("tools", "note", f"{agent.name}: {about}{each.message}"))
    finally:
        await models.aclose()
    return found


def check_mcp(settings: Settings, target: str | None) -> list[Finding]:
    """Check whether the models of the app's agents take all their tools, and whether their MCP servers are there."""
    if not target and not DEFAULT_FILE.is_file():
        return []
    try:
        app = the_app(target)
    except Refusal:
        return []  # said of the app
    tools = run(check_tools(settings, app))
    if not any(app.catalog.active(agent.id).mcp for agent in app.catalog.agents):
        return tools
    from toolwright.cli.mcp import looked_at  # noqa: PLC0415 - few apps have them

    found = run(looked_at(app, settings))
    servers = [Finding("mcp", "ok" if there else "broken", f"{name}: {said}") for name, there, said in found]
    return [*tools, *servers]


def check_keys(settings: Settings) -> Finding:
    """Check whether callers need a key."""
    keys, public = settings.secret_keys, settings.public_keys
    if not settings.keyed:
        return Finding(
            "keys", "note", "none: every caller on this machine has all rights, nobody else has any"
        )
    if not keys:
        said = f"{_counted(public, 'public')}, no secret key: people may call, nobody can register them over HTTP"
        return Finding("keys", "note", said)
    more = f", {_counted(public, 'public')}" if public else ""
    named = [f"{each.name} ({each.scope})" for each in map(ServiceKey.read, keys) if each.name is not None]
    names = f": {', '.join(named)}" if named else ""
    return Finding("keys", "ok", _counted(keys, "secret") + names + more)


def check_secrets(settings: Settings) -> Finding:
    """Check whether secrets can be kept, and with which keys."""
    if settings.encryption_keys:
        return Finding("secrets", "ok", f"sealed with {len(settings.encryption_keys)} configured key(s)")
    file = key_file(settings)
    if file is not None:
        said = f"sealed with the key file {file}" + ("" if file.exists() else ", made for the first secret")
        return Finding("secrets", "ok", said)
    if settings.database_url.startswith(MEMORY):
        return Finding("secrets", "ok", "kept in memory only")
    return Finding(
        "secrets", "note", "refused: set TOOLWRIGHT_ENCRYPTION_KEYS (toolwright keys new makes one)"
    )


async def check_files(settings: Settings) -> Finding:
    """Check whether files can be stored: write one and delete it."""
    folder = settings.files_folder
    if folder is not None and settings.files_url is None and not folder.absolute().parent.is_dir():
        return Finding("files", "note", "beside the database, whose folder is not there")
    place = (settings.files_url or "in memory") if folder is None else str(folder)
    try:
        await file_store(settings).probe()
    except ToolwrightError as error:
        return Finding("files", "broken", error.message)
    return Finding(
        "files", "ok", place + ("" if folder is None or folder.exists() else ", made for the first file")
    )


async def check_nodes(settings: Settings) -> list[Finding]:
    """Check whether this process can run beside the living nodes of the cluster, and whose clock is wrong.

    Also whether the cluster's NATS servers answer. Without a cluster return whether there is one on the database.
    """
    if settings.cluster is None:
        return await _check_alone(settings)
    broker: list[Finding] = []
    if settings.cluster != "postgres":
        fault = await broker_error(settings)
        verdict = "ok" if fault is None else "broken"
        hosts = ", ".join(
            [urlsplit(each.strip()).netloc.rpartition("@")[2] for each in settings.cluster.split(",")]
        )
        said = f"{hosts} answers" if fault is None else f"{hosts} cannot be used: {fault}"
        broker = [Finding("NATS", verdict, said)]
    try:
        if await database.revision(settings) is None:
            return broker
        found, files = await database.cluster(settings), file_store(settings)
    except ToolwrightError as error:
        return [*broker, Finding("nodes", "broken", error.message)]
    living = found.living
    findings = [Finding("nodes", "ok" if living else "note", f"{len(living)} alive")]
    if found.is_locked:
        said = f"{database.ALONE}, and nodes wait for its end: set the variable there too"
        findings = [Finding("nodes", "note", said)]
    for node in living:
        if abs(node.skew) > MOST_SKEW * 1_000_000:
            said = f"the clock of {node.id} differs from the database's by {node.skew / 1e6:+.1f} s"
            findings.append(Finding("nodes", "note", said))
    findings += [Finding("nodes", "note", note) for note in node_notes(living, settings)]
    errors = await node_errors(living, cipher_of(settings).keys, files)
    await files.close()
    return [*broker, *findings, *[Finding("nodes", "broken", fault) for fault in errors]]


async def _check_alone(settings: Settings) -> list[Finding]:
    """Return that nodes of a cluster live on the database of a process without one."""
    try:
        if not settings.database_url.startswith("postgres") or await database.revision(settings) is None:
            return []
        living = (await database.cluster(settings)).living
    except ToolwrightError:
        # The finding about the database has it.
        return []
    if not living:
        return []
    nodes = quantity(len(living), "living node")
    said = f"{nodes} of a cluster on this database: a process without TOOLWRIGHT_CLUSTER executes no runs beside them"
    return [Finding("nodes", "note", said)]


def _counted(keys: tuple[str, ...], kind: str) -> str:
    return f"{len(keys)} {kind} key{'s' if len(keys) > 1 else ''}"


def check_address(settings: Settings, host: str, port: int) -> Finding:
    """Check whether a server may and can listen there."""
    place = f"{host}, port {port}"
    if not settings.keyed and not is_loopback(host):
        return Finding("address", "broken", f"{place}: needs keys, or a loopback address")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        return Finding("address", "broken", f"{place}: {error.strerror or os.strerror(error.errno or 0)}")
    return Finding("address", "ok", f"{place} is free")


STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}


def doctor(target: str | None, host: str, port: int, *, reach: bool) -> int:
    """Print a table of findings; 1 if something is broken. With `reach` each model is asked a word."""
    log_briefly()
    findings = [*check_installation(), *check_variables(os.environ)]
    try:
        settings = read_settings()
    except Refusal as refusal:
        findings.append(Finding("settings", "broken", str(refusal)))
    else:
        found, named = check_app(target)
        findings += [*run(_outside(settings, named, reach=reach)), found, *check_mcp(settings, target)]
        findings += [
            check_keys(settings),
            check_secrets(settings),
            check_address(settings, host, port),
        ]
    _print(findings)
    return FAILED if any(finding.verdict == "broken" for finding in findings) else 0


async def _outside(settings: Settings, named: list[str], *, reach: bool) -> list[Finding]:
    return [
        *await check_database(settings),
        await check_files(settings),
        *await check_nodes(settings),
        *await check_models(settings, named, reach=reach),
    ]


def _print(findings: list[Finding]) -> None:
    console = Console()
    if not console.is_terminal:
        for finding in findings:
            print(finding.what, finding.verdict, one_line(finding.said), sep="\t")
        return
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    for finding in findings:
        table.add_row(
            finding.what, Text(finding.verdict, STYLES[finding.verdict]), Text(one_line(finding.said))
        )
    console.print(table)
