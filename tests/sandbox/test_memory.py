"""The sandbox in memory, and a sandbox whose library is not installed."""

import asyncio
from types import ModuleType

import pytest

from toolwright.core.errors import InvalidRequest, MissingExtra
from toolwright.core.state.sandbox import CodeOptions, CodeResult, Sandbox, read_options
from toolwright.testing import MemorySandbox
from toolwright.wiring.executors import CodeSandbox

pytestmark = pytest.mark.anyio


async def test_it_answers_as_it_was_told_to() -> None:
    async def answer(source: str, options: CodeOptions) -> CodeResult:
        return CodeResult(status="success", result=[source, options.language])

    box = MemorySandbox(answer)
    outcome = await box.start("1 + 1", read_options(language="python"))
    assert outcome.result == ["1 + 1", "python"]
    [(source, options)] = box.asked
    assert (source, options.timeout) == ("1 + 1", 30.0)
    await box.close()


async def test_it_refuses_and_ends_as_the_others_do() -> None:
    async def never(source: str, options: CodeOptions) -> CodeResult:
        await asyncio.Event().wait()
        return CodeResult(status="success")

    box: Sandbox = MemorySandbox(never)
    with pytest.raises(InvalidRequest):
        box.start("", CodeOptions(timeout=-1))
    handle = box.start("", CodeOptions())
    handle.terminate("Enough.")
    outcome = await handle
    assert (outcome.status, str(outcome.error)) == ("terminated", "Enough.")
    late = await box.start("", CodeOptions(timeout=0.01))
    assert late.error is not None and late.error.code == "timeout"
    await box.close()


@pytest.mark.parametrize("language", ["typescript", "javascript", "python"])
async def test_without_the_library_the_extra_is_named(language: str) -> None:
    def lacking(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}")

    box = CodeSandbox(load=lacking)
    with pytest.raises(MissingExtra) as raised:
        box.start("1", read_options(language=language))
    assert raised.value.message == (
        "Running code needs an optional package, which is not installed: pip install 'toolwright-agents[sandbox]'."
    )
    await box.close()
