"""`toolwright demo`."""

import re
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import httpx2

from tests.cli.shell import Shell
from toolwright.cli.doctor import EXTRAS


def folder_of(shown: str) -> Path:
    found = re.search(r"The results are in (.+)", shown)
    assert found is not None, shown
    return Path(found[1])


def test_the_demo_shows_a_run_and_keeps_what_it_made(empty: Shell) -> None:
    empty.env["TMPDIR"] = str(empty.folder)
    done = empty.run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    in_order = [
        "analyst  I'll read the table first.", "→ read_csv(", "→ draw_chart(", 'format="docx"',
        "✗ The format must be markdown or text", 'format="markdown"', "✓ Saved report.md",
        "analyst  Done.", "status", "A space, with you and the agent host in it", "you  Book a hotel",
        "host It is 18 °C", "confirm_booking(hotel='Sakura'): shall I? [Y/n] y (no terminal)",
        "host It is booked", "→ current_weather  over HTTP", "→ find_hotels  by a worker",
        "→ confirm_booking  by you", "The results are in",
    ]  # fmt: skip
    places = [done.stdout.index(text) for text in in_order]
    assert places == sorted(places)
    folder = folder_of(done.stdout)
    chart = ElementTree.fromstring((folder / "chart.svg").read_text(encoding="utf-8"))
    assert int(chart.attrib["width"]) >= 800
    assert len([each for each in chart if each.tag.endswith("rect")]) > 3
    assert "126" in (folder / "report.md").read_text()
    connection = sqlite3.connect(folder / "toolwright.db")
    statuses = [row[0] for row in connection.execute("SELECT status FROM runs")]
    connection.close()
    assert statuses.count("completed") >= 2


def test_the_demos_folder_is_an_app_to_go_on_with(empty: Shell) -> None:
    empty.env["TMPDIR"] = str(empty.folder)
    folder = folder_of(empty.run("demo").stdout)
    there = empty.at(folder)
    assert '"rows":30' in there.run("call", "read_csv", '{"file": "medals.csv"}').stdout
    wrong = there.run(
        "call", "draw_chart", '{"file": "medals.csv", "label": "land", "value": "count", "title": "x"}'
    )
    assert wrong.returncode == 1
    assert "There is no column 'land'. The columns are: country, medal, count." in wrong.stdout


def test_keep_leaves_the_server_up_until_ctrl_c(empty: Shell) -> None:
    empty.env["TMPDIR"] = str(empty.folder)
    with empty.start("demo", "--keep") as demo:
        shown = demo.until("/api/runs\n")
        url, key = re.search(r"http://[\d.:]+", shown), re.search(r"sk_[\w-]+", shown)
        assert url is not None
        assert key is not None
        runs = httpx2.get(
            f"{url[0]}/api/runs", headers={"x-secret-key": key[0]}, trust_env=False, timeout=60
        ).json()
        assert "completed" in {run["status"] for run in runs["runs"]}
        demo.until("sign-in?link=")
        link = re.search(r"http://\S+/console/sign-in\?link=\S+", demo.until("minutes:\n  http"))
        assert link is not None
        entered = [httpx2.get(link[0], trust_env=False, timeout=60) for _ in range(2)]
        assert [each.status_code for each in entered] == [303, 401]
        demo.ctrl_c()
        assert demo.end() == 0
    assert "Traceback" not in demo.shown


def test_ctrl_c_ends_the_demo_at_once(empty: Shell) -> None:
    empty.env["TMPDIR"] = str(empty.folder)
    with empty.start_anew("demo") as demo:
        demo.until("→ read_csv")
        demo.ctrl_c()
        assert demo.end() == 130
    assert "Traceback" not in demo.shown
    assert "The results are in" not in demo.shown


def test_the_demo_needs_no_extra(empty: Shell) -> None:
    hidden = sorted({module for modules in EXTRAS.values() for module in modules} | {"PIL"})
    empty.env |= {"PYTHONPATH": str(empty.folder), "TMPDIR": str(empty.folder)}
    empty.write("sitecustomize.py", f"import sys\n\nsys.modules.update(dict.fromkeys({hidden!r}))\n")
    with empty.start_anew("demo") as demo:
        assert demo.end() == 0, demo.shown
    assert (folder_of(demo.shown) / "chart.svg").exists()
