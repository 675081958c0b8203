"""`python -m bench.kills [--save] [--kills N] [--seed S] [system …]`: kills workers, and prints what that costs."""

import argparse
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench.kills import driver, report
from bench.kills.systems import SYSTEMS


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the named systems, or all of them if none is named."""
    names = [system.name for system in SYSTEMS]
    parser = argparse.ArgumentParser(prog="python -m bench.kills", description="What a crash costs.")
    parser.add_argument(
        "systems", nargs="*", metavar="system", help=f"all of them, or any of {', '.join(names)}"
    )
    parser.add_argument(
        "--kills", type=int, help="kills of each system; the default is the system's own number"
    )
    parser.add_argument("--seed", type=int, help="seed of the random times; drawn if it is not given")
    parser.add_argument(
        "--save", action="store_true", help="write bench/KILLS.json, KILLS.md and the README's table"
    )
    parser.add_argument(
        "--render", action="store_true", help="measure nothing; write the pages of the saved results"
    )
    options = parser.parse_args(arguments)
    for name in options.systems:
        if name not in names:
            parser.exit(2, f"There is no system {name!r}: the systems are {', '.join(names)}.\n")
    if options.render:
        report.write(report.read())
        return
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as folder:
        path = report.RESULTS if options.save else Path(folder, "KILLS.json")
        for system in SYSTEMS:
            if options.systems and system.name not in options.systems:
                continue
            load = psutil.getloadavg()[0]
            measured = driver.measure(system, options.kills or system.kills, seed)
            report.keep([report.saved(system, measured, driver.versions(system), seed, load)], path)
            [result] = [each for each in report.read(path) if each.system is system]
            print(report.table([result], report.WHOLE), flush=True)
            if options.save:
                report.write(report.read())


if __name__ == "__main__":
    main()
