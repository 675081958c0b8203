"""A process that has obtained the runner's token: its lines count only as output of the code."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from toolwright.adapters.sandbox.deno import SourceNames
from toolwright.adapters.sandbox.handle import Log
from toolwright.adapters.sandbox.process import HostFunctions, Talk, longest_line
from toolwright.core.concurrency import DaemonThreads
from toolwright.core.state.sandbox import CodeLog, CodeOptions, CodeResult

pytestmark = pytest.mark.anyio
MAX_LINES = 1000
SPEAKER = Path(__file__).with_name("speaker.py")


def line(**said: object) -> str:
    return json.dumps({"token": "TOKEN", **said})


@asynccontextmanager
async def talking(*lines: str, **functions: object) -> AsyncGenerator[tuple[Talk, Log]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SPEAKER), json.dumps(lines), stdin=-1, stdout=-1, limit=longest_line(MAX_LINES)
    )
    log, threads = Log(100_000, str), DaemonThreads(2, "test")
    talk = Talk(process, HostFunctions(functions, threads, MAX_LINES), log, MAX_LINES)  # type: ignore[arg-type]  # as tests pass them
    async with asyncio.timeout(30):
        await talk.begin(CodeOptions(), 1000)
        yield talk, log
    assert process.stdin is not None
    process.stdin.close()
    await process.communicate()
    threads.shutdown()


DEEP = "[" * 800 + "]" * 800


@pytest.mark.parametrize(
    "said",
    [
        "", "[]", "null", "5", '"TOKEN"', "{", "\x00\x01", "[" * 100_000, DEEP, '{"token": "TOKEN"}',
        '{"token": "TOKEN", "kind": "result", "value": NaN}', '{"token": "TOKEN", "kind": "result", "value": Infinity}',
        f'{{"token": "TOKEN", "kind": "result", "value": {"9" * 5000}}}',
        f'{{"token": "TOKEN", "kind": {DEEP}}}', f'{{"token": {DEEP}, "kind": "result"}}',
        line(kind="exit"), line(kind=None), line(kind=["result"]), line(kind="call", id=[1], name="f", args=[]),
        line(kind="call", id=1, name={"a": 1}, args=[]), line(kind="call", id=1, name="f", args={}),
        f'{{"token": "TOKEN", "kind": "call", "id": {DEEP}, "name": "f", "args": []}}',
        f'{{"token": "TOKEN", "kind": "call", "id": 1, "name": {DEEP}, "args": []}}',
        f'{{"token": "TOKEN", "kind": "log", "level": {DEEP}, "text": "x"}}',
        f'{{"token": "TOKEN", "kind": "log", "level": "info", "text": {DEEP}}}',
        f'{{"token": "TOKEN", "kind": "error", "message": {DEEP}, "stack": "x"}}',
        line(kind="error", message=5, stack={}), "LONG", line(kind="log", level="info", text=5),
    ],
    ids=lambda said: said[:30].replace("\x00", "NUL").replace("\x01", ""),
)  # fmt: skip
async def test_what_our_runner_never_writes_is_a_log(said: str) -> None:
    async with talking(said, line(kind="result", value=1), f=lambda: pytest.fail("called")) as (talk, log):
        assert await talk.outcome() == CodeResult(status="success", result=1)
    assert all(entry.level in ("log", "warn") for entry in log.entries)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            line(kind="result", value=json.loads("[" * 70 + "]" * 70)),
            "The result is not JSON: 0.0.0 is nested deeper",
        ),
        (line(kind="result", value="x" * 2500), "The result has 2502 bytes, and 1000 are allowed."),
        ('{"token": "TOKEN", "kind": "result", "value": 1e999}', "The result is not JSON: The value is inf"),
        (line(kind="error"), ""),
        (line(kind="error", message="half \ud800", code="terminated"), "half ?"),
    ],
    ids=lambda each: None,
)
async def test_results_and_errors_are_validated_here(said: str, message: str) -> None:
    async with talking(said) as (talk, _):
        outcome = await talk.outcome()
    assert outcome is not None and outcome.status == "error" and outcome.error is not None
    assert outcome.error.message.startswith(message)


async def test_only_the_first_outcome_counts() -> None:
    async with talking(line(kind="result", value=1), line(kind="result", value=2)) as (talk, _):
        assert await talk.outcome() == CodeResult(status="success", result=1)


async def test_a_call_is_answered_under_its_number_and_others_are_refused() -> None:
    calls = [
        line(kind="call", id=7, name="f", args=[1]),
        line(kind="call", id=7, name="g", args=[1]),
        line(kind="call", id=-(10**30), name="f", args=[1]),
        line(kind="call", name="f", args=[1]),
        line(kind="call", id=8, name="f", args=[1, 2]),
    ]
    said: list[int] = []

    async def f(number: int) -> int:
        said.append(number)
        return number + 1

    async with talking(*calls, f=f) as (talk, log):
        waiting = asyncio.create_task(talk.outcome())
        while len(log.entries) < len(calls):  # noqa: ASYNC110 - the process reports by its lines
            await asyncio.sleep(0)
        waiting.cancel()
    answers = [json.loads(entry.text) for entry in log.entries]
    assert {"id": 7, "value": 2} in answers
    assert {"id": 7, "error": "There is no function 'g' to call."} in answers
    assert said == [1, 1, 1]
    assert [answer for answer in answers if answer["id"] == 8 and "takes 1 positional" in answer["error"]]


def test_names_are_put_into_long_hostile_texts_at_once() -> None:
    names = SourceNames(CodeOptions(filename="a.ts"))
    for text in (
        "\n" * 200_000,
        "\n  at " * 50_000,
        "data:" * 50_000,
        " at " * 100_000,
        "data:a;source=0;base64," * 10_000,
    ):
        assert len(names.put_into(text)) <= len(text)


def test_logs_are_cut_at_their_limit_and_say_so() -> None:
    log = Log(100, str)
    log.add({"no": "level"}, "a")
    log.add("info", "half \ud800")
    log.add("warn", "x" * 500)
    log.add("warn", "never")
    first, second, cut, note = log.entries
    assert (first, second) == (CodeLog(level="log", text="a"), CodeLog(level="info", text="half ?"))
    assert cut.level == "warn" and cut.text.startswith("xxx") and len(cut.text) < 100
    assert note.text == "The code has logged more than 100 bytes; the rest was discarded."
