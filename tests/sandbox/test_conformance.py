"""The common behaviour of run code in every language."""

import asyncio
import gc
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.behaviour.marks import requirement
from tests.sandbox.rig import LANGUAGES, Programs, children, descriptors, folders, reason, run, sandbox
from toolwright.adapters.sandbox.deno import exit_result
from toolwright.adapters.sandbox.handle import Log
from toolwright.adapters.sandbox.monty import PrintedLines
from toolwright.adapters.sandbox.process import out_of_memory_kills
from toolwright.core.state.sandbox import CodeLimits, CodeLog, read_options
from toolwright.wiring.executors import CodeSandbox

pytestmark = pytest.mark.anyio


@pytest.fixture(params=LANGUAGES, ids=lambda programs: programs.language)
def programs(request: pytest.FixtureRequest) -> Programs:
    chosen: Programs = request.param
    return chosen


@pytest.fixture
async def box() -> AsyncGenerator[CodeSandbox]:
    async with sandbox() as made:
        yield made


async def weather(place: object) -> object:
    await asyncio.sleep(0)
    return {"place": place, "sun": True}


def refuse() -> object:
    raise ValueError("no tea")


async def never() -> None:
    await asyncio.Event().wait()


async def test_the_value_of_the_code_is_the_result(box: CodeSandbox, programs: Programs) -> None:
    outcome = await run(box, programs.value, language=programs.language)
    assert outcome.status == "success" and outcome.error is None and outcome.logs == ()
    assert outcome.result == {"answer": 42, "list": [1, None, True, "ü"]}
    assert outcome.duration_ms > 0


async def test_code_without_a_value_succeeds_with_null(box: CodeSandbox, programs: Programs) -> None:
    for source in ("", programs.add, programs.logs):
        outcome = await run(box, source, language=programs.language)
        assert (outcome.status, outcome.result) == ("success", None)


async def test_a_function_is_called_by_its_name_with_its_arguments(
    box: CodeSandbox, programs: Programs
) -> None:
    language = programs.language
    asked = {"language": language, "execute": {"fn": "add", "args": [2, 3.5]}}
    assert (await run(box, programs.add, asked)).result == 5.5
    given = {"a": [1, {"b": None}], "text": 'quotes " and \u2028 ü 🙂'}
    assert (await run(box, programs.default, language=language, execute={"args": [given]})).result == given


async def test_without_the_function_that_is_asked_for_there_is_an_error(
    box: CodeSandbox, programs: Programs
) -> None:
    outcome = await run(box, programs.add, language=programs.language, execute={"fn": "sub"})
    assert reason(outcome) == ("error", "result")
    assert "sub" in str(outcome.error)
    outcome = await run(box, programs.add, language=programs.language, execute={})
    assert reason(outcome) == ("error", "result")
    assert "default" in str(outcome.error)


async def test_what_the_code_raises_is_reported_with_the_name_that_the_code_was_given(
    box: CodeSandbox, programs: Programs
) -> None:
    outcome = await run(box, programs.raises, language=programs.language, filename="sums.txt")
    assert reason(outcome) == ("error", "error")
    assert outcome.error is not None
    assert outcome.error.message == "TypeError: boom"
    assert "sums.txt" in outcome.error.stack and "inner" in outcome.error.stack
    for ours in ("toolwright", "runner", "base64", "/", "python-input"):
        assert ours not in outcome.error.stack


async def test_code_that_cannot_be_read_is_an_error_at_its_place(
    box: CodeSandbox, programs: Programs
) -> None:
    outcome = await run(box, programs.broken, language=programs.language, filename="broken.txt")
    assert reason(outcome) == ("error", "error")
    assert outcome.error is not None
    assert "SyntaxError" in outcome.error.message
    assert "broken.txt" in outcome.error.stack
    assert "base64" not in f"{outcome.error}"


async def test_logs_have_levels_and_come_in_order(box: CodeSandbox, programs: Programs) -> None:
    outcome = await run(box, programs.logs, language=programs.language)
    assert [log.level for log in outcome.logs] == ["log", "error"]
    assert outcome.logs[0].text.startswith("a {") and outcome.logs[1].text == "b"


