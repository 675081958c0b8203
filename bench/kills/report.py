"""Results of the crash benchmark: kept as JSON, rendered as `bench/KILLS.md` and as the table of the README."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from string import Template
from typing import Any

import psutil

from bench.kills.counts import Counts
from bench.kills.driver import EFFECTS_A_KILL, STARTING, UNDISTURBED, Measured, p50
from bench.kills.systems import ROOT, SYSTEMS, System
from bench.kills.work import AT_ONCE, CALLS, MAX_SECONDS, MIN_SECONDS

TEMPLATE = Path(__file__).with_name("page.md")
DATABASES = ("SQLite", "Postgres")
RESULTS, PAGE, README = ROOT / "bench" / "KILLS.json", ROOT / "bench" / "KILLS.md", ROOT / "README.md"
BEGIN, END = "<!-- bench/kills: begin -->", "<!-- bench/kills: end -->"


@dataclass(frozen=True, kw_only=True)
class Result:
    """A saved measurement of one system."""

    system: System
    day: str
    seed: int
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    kills: int
    starting_kills: int
    exits: int
    recovery: float | None
    counts: Counts


def saved(
    system: System, measured: Measured, versions: Mapping[str, str], seed: int, load: float
) -> dict[str, Any]:
    """Return a measurement as JSON. `load` is the machine's load average when it began."""
    recovery = p50(measured.recoveries)
    return {
        "system": system.name,
        "day": date.today().isoformat(),  # noqa: DTZ011 - the day where the machine is
        "seed": seed,
        "versions": dict(versions),
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9),
            "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
            "load_before": round(load, 1),
            "load_after": round(psutil.getloadavg()[0], 1),
        },
        "kills": measured.kills,
        "starting_kills": measured.starting_kills,
        "exits": measured.exits,
        "effects_per_second": round(measured.pace, 1),
        "recovery_p50_s": None if recovery is None else round(recovery, 2),
        "counts": asdict(measured.counts),
    }


def keep(results: Sequence[Mapping[str, Any]], path: Path = RESULTS) -> None:
    """Save the results. Results of systems that were not measured this time are kept."""
    old: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    by_name = {each["system"]: each for each in (*old, *results)}
    ordered = [by_name[system.name] for system in SYSTEMS if system.name in by_name]
    path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def read(path: Path = RESULTS) -> list[Result]:
    """Return the saved results, in the order of the systems."""
    systems = {system.name: system for system in SYSTEMS}
    return [
        Result(
            system=systems[each["system"]],
            day=each["day"],
            seed=each["seed"],
            versions=each["versions"],
            machine=each["machine"],
            kills=each["kills"],
            starting_kills=each["starting_kills"],
            exits=each["exits"],
            recovery=each["recovery_p50_s"],
            counts=Counts(**each["counts"]),
        )
        for each in json.loads(path.read_text(encoding="utf-8"))
    ]


Cell = Callable[[Result], str]


def _rate(number: Callable[[Counts], int]) -> Cell:
    """Return a cell with a number per 1,000 effects, and the number itself."""

    def cell(result: Result) -> str:
        found = number(result.counts)
        return f"{found / result.counts.effects * 1_000:.1f} ({found:,})" if found else "0"

    return cell


def _number(number: Callable[[Result], int]) -> Cell:
    return lambda result: f"{number(result):,}"


