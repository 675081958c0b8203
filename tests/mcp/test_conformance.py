"""MCP's official conformance suite passes on both sides, except for the explained `expected_failures.yaml`."""

import re

import pytest

from tests.mcp.conformance import EXPECTED, Side, expected, outcomes_of, told
from tests.mcp.npm_peers import npm_program

NEVER = ("tools", "elicitation", "progress", "json-schema", "dns-rebinding")
SIDES: tuple[Side, ...] = ("server", "client")


def test_every_expected_failure_has_its_reason_and_none_is_about_tools_or_safety() -> None:
    names = [name for side in SIDES for name in expected(side)]
    assert not [name for name in names for word in NEVER if word in name]
    before = ""
    for line in EXPECTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("  - "):
            assert before.startswith(("  # ", "  - ")), f"no reason above {line!r}"
            assert re.fullmatch(r"  - [\w/.*-]+", line), line
        before = line


@pytest.mark.peers
@pytest.mark.timeout(600)  # it starts two processes for each scenario, which take minutes beside other work
@pytest.mark.parametrize("side", SIDES)
def test_the_conformance_suite_passes_but_for_what_is_expected(side: Side) -> None:
    npm_program("conformance")
    assert told(outcomes_of(side))
