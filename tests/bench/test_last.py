"""The benchmark's figures compared with the last ones: saved, read, compared, and its command line."""

from io import StringIO
from pathlib import Path

import pytest
from bench.__main__ import PARTS, main, table
from bench.last import LastFigure, read_last, save_last, worsened
from bench.row import Row
from rich.console import Console

LAST = {
    "a step": LastFigure(20.0, "µs", 10.0),
    "commits": LastFigure(500.0, "/s", 1_000.0),
    "memory": LastFigure(100.0, "MB", None),
}


def rows(step: float = 20.0, commits: float = 500.0, memory: float = 100.0) -> list[Row]:
    return [
        Row("a step", step, "µs", 10.0, 30.0),
        Row("commits", commits, "/s", 1_000.0, None, better="more"),
        Row("memory", memory, "MB", None, None),
        Row("a new figure", 1.0, "ms", 0.1, None),
    ]


def test_without_a_saved_file_nothing_is_compared(tmp_path: Path) -> None:
    assert read_last(tmp_path / "none.md") == {}
    assert worsened(rows(step=1_000.0), {}) == []


def test_saved_figures_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "LAST.md"
    save_last(rows(), path)
    assert read_last(path) == LAST | {"a new figure": LastFigure(1.0, "ms", 0.1)}


def test_what_was_not_measured_now_stays(tmp_path: Path) -> None:
    path = tmp_path / "LAST.md"
    save_last(rows(), path)
    save_last([Row("a step", 30.0, "µs", 10.0, None)], path)
    assert read_last(path) == LAST | {
        "a step": LastFigure(30.0, "µs", 10.0),
        "a new figure": LastFigure(1.0, "ms", 0.1),
    }


@pytest.mark.parametrize(
    "measured", [rows(), rows(step=24.9), rows(step=1.0), rows(commits=401.0), rows(memory=124.0)]
)
def test_less_than_a_quarter_is_not_named(measured: list[Row]) -> None:
    assert worsened(measured, LAST) == []


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        (rows(step=25.0), "a step has become worse: 2.50 floors, it was 2.00."),
        (rows(commits=400.0), "commits has become worse: 0.40 floors, it was 0.50."),
        (rows(memory=125.0), "memory has become worse: 125.00 MB, it was 100.00."),
    ],
)
def test_a_ratio_that_is_worse_by_a_quarter_is_named(measured: list[Row], sentence: str) -> None:
    assert worsened(measured, LAST) == [sentence]


def test_a_slower_machine_is_no_worse_ratio() -> None:
    assert worsened([Row("a step", 60.0, "µs", 30.0, None)], LAST) == []


def test_a_figure_stands_beside_its_floor_its_ratio_and_the_last_ones() -> None:
    written = StringIO()
    Console(file=written, width=190).print(table(rows(step=30.0), LAST))
    [line] = [line for line in written.getvalue().splitlines() if "a step" in line]
    cells = [cell.strip() for cell in line.strip("│").split("│")]
    assert cells[:7] == ["a step", "30.00", "µs", "10.00", "3.00", "20.00", "2.00"]


def test_help_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "--save" in shown
    assert all(part in shown for part in PARTS)


def test_an_unknown_part_gets_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["startup", "starup"])
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("There is no part 'starup': the parts are startup, ")
    assert shown.count("\n") == 1