SHORT: Sequence[tuple[str, Cell]] = (
    ("effects (kills)", lambda result: f"{result.counts.effects:,} ({result.kills})"),
    ("repeated although it had ended", _rate(lambda counts: counts.repeated_ended)),
    ("repeated because it was cut off", _rate(lambda counts: counts.repeated_cut_off)),
    ("reported as unknown because it was cut off", _rate(lambda counts: counts.unknown_cut_off)),
    ("reported as unknown without need", _rate(lambda counts: counts.unknown_without_need)),
)
"""The rows of the README."""
WHOLE: Sequence[tuple[str, Cell]] = (
    ("kills", _number(lambda result: result.kills)),
    ("of these timed for the start of a process", _number(lambda result: result.starting_kills)),
    ("messages", _number(lambda result: result.counts.messages)),
    ("effects", _number(lambda result: result.counts.effects)),
    ("executions cut off by a kill", _rate(lambda counts: counts.cut_off)),
    ("**repeated although it had ended**", _rate(lambda counts: counts.repeated_ended)),
    ("**repeated because it was cut off**", _rate(lambda counts: counts.repeated_cut_off)),
    ("repeated while it was in progress", _rate(lambda counts: counts.repeated_beside)),
    ("**reported as unknown because it was cut off**", _rate(lambda counts: counts.unknown_cut_off)),
    ("**reported as unknown without need**", _rate(lambda counts: counts.unknown_without_need)),
    ("of these: it had not begun", _rate(lambda counts: counts.unknown_not_begun)),
    ("of these: it had ended", _rate(lambda counts: counts.unknown_ended)),
    ("missing: not made, and not reported", _rate(lambda counts: counts.missing)),
    ("calls that the model did not make", _number(lambda result: result.counts.unplanned)),
    ("messages lost", _number(lambda result: result.counts.lost)),
    ("messages stuck", _number(lambda result: result.counts.stuck)),
    ("messages failed", _number(lambda result: result.counts.failed)),
    ("processes that ended by themselves", _number(lambda result: result.exits)),
    (
        "recovery, p50, in seconds",
        lambda result: "–" if result.recovery is None else f"{result.recovery:.2f}",
    ),
)
"""The rows of the page."""


def table(results: Sequence[Result], rows: Sequence[tuple[str, Cell]] = SHORT) -> str:
    """Return the figures as a Markdown table, a column for each system."""
    day = max(each.day for each in results)
    lines = [
        [
            f"{results[0].system.database}, {day}, per 1,000 effects (number)",
            *[each.system.title for each in results],
        ],
        ["---", *["---:" for _ in results]],
        *[[name, *[cell(each) for each in results]] for name, cell in rows],
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(results: Sequence[Result]) -> str:
    """Return `bench/KILLS.md`."""
    by_database = {
        database: [each for each in results if each.system.database == database] for database in DATABASES
    }
    tables = [f"## On {name}\n\n{table(found, WHOLE)}\n" for name, found in by_database.items() if found]
    systems = [
        f"| {each.system.title} | {_versions(each)} | {each.system.setup} | {each.system.documented} "
        f"({each.system.page}) |"
        for each in by_database["SQLite"]
    ]
    per_kill = [each.counts.effects / each.kills for each in results]
    text = Template(TEMPLATE.read_text(encoding="utf-8"))
    return text.substitute(
        tables="\n".join(tables),
        at_once=AT_ONCE,
        calls=sum(CALLS),
        answers=", ".join(map(str, CALLS)),
        shortest=round(MIN_SECONDS * 1_000),
        longest=round(MAX_SECONDS * 1_000),
        window=2 * EFFECTS_A_KILL,
        fewest=round(min(per_kill)),
        most=round(max(per_kill)),
        starting=STARTING,
        undisturbed=UNDISTURBED,
        systems="\n".join(systems),
        conditions="\n".join(map(_conditions, results)),
    )


def _versions(result: Result) -> str:
    """Return the versions of the system's packages."""
    return ", ".join(
        f"{name} {number}" for name, number in result.versions.items() if name not in ("Python", *DATABASES)
    )


def _conditions(result: Result) -> str:
    """Return the line of a result in the table of conditions."""
    machine, database = result.machine, result.system.database
    cells = [
        result.system.title,
        f"{database} {result.versions[database]}",
        result.versions["Python"],
        result.day,
        str(result.seed),
        f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['kernel']}",
        f"{machine['load_before']} to {machine['load_after']}",
    ]
    return f"| {' | '.join(cells)} |"


def with_table(readme: str, results: Sequence[Result]) -> str:
    """Return the README with the table of the results on SQLite between its two markers."""
    before, rest = readme.split(BEGIN)
    shown = table([each for each in results if each.system.database == DATABASES[0]])
    return f"{before}{BEGIN}\n{shown}\n{END}{rest.split(END)[1]}"


def write(results: Sequence[Result]) -> None:
    """Write the page and the table of the README."""
    PAGE.write_text(page(results), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), results), encoding="utf-8")
