"""The notes example: an agent whose tools come from an MCP server in a separate process."""

import os
import shlex
import sys
from pathlib import Path

from tests.forks import Forks

NOTES = Path(__file__).parents[2] / "examples" / "notes"
SCRIPT = """
- calls:
    - name: find_note
      args: {topic: tea}
    - name: write_note
      args: {topic: cups, text: Above the tea.}
- text: The green one is in the second drawer.
"""


def printed(commands: Forks, *arguments: str, typed: str = "", **variables: str) -> str:
    """Return the output of the command in the folder of the example. It must succeed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    environ |= {"TOOLWRIGHT_DATABASE_URL": "memory://", **variables}
    done = commands.run(arguments, NOTES, environ, typed)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_agent_is_talked_to_and_calls_the_server(tmp_path: Path, commands: Forks) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    said = printed(
        commands, "chat", "keeper", typed="Where is the tea?\n", TOOLWRIGHT_MODEL=f"scripted:{script}"
    )
    assert 'find_note(topic="tea")' in said
    assert "✓ Noted: cups." in said
    assert "keeper  The green one is in the second drawer." in said


def test_the_server_is_there(commands: Forks) -> None:
    listed = printed(
        commands, "tools", "list", "--mcp", shlex.join([sys.executable, str(NOTES / "notes.py")])
    )
    assert [line.split("\t")[0] for line in listed.splitlines()] == ["find_note", "write_note", "delete_note"]