async def test_endless_logs_are_kept_up_to_the_limit(programs: Programs) -> None:
    async with sandbox(CodeLimits(logs=5_000)) as box:
        outcome = await run(box, programs.noisy, language=programs.language, timeout=1.5)
    assert reason(outcome) == ("terminated", "timeout")
    assert 4 <= len(outcome.logs) <= 7
    assert outcome.logs[0] == CodeLog(level="log", text="x" * 1000)
    assert "5000 bytes" in outcome.logs[-1].text


async def test_functions_of_the_host_are_imported_and_awaited(box: CodeSandbox, programs: Programs) -> None:
    imports = {"weather": weather}
    outcome = await run(box, programs.ask, language=programs.language, imports=imports)
    assert outcome.result == {"place": "Rome", "sun": True}
    outcome = await run(box, programs.gather, language=programs.language, imports=imports)
    assert outcome.result == [{"place": n, "sun": True} for n in range(50)]


async def test_a_plain_function_of_the_host_may_block(box: CodeSandbox, programs: Programs) -> None:
    def plain(place: str) -> tuple[str, int]:
        return (place, 1)

    outcome = await run(box, programs.ask, language=programs.language, imports={"weather": plain})
    assert outcome.result == ["Rome", 1]


async def test_the_code_sees_what_a_function_of_the_host_raises(box: CodeSandbox, programs: Programs) -> None:
    imports = {"refuse": refuse}
    caught = await run(box, programs.caught, language=programs.language, imports=imports)
    assert caught.result == "Error no tea"
    uncaught = await run(box, programs.uncaught, language=programs.language, imports=imports)
    assert reason(uncaught) == ("error", "error")
    assert uncaught.error is not None and uncaught.error.message == "no tea"


@pytest.mark.parametrize(
    "returned",
    [float("nan"), b"x", {(1, 2): 3}, object(), StopIteration],
    ids=lambda each: type(each).__name__,
)
async def test_what_a_function_of_the_host_returns_is_json(
    box: CodeSandbox, programs: Programs, returned: object
) -> None:
    def odd() -> object:
        if returned is StopIteration:
            raise StopIteration
        return returned

    outcome = await run(box, programs.caught, language=programs.language, imports={"refuse": odd})
    assert outcome.status == "success" and str(outcome.result).startswith("Error ")


async def test_a_function_of_the_host_that_is_cancelled_by_itself_is_an_error_too(
    box: CodeSandbox, programs: Programs
) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    outcome = await run(box, programs.caught, language=programs.language, imports={"refuse": cancelled})
    assert outcome.result == "Error 'refuse' was cancelled."


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt("3"), GeneratorExit("3")], ids=repr)
async def test_what_would_end_the_server_is_an_error_to_the_code(
    box: CodeSandbox, programs: Programs, raised: BaseException
) -> None:
    async def on_the_loop() -> None:
        raise raised

    def in_a_thread() -> None:
        raise raised

    for function in (on_the_loop, in_a_thread):
        outcome = await run(box, programs.caught, language=programs.language, imports={"refuse": function})
        assert (outcome.status, outcome.result) == ("success", "Error 3")


async def test_globals_are_there_as_json(box: CodeSandbox, programs: Programs) -> None:
    given = {"list": [1, 2.5, None, "ü"], "deep": {"er": True}}
    outcome = await run(box, programs.read_global, language=programs.language, globals={"given": given})
    assert outcome.result == given


async def test_nothing_is_shared_between_runs(box: CodeSandbox, programs: Programs) -> None:
    await run(box, programs.leave, language=programs.language)
    assert (await run(box, programs.find, language=programs.language)).result is False


async def test_what_json_cannot_carry_is_an_error(box: CodeSandbox, programs: Programs) -> None:
    outcomes = await asyncio.gather(
        *(run(box, source, language=programs.language) for source in programs.no_json)
    )
    for source, outcome in zip(programs.no_json, outcomes, strict=True):
        assert reason(outcome) == ("error", "result"), source
        assert outcome.error is not None and outcome.error.message


