"""Two apps on one database: one executes the runs, and does not have the other's agents."""

import asyncio
from pathlib import Path

import pytest

import toolwright as tw
from tests.kit import ran
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio
WAITS = "waits. The process that tried"  # as the process logs that has sent the message
RETRIED = "is retried in 1 s, because its agent is not known here"  # as the one that executes runs


def app(name: str) -> tw.App:
    return tw.App(agents=[tw.Agent(name, model=ScriptedModel([{"text": "Done."}]))])


@pytest.mark.parametrize("door", ["wait", "tw.run", "tw.stream"])
async def test_both_say_that_the_agent_is_missing(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/home/ada/clerk.py"])
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    other = app("clerk")

    async def wait() -> None:
        async with other.runtime(settings) as rt:
            await ran(rt, "clerk", "Hi.")

    async def use() -> None:
        match door:
            case "wait":
                await wait()
            case "tw.run":
                await tw.run("clerk", "Hi.", app=other, settings=settings)
            case _:
                async with tw.stream("clerk", "Hi.", app=other, settings=settings) as events:
                    async for _ in events:
                        pass

    async with app("librarian").runtime(settings):
        using = asyncio.create_task(use())
        texts: list[str] = []
        while not all(any(part in each for each in texts) for part in (WAITS, RETRIED)):
            assert not using.done()
            await asyncio.sleep(0.02)
            texts = [each.getMessage() for each in caplog.records]
        using.cancel()
        await asyncio.wait([using])
    assert any(
        each.endswith("give this one a database of its own, such as sqlite:///clerk.db.") for each in texts
    )
    assert sum(WAITS in each for each in texts) == 1
