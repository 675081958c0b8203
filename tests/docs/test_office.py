"""The office example runs offline, by its command, in memory and on a persistent journal."""

import os
from pathlib import Path

from tests.forks import Forks

OFFICE = Path(__file__).parents[2] / "examples" / "office"
GENERAL = [
    "Pam: A party on Friday! What is the theme?",
    "michael: Space! I shall be an astronaut.  🚀",
    "angela: No costumes. There is cake at four.",
    "Pam: Meredith is allergic to peanuts, by the way.",
    "Pam: What can Meredith eat?",
    "angela: Anything but peanuts. I wrote it down.",
]
DM = [
    "jim: Really?",
    "michael: With a helmet.",
    "jim: I can lend you a bigger one.",
    "michael: You are a true friend.",
]


CREW = ("michael", "jim", "dwight", "angela")


def played(commands: Forks, *arguments: str, stripped: bool = True) -> list[str]:
    """Return the lines that the program prints. It must succeed, without a warning."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    done = commands.run(arguments, OFFICE, environ, program="office.py")
    assert (done.returncode, done.stderr) == (0, "")
    return [line.strip() if stripped else line for line in done.stdout.splitlines()]


def said(lines: list[str], channel: str) -> list[str]:
    return [line.removeprefix(f"#{channel}").strip() for line in lines if line.startswith(f"#{channel} ")]


def test_the_office_plays_through_in_memory(commands: Forks) -> None:
    lines = played(commands)
    assert (said(lines, "general"), said(lines, "dm-michael-jim")) == (GENERAL, DM)
    first = lines[: lines.index("Angela remembers:")]
    round_ = [line.split()[0] for line in first if "depth 0:" in line]
    assert round_ == [*CREW]
    assert "dwight   depth 0: do_nothing" in first
    assert "jim      depth 0: react_to_message, send_message" in first
    assert sorted(line.split(":")[0].split()[-1] for line in first if " depth " in line) == [*"0000123"]
    moods = [line for line in lines if line.startswith("Angela's next prompt:")]
    assert [each.endswith("'mood': Busy.") for each in moods] == [True, False]
    assert moods[1].endswith("'mood': Watchful: no peanuts near the cake.")
    assert lines[-1] == "stored: Meredith is allergic to peanuts. ['party']"


def test_the_office_goes_on_where_its_journal_ends(tmp_path: Path, commands: Forks) -> None:
    for _ in range(2):
        lines = played(commands, "--db", f"sqlite:///{tmp_path / 'office.db'}")
        assert (said(lines, "general"), said(lines, "dm-michael-jim")) == (GENERAL, DM)


def test_the_trace_of_a_round_is_printed_as_a_tree(commands: Forks) -> None:
    lines = played(commands, "--trace", stripped=False)
    tree = lines[lines.index("The trace of that:") + 1 :]
    runs = [line for line in tree if "invoke_agent" in line]
    assert runs == [f"{'  ' * depth}invoke_agent {name}" for depth, name in enumerate(CREW)]
    last = [line.strip() for line in tree[tree.index(runs[-1]) :]]
    assert [line for line in last if line.startswith(("step", "execute_tool"))] == [
        "step 1",
        "execute_tool search_memory",
        "step 2",
        "execute_tool send_message",
        "step 3",
    ]