async def test_what_holds_itself_reaches_no_function_of_the_host(
    box: CodeSandbox, programs: Programs
) -> None:
    reached: list[object] = []

    async def weather(*args: object, **named: object) -> str:
        reached.append((args, named))
        return "Reached."

    for source in programs.cyclic:
        outcome = await run(box, source, language=programs.language, imports={"weather": weather})
        assert outcome.status == "success", outcome.error
        assert "contains itself, which JSON cannot represent" in str(outcome.result)
    assert reached == []


async def test_a_result_over_the_limit_is_an_error_that_names_both(
    box: CodeSandbox, programs: Programs
) -> None:
    outcome = await run(box, programs.large, language=programs.language)
    assert reason(outcome) == ("error", "result")
    assert str(outcome.error) == "The result has 3000002 bytes, and 1048576 are allowed."


async def test_code_without_an_end_is_ended_in_time(box: CodeSandbox, programs: Programs) -> None:
    for source in (programs.forever, programs.waits):
        outcome = await run(box, source, language=programs.language, imports={"never": never}, timeout=0.5)
        assert reason(outcome) == ("terminated", "timeout")
        assert str(outcome.error) == "The code ran for more than 0.5 s."


@requirement("S0-1-6")
async def test_code_without_measure_is_ended_by_its_memory(box: CodeSandbox, programs: Programs) -> None:
    outcome = await run(box, programs.greedy, language=programs.language)
    assert reason(outcome) == ("terminated", "memory")


@pytest.mark.parametrize(
    "size", ["new TextEncoder().encode('x'.repeat(2 ** 29 - 30)).length", "btoa('x'.repeat(2 ** 29 - 30))"]
)
async def test_one_allocation_of_javascript_that_is_too_large_is_ended_by_its_memory(
    box: CodeSandbox, size: str
) -> None:
    outcome = await run(box, f"export default {size}", language="javascript")
    assert reason(outcome) == ("terminated", "memory")
    assert str(outcome.error) == "The code used more than the allowed 67108864 bytes of memory."


def test_a_process_that_ended_for_lack_of_memory_is_told_from_one_that_was_killed(tmp_path: Path) -> None:
    def code(status: int, stderr: bytes = b"", *, exceeded: bool = False, short: bool = False) -> str:
        outcome = exit_result(status, stderr, 1, exceeded=exceeded, system_short=short)
        assert outcome.error is not None
        return outcome.error.code

    assert code(-signal.SIGKILL, exceeded=True) == "memory"
    assert code(-signal.SIGKILL, short=True) == "memory"
    assert code(-signal.SIGKILL) == "exited"
    assert code(-signal.SIGABRT) == "memory", "it had no memory to write why"
    assert code(-signal.SIGABRT, b"assertion failed") == "exited"
    assert code(-signal.SIGTRAP, b"Fatal process out of memory: Zone") == "memory"
    assert code(1) == "exited"
    statistics = tmp_path / "vmstat"
    assert out_of_memory_kills(statistics) == 0
    statistics.write_text("pgfault 12\noom_kill 3\n")
    assert out_of_memory_kills(statistics) == 3


SHARED = (
    "sorted(['x' * 1000] * 10**6)",
    "[[[[1] * 1000] * 1000] * 1000] * 1000",
    "{'a': ['x' * 10**6] * 10**6}",
)


@pytest.mark.parametrize("value", SHARED)
async def test_a_value_that_is_little_in_python_and_endless_as_json_is_never_written(
    box: CodeSandbox, value: str
) -> None:
    outcome = await run(box, value, language="python")
    assert reason(outcome) == ("error", "result")
    assert "more than the allowed 1048576 bytes" in str(outcome.error)
    got: list[object] = []

    def take(given: object) -> None:
        got.append(given)

    outcome = await run(box, f"await take({value})", language="python", imports={"take": take})
    assert reason(outcome) == ("error", "error")
    assert "more than the allowed 1048576 bytes" in str(outcome.error) and got == []


