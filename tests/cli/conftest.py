"""Folders with and without an app."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.forks import Forks

APP = '''
import threading

import toolwright as tw


@tw.tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@tw.tool
def fail() -> str:
    """Fail."""
    raise ValueError("it is closed")


@tw.tool
def describe() -> dict[str, str]:
    """Describe."""
    return {"colour": "grün"}


@tw.tool
async def wait_for_stop(state: tw.ThreadState) -> str:
    """Wait until the run is cancelled."""
    await state.execution.abort_signal.wait()
    return "stopped"


@tw.tool
def hang() -> str:
    """Hang, whatever happens."""
    threading.Event().wait()
    return "never"


helper = tw.Agent("helper", tw.Prompt("helper", "Help.", tools=[add, fail, "describe", wait_for_stop, hang]))
app = tw.App(agents=[helper], tools=[describe])
'''

SCRIPT = """
- when: add
  calls: [{name: add, args: {a: 2, b: 3}}]
- when: "5"
  text: The sum is five.
- when: fail
  calls: [{name: fail}]
- when: closed
  text: The shop is closed.
- when: stop
  calls: [{name: wait_for_stop}]
- when: hang
  calls: [{name: hang}]
- when: refuse
  fail: refused
  message: The key is wrong.
- text: Good day to you.
"""


@pytest.fixture
def empty(tmp_path: Path, commands: Forks) -> Shell:
    """A shell in an empty folder."""
    return Shell(tmp_path, commands)


@pytest.fixture
def shell(empty: Shell) -> Shell:
    """A shell in a folder with an app and the script of its model."""
    empty.write("app.py", APP)
    empty.write("script.yaml", SCRIPT)
    empty.env["TOOLWRIGHT_MODEL"] = "scripted:script.yaml"
    return empty


@pytest.fixture(autouse=True)
def _levels_of_logs() -> Iterator[None]:
    """Restore the logging configuration after commands that run in the tests' own process."""
    before: dict[str, int] = {}
    handlers = [*logging.root.handlers]
    for name, each in logging.root.manager.loggerDict.items():
        if name.startswith("toolwright") and isinstance(each, logging.Logger):
            before[name] = each.level
    yield
    for name, each in logging.root.manager.loggerDict.items():
        if name.startswith("toolwright") and isinstance(each, logging.Logger):
            each.setLevel(before.get(name, logging.NOTSET))
    logging.root.handlers[:] = handlers
