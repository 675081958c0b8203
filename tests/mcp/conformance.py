"""`python -m tests.mcp.conformance [server|client …]`: MCP's official conformance suite, against both of our sides.

Prints one line per scenario, and the number of passed and failed ones. Expected failures are in
`expected_failures.yaml`. A scenario of it that passes counts as a failure too, so that the file stays accurate.
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
SHOWN = 2_000  # characters of a failed scenario's output


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario in the wire format of one revision; scenarios of an extension use the newest one."""

    side: Side
    name: str
    revision: str
    extension: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one scenario: `said` is the suite's output for a failure."""

    scenario: Scenario
    passed: bool
    said: str = ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both sides, or the named ones; exit with 1 if an outcome is unexpected."""
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
    """Run all scenarios of that side, except the excluded ones."""
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
    """Return the suite's scenarios of that side for both revisions, and for the extensions."""
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
    """Return the names of `expected_failures.yaml`. A name with a * is a pattern of excluded scenarios."""
    return list(yaml.safe_load(EXPECTED.read_text(encoding="utf-8"))[side] or [])


def told(outcomes: Iterable[Outcome]) -> bool:
    """Print a line for each outcome, the reasons of unexpected failures, and the count.

    Return whether all are expected.
    """
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
    """Run each scenario by a separate command, so that excluded ones are not started."""

    def run(scenario: Scenario) -> Outcome:
        command = ["client", "--command", f"{sys.executable} -m tests.mcp.conformance_client"]
        said, status = _said(
            [*suite, *command, "--scenario", scenario.name, "--spec-version", scenario.revision]
        )
        return Outcome(scenario=scenario, passed=status == 0, said=said[-SHOWN:])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(run, chosen))


def _of_server(suite: Sequence[str], chosen: Iterable[Scenario], url: str) -> list[Outcome]:
    """Run all scenarios of a revision by one command, and extensions by one without revision.

    Excluded ones are not reported.
    """
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
    """Return the end of the suite's output for one scenario, since a run of all only names the failed ones."""
    revision = [] if scenario.extension else ["--spec-version", scenario.revision]
    return _said([*suite, "server", "--url", url, "--scenario", scenario.name, *revision])[0][-SHOWN:]


def _said(command: Sequence[str]) -> tuple[str, int]:
    """Return the output of a command, without colours, and its exit status."""
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
    """Return this process's environment without our settings; child processes find this repository."""
    kept = {name: each for name, each in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "NODE_NO_WARNINGS": "1"}


@contextmanager
def server_of_ours() -> Generator[str]:
    """Serve the suite's app with a gateway in a separate process, on an empty journal. Yields the URL of `/mcp`."""
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