async def test_a_single_value_of_python_without_measure_is_ended_by_its_memory_too(box: CodeSandbox) -> None:
    outcome = await run(box, "','.join(['x' * 1000] * 1000000)", language="python")
    assert reason(outcome) == ("terminated", "memory")
    assert str(outcome.error) == "The code used more than the allowed 67108864 bytes of memory."
    assert "67108864 bytes" in str(outcome.error)


@requirement("S0-1-6")
async def test_code_is_ended_from_outside_for_a_reason_and_keeps_its_logs(
    box: CodeSandbox, programs: Programs
) -> None:
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()
        await never()

    source = f"{programs.logs}\n{programs.waits}"
    options = read_options(language=programs.language, imports={"never": begin})
    handle = box.start(source, options)
    await begun.wait()
    handle.terminate("Nobody needs it.")
    handle.terminate("Too late.")
    outcome = await handle
    assert reason(outcome) == ("terminated", "terminated")
    assert str(outcome.error) == "Nobody needs it."
    assert [log.text for log in outcome.logs][-1] == "b"
    assert await handle == outcome, "a handle can be awaited again"


async def test_code_that_is_ended_at_once_never_runs(box: CodeSandbox, programs: Programs) -> None:
    handle = box.start(programs.forever, read_options(language=programs.language))
    handle.terminate("No.")
    assert str((await handle).error) == "No."


async def test_to_end_what_has_ended_changes_nothing(box: CodeSandbox, programs: Programs) -> None:
    handle = box.start(programs.value, read_options(language=programs.language))
    assert (await handle).status == "success"
    handle.terminate("Too late.")
    assert (await handle).status == "success"


async def test_to_cancel_who_waits_ends_the_code(box: CodeSandbox, programs: Programs) -> None:
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()
        await never()

    before = children()
    waiting = asyncio.create_task(
        run(box, programs.waits, language=programs.language, imports={"never": begin})
    )
    await begun.wait()
    assert children() - before
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await _gone(before)


async def test_abandoned_code_ends(box: CodeSandbox, programs: Programs) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def begin() -> None:
        begun.set()
        try:
            await never()
        finally:
            cancelled.set()

    before = children()
    handle = box.start(programs.waits, read_options(language=programs.language, imports={"never": begin}))
    await begun.wait()
    del handle
    gc.collect()
    async with asyncio.timeout(20):
        await cancelled.wait()
    await _gone(before)


async def test_a_closed_sandbox_has_ended_everything(programs: Programs) -> None:
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()
        await never()

    before = children()
    async with sandbox() as box:
        handle = box.start(programs.waits, read_options(language=programs.language, imports={"never": begin}))
        await begun.wait()
    assert reason(await handle) == ("terminated", "terminated")
    assert not children() - before and not folders()
    outcome = await box.start(programs.value, read_options(language=programs.language))
    assert str(outcome.error) == "The sandbox is closed."


async def test_twenty_at_once_and_nothing_is_left(box: CodeSandbox, programs: Programs) -> None:
    await run(box, programs.value, language=programs.language)
    before, open_before = children(), descriptors()
    outcomes = await asyncio.gather(
        *(run(box, programs.default, language=programs.language, execute={"args": [n]}) for n in range(20))
    )
    assert [outcome.result for outcome in outcomes] == list(range(20))
    await _gone(before)
    assert not folders()
    assert descriptors() <= open_before + 2  # kept by a library for its next process


async def _gone(before: set[int]) -> None:
    """Wait until only earlier processes are left; one can still be starting."""
    async with asyncio.timeout(20):
        while children() - before:  # noqa: ASYNC110 - the kernel sends no notification
            await asyncio.sleep(0)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_what_python_prints_is_one_entry_a_line_however_it_arrives(size: int) -> None:
    log = Log(1_000, str)
    printed = PrintedLines(log)
    text = "a\n\nbc\nd"
    for start in range(0, len(text), size):
        printed.add("stdout", text[start : start + size])
    printed.add("stderr", "e\n")
    printed.end()
    entries = [(each.level, each.text) for each in log.entries]
    assert entries == [("log", "a"), ("log", ""), ("log", "bc"), ("log", "d"), ("error", "e")]
