"""The first example of the guides."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


@pytest.fixture
def quickstart(empty: Shell) -> Shell:
    empty.write("app.py", (QUICKSTART / "app.py").read_text(encoding="utf-8"))
    return empty


def test_its_tool_can_be_called(quickstart: Shell) -> None:
    done = quickstart.run("call", "days_until", '{"day": "2000-01-01"}')
    assert done.returncode == 0
    assert int(done.stdout) < 0


def test_its_agent_can_be_talked_to(quickstart: Shell) -> None:
    quickstart.write(
        "script.yaml",
        "- calls: [{name: days_until, args: {day: '2000-01-01'}}]\n- text: Long ago.\n",
    )
    quickstart.env["TOOLWRIGHT_MODEL"] = "scripted:script.yaml"
    done = quickstart.run("chat", "assistant", typed="How long until 2000?\n")
    assert done.returncode == 0
    assert "assistant  Long ago." in done.stdout
