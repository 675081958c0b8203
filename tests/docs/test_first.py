"""The shortest programs of `examples/first`: short, and working with a provider's wire format."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.docs.test_guides import BLOCK, ROOT, environment
from tests.forks import PYTEST, Forks
from tests.models.wire_server import WireCall, WireServer

pytestmark = pytest.mark.anyio

FIRST = ROOT / "examples" / "first"
MAX_LINES = {"tool": 8, "stream": 6, "approval": 8, "output": 6, "test_tool": 6, "subagent": 6}
"""The maximum number of lines that are not empty, as comparisons of frameworks count them."""


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


async def printed_by(
    commands: Forks, program: str, server: WireServer, *arguments: str, typed: str = ""
) -> str:
    """Return what the program prints, with `typed` as its input. It must succeed, without a warning."""
    done = await asyncio.to_thread(commands.run, arguments, FIRST, environment(server), typed, program)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_first_program_is_as_short_as_elsewhere() -> None:
    lengths = {path.stem: len(lines_of(path)) for path in FIRST.glob("*.py")}
    assert lengths.keys() == MAX_LINES.keys()
    assert {name: count for name, count in lengths.items() if count > MAX_LINES[name]} == {}


def test_the_readme_has_the_shortest_program() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [tool] = [match["code"] for match in BLOCK.finditer(readme) if match["title"] == "tool.py"]
    assert tool == (FIRST / "tool.py").read_text(encoding="utf-8")


async def test_the_first_tool_is_called_by_a_model_over_the_wire(commands: Forks) -> None:
    async with WireServer() as server:
        arguments = json.dumps({"text": "to be or not to be"})
        server.answer(calls=[WireCall(id="c1", name="count_words", arguments=(arguments,))])
        server.answer(text=["It has six words."])
        printed = await printed_by(commands, "tool.py", server)
        assert printed == "It has six words.\n"
        assert '"output": "6"' in json.dumps(server.requests[1].body)


async def test_the_first_stream_prints_the_text_as_it_comes(commands: Forks) -> None:
    async with WireServer() as server:
        server.answer(text=["Rain ", "on ", "leaves."])
        printed = await printed_by(commands, "stream.py", server)
        assert printed == "Rain on leaves."


async def test_the_first_approval_is_asked_for_at_the_terminal(commands: Forks) -> None:
    async with WireServer() as server:
        arguments = json.dumps({"to": "Ann", "euros": 5})
        server.answer(calls=[WireCall(id="c1", name="pay", arguments=(arguments,))])
        server.answer(text=["Done."])
        printed = await printed_by(commands, "approval.py", server, typed="y\n")
        assert printed == "{'to': 'Ann', 'euros': 5}? Done.\n"
        assert "Paid 5 euros to Ann." in json.dumps(server.requests[1].body)


async def test_the_first_output_is_an_instance(commands: Forks) -> None:
    async with WireServer() as server:
        server.answer(text=['{"name": "Berlin", "people": 4}'])
        printed = await printed_by(commands, "output.py", server)
        assert printed == "name='Berlin' people=4\n"
        assert server.requests[0].body["text"]["format"]["type"] == "json_schema"  # type: ignore[index, call-overload]  # as sent


async def test_the_first_subagent_answers_a_call(commands: Forks) -> None:
    async with WireServer() as server:
        arguments = json.dumps({"message": "Rain falls."})
        server.answer(calls=[WireCall(id="c1", name="critic", arguments=(arguments,))])
        server.answer(text=["falls"])
        server.answer(text=["Rain pours."])
        printed = await printed_by(commands, "subagent.py", server)
        assert printed == "Rain pours.\n"
        assert '"output": "falls"' in json.dumps(server.requests[2].body)


async def test_the_first_test_passes_and_asks_no_provider(commands: Forks) -> None:
    async with WireServer() as server:
        await printed_by(commands, PYTEST, server, "-q", "-p", "no:cacheprovider", "test_tool.py")
        assert server.requests == []
