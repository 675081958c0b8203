"""The example page uses routes of the current server."""

import re
import runpy
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.api.rig import serving
from toolwright.core.threads.call import Call
from toolwright.wire.call import visible_call_message

PAGE = (Path(__file__).parents[2] / "examples" / "confirm.html").read_text(encoding="utf-8")
pytestmark = pytest.mark.anyio


def routes() -> list[tuple[str, str]]:
    """Return the routes that the page's script uses, with their methods."""
    called: list[tuple[str, str]] = re.findall(r'call\("(\w+)", [`"]([^`"]+)[`"]', PAGE)
    followed = [("GET", path) for path in re.findall(r"new EventSource\(`\$\{server\}([^`]+)`", PAGE)]
    return [*called, *followed]


def plain(path: str) -> str:
    """Return the path alone, with `{}` for each placeholder."""
    return re.sub(r"\$?\{[^}]*\}", "{}", path.partition("?")[0])


async def test_the_page_calls_only_routes_that_there_are() -> None:
    named = routes()
    assert PAGE.count("await call(") == len(named) - 1, "every call is one that the pattern sees"
    assert PAGE.count("fetch(") == 1 and PAGE.count("new EventSource(") == 1
    async with serving() as api:
        known = {
            (method.upper(), plain(path))
            for path, item in api.application.openapi()["paths"].items()
            for method in item
        }
    assert {(method, plain(path)) for method, path in named} <= known
    assert ("POST", "/api/runs/{}/tool-results") in {(method, plain(path)) for method, path in named}


def test_the_page_reads_what_the_message_of_a_call_has() -> None:
    made = Call(
        id="call_1", thread_id="thr_1", run_id="run_1", agent="agt_1", step=1, position=0, name="confirmAction",
        kind="space", arguments="{}", model_call_id="m1", status="pending", created_at=datetime.now(UTC),
    )  # fmt: skip
    names = set(re.findall(r"\bshown\.(\w+)", PAGE))
    assert {"toolName", "toolCallId", "runId", "status"} <= names
    assert names <= set(visible_call_message(made, "tea", "requires_action").metadata)


async def test_old_results_of_the_long_loop_become_references(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "long_loop.py"))
    await example["main"]()
    told = re.fullmatch(r"(\d+) characters; the first page has (\d+)\n", capsys.readouterr().out)
    assert told is not None
    length, first_page = map(int, told.groups())
    assert first_page > 3_000
    assert length < 10 * first_page  # instead of twenty pages
