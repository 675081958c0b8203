"""`toolwright doctor`."""

import os

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolwright.cli import checks
from toolwright.cli.checks import Finding
from toolwright.cli.log import log_briefly
from toolwright.cli.loop import run
from toolwright.cli.output import FAILED, Refusal, one_line
from toolwright.cli.settings import read_settings
from toolwright.wiring.settings import Settings

STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}


def doctor(target: str | None, host: str, port: int) -> int:
    """Print a table of findings; 1 if something is broken."""
    log_briefly()
    findings = [*checks.check_installation(), *checks.check_variables(os.environ)]
    try:
        settings = read_settings()
    except Refusal as refusal:
        findings.append(Finding("settings", "broken", str(refusal)))
    else:
        found, named = checks.check_app(target)
        findings += [*run(_outside(settings, named)), found]
        findings += [
            checks.check_keys(settings),
            checks.check_secrets(settings),
            checks.check_address(settings, host, port),
        ]
    _print(findings)
    return FAILED if any(finding.verdict == "broken" for finding in findings) else 0


async def _outside(settings: Settings, named: list[str]) -> list[Finding]:
    return [
        *await checks.check_database(settings),
        await checks.check_files(settings),
        *await checks.check_models(settings, named),
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
