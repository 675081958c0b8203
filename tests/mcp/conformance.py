"""`python -m tests.mcp.conformance [server|client …]`: MCP's official conformance suite, against both sides of ours.

One line a scenario, the last line says how many passed and failed. What is expected to fail is in
`expected_failures.yaml`; a scenario of it that passes is a failure too, so that the file stays true.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeAlias

import yaml

from tests.mcp.npm_peers import npm_program

Side: TypeAlias = Literal["server", "client"]
ROOT = Path(__file__).parents[2]
EXPECTED = Path(__file__).parent / "expected_failures.yaml"
REVISIONS = ("2025-11-25", "2026-07-28")
EXTENSIONS = "extensions"
PATIENCE = 110
"""Seconds for one run of the suite."""
AT_ONCE = 2
SHOWN = 2_000  # characters of what a scenario that failed has said


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario on the wire of one revision; those of an extension have that of the newest one."""

    side: Side
    name: str
    revision: str
    extension: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one came out: `said` has what the suite says of a failure."""

    scenario: Scenario
    passed: bool
    said: str = ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both sides, or those that are named; exit 1 where something is not as it is expected."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mcp.conformance", description="MCP's conformance suite."
    )
    parser.add_argument("sides", nargs="*", metavar="side", help="server or client, both if none is named")
    parser.add_argument("--url", help="a server that runs already, instead of ours")
    options = parser.parse_args(arguments)
    sides: list[Side] = [
        side for side in ("server", "client") if side in (options.sides or ("server", "client"))
    ]
    outcomes = [outcome for side in sides for outcome in outcomes_of(side, options.url)]
    raise SystemExit(0 if told(outcomes) else 1)


def outcomes_of(side: Side, url: str | None = None) -> list[Outcome]:
    """All scenarios of that side, but for those that are left out."""
    suite = npm_program("conformance", environ={"CI": "true"})
    left_out = [pattern for pattern in expected(side) if "*" in pattern]
    chosen = [each for each in scenarios(side, suite) if not _matches(each.name, left_out)]
    if side == "client":
        return _of_client(suite, chosen)
    if url is not None:
        return _of_server(suite, chosen, url)
    with server_of_ours() as address:
        return _of_server(suite, chosen, address)


def scenarios(side: Side, suite: Sequence[str]) -> list[Scenario]:
    """What the suite has for that side in both revisions, and for the extensions."""
    shown = subprocess.run(
        [*suite, "list"], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout
    part = re.search(rf"^{side} scenarios.*?(?=^\S|\Z)", shown, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    assert part is not None, shown
    made: list[Scenario] = []
    for name, versions in re.findall(r"^  - (\S+) \[(.*)\]$", part[0], re.MULTILINE):
        extension = versions == "extension"
        revisions = (
            [REVISIONS[-1]] if extension else [each for each in REVISIONS if each in versions.split(",")]
        )
        made += [Scenario(side=side, name=name, revision=each, extension=extension) for each in revisions]
    return made


def expected(side: Side) -> list[str]:
    """The names of `expected_failures.yaml`; one with a * is a pattern of those that are left out."""
    return list(yaml.safe_load(EXPECTED.read_text(encoding="utf-8"))[side] or [])


def told(outcomes: Iterable[Outcome]) -> bool:
    """Print a line for each, why those failed that should not have, and the count; whether all is as expected."""
    counts = {True: 0, False: 0}
    for outcome in outcomes:
        scenario = outcome.scenario
        foreseen = scenario.name in expected(scenario.side)
        verdict = "passed" if outcome.passed else "failed"
        fits = outcome.passed != foreseen
        counts[fits] += 1
        note = "" if fits and not foreseen else " as expected" if fits else ", which was not expected"
        print(f"{verdict}{note}: {scenario.side} {scenario.revision} {scenario.name}", flush=True)
        if not fits and outcome.said:
            print(outcome.said)
    print(f"{counts[True]} passed, {counts[False]} failed")
    return counts[False] == 0 and counts[True] > 0


def _of_client(suite: Sequence[str], chosen: Iterable[Scenario]) -> list[Outcome]:
    """Each by a command of its own, so that those that are left out are not begun."""

    def run(scenario: Scenario) -> Outcome:
        command = ["client", "--command", f"{sys.executable} -m tests.mcp.conformance_client"]
        said, status = _said(
            [*suite, *command, "--scenario", scenario.name, "--spec-version", scenario.revision]
        )
        return Outcome(scenario=scenario, passed=status == 0, said=said[-SHOWN:])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(run, chosen))


def _of_server(suite: Sequence[str], chosen: Iterable[Scenario], url: str) -> list[Outcome]:
    """All of a revision by one command, those of extensions by one without any: what is left out is not told."""
    command = [*suite, "server", "--url", url, "--suite", "all"]
    shown = {each: _said([*command, "--spec-version", each])[0] for each in REVISIONS}
    shown[EXTENSIONS] = _said(command)[0]
    outcomes: list[Outcome] = []
    for each in chosen:
        part = EXTENSIONS if each.extension else each.revision
        passed = re.search(rf"^✓ {re.escape(each.name)}: ", shown[part], re.MULTILINE) is not None
        why = "" if passed or each.name in expected("server") else _why(suite, each, url)
        outcomes.append(Outcome(scenario=each, passed=passed, said=why))
    return outcomes


def _why(suite: Sequence[str], scenario: Scenario, url: str) -> str:
    """The end of what the suite says of one scenario alone: of all together it only says which of them failed."""
    revision = [] if scenario.extension else ["--spec-version", scenario.revision]
    return _said([*suite, "server", "--url", url, "--scenario", scenario.name, *revision])[0][-SHOWN:]


def _said(command: Sequence[str]) -> tuple[str, int]:
    """What a command writes, without colours, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            cwd=folder,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr), done.returncode


def _environment() -> dict[str, str]:
    """That of this process without settings of ours; what it starts finds this repository."""
    kept = {name: each for name, each in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "NODE_NO_WARNINGS": "1"}


@contextmanager
def server_of_ours() -> Generator[str]:
    """The URL of `/mcp` of a gateway that serves the suite's app, in a process of its own on an empty journal."""
    command = [
        sys.executable,
        "-m",
        "toolwright.cli",
        "serve",
        "tests.mcp.conformance_app:app",
        "--port",
        "0",
    ]
    environment = {**_environment(), "TOOLWRIGHT_MCP_SERVER": "true", "TOOLWRIGHT_LOG": "error"}
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        with process:
            try:
                yield f"{_address(process)}/mcp"
            finally:
                process.terminate()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if (address := re.search(r"http://[\w.:]+", line)) is not None:
            return address[0]
    raise AssertionError("our server did not start")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    main()
