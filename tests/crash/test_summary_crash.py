"""The process dies at every commit of a conversation that is compacted: it continues, nothing is done or paid twice."""

import pytest
from _pytest.mark.structures import ParameterSet  # the type of `pytest.param` has no public name

from tests.crash.dying import Witness
from tests.crash.processes import INTERRUPTED, KILLED, Scene, processes_of, sampled
from tests.crash.summary_child import COST, TURNS, TURNS_AHEAD
from tests.databases import opened
from tests.runtime.narrow import check_pairs, check_sent
from toolwright.core.threads.compaction import in_force, shown
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio

SHORTENED = (19, 22)  # the commits that compact it, by references and by a summary
COMMITS = (
    # of an undisturbed conversation: thread; message, claim, answer, result, answer per turn; and summaries
    28
)

processes = processes_of("summary_child")


async def check(scene: Scene, turns: int = TURNS) -> None:
    store = await opened(scene.url, MemoryBus())
    runs = await store.runs(limit=100)
    [thread] = await store.threads()
    messages = await store.messages(thread.id, 1_000, 0)
    rows = await store.compactions(thread.id)
    calls = await store.calls(limit=100)
    steps = {run.id: await store.steps(run.id) for run in runs}
    await store.close()
    assert [run.status for run in runs] == ["completed"] * turns
    check_pairs(messages)
    assert [each.role for each in messages] == ["user", "assistant", "tool", "assistant"] * turns
    assert [row.number for row in rows] == [*range(1, len(rows) + 1)]
    assert rows and thread.compacted == len(rows)
    check_pairs(shown(messages, in_force(rows)[0]))
    check_sent(messages, rows)
    effects = [line[0] for line in Witness(scene.folder / "effects").lines()]
    assert len(effects) == len({*effects}) and {*effects} <= {call.id for call in calls}
    for call in calls:
        if call.status == "error":
            assert call.result is not None and call.result["error"] == INTERRUPTED
        else:
            assert call.id in effects
    for run in runs:
        paid = [row for row in rows if row.run_id == run.id and row.usage is not None]
        assert run.cost == (sum(row.cost or 0.0 for row in paid) if paid else None)
        own = sum(step.usage.output_tokens for step in steps[run.id])
        assert run.usage.output_tokens == own + sum(row.usage.output_tokens for row in paid if row.usage)
        assert all((row.cost or 0.0) % COST == 0.0 for row in paid)
    written = len(Witness(scene.folder / "requests").lines())
    assert written >= sum(row.usage is not None for row in rows) > 0
    assert await scene.rows("SELECT 1 FROM wakes") == []


def points(kind: str) -> list[ParameterSet]:
    """Return all commits; those that compact the conversation run in `make test`."""
    others = [unit for unit in range(1, COMMITS + 1) if unit not in SHORTENED]
    return [*[pytest.param(kind, unit) for unit in SHORTENED], *sampled(others, kind)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_undisturbed_conversation(scene: Scene) -> None:
    assert await scene.run() == 0
    assert scene.commits() == COMMITS, "the matrix has every commit"
    await check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "unit"), [point for kind in ("sqlite", "postgres") for point in points(kind)]
)
async def test_death_at_a_commit_of_a_conversation_that_is_shortened(
    scene: Scene, unit: int, when: str
) -> None:
    assert await scene.run(kill={"unit": unit, "when": when}) in (KILLED, 0)
    assert await scene.run() == 0
    await check(scene)


# ── summaries written ahead of time ─────────────────────────────────────────────────────────────────────────────

DEATHS = {
    "its model was asked": {"summary": "asked"},
    "it takes its time": {"summary": "held"},
    "it is ready": {"summary": "written"},
    "it is taken": {"effect": "Compact", "unit": 1, "when": "before"},
    "it is committed": {"effect": "Compact", "unit": 1, "when": "after"},
}


async def numbers(scene: Scene) -> tuple[int, int]:
    """Return the number of requested summaries, and the number in the journal."""
    [(paid,)] = await scene.rows("SELECT count(*) FROM compactions")
    return len(Witness(scene.folder / "requests").lines()), paid


async def check_ahead(scene: Scene) -> None:
    await check(scene, TURNS_AHEAD)
    assert Witness(scene.folder / "refused").lines() == []
    assert await scene.rows("SELECT number FROM compactions WHERE summary IS NULL") == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_undisturbed_summaries_ahead_of_time(scene: Scene) -> None:
    assert await scene.run(ahead=True) == 0
    await check_ahead(scene)
    asked, paid = await numbers(scene)
    assert asked - paid in (0, 1), "one for each, and the next one"
    assert paid > 1


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_death_while_a_summary_is_written_ahead_of_time(scene: Scene, death: str) -> None:
    """The summary is written again if it was not committed, and used if it was."""
    assert await scene.run(ahead=True, kill=DEATHS[death]) == KILLED
    before = await numbers(scene)
    assert before == (1, int(death == "it is committed"))
    assert await scene.run(ahead=True) == 0
    await check_ahead(scene)
    asked, paid = await numbers(scene)
    assert (asked - before[0]) - (paid - before[1]) in (0, 1), "none is written twice but the lost one"
