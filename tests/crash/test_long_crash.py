"""The process dies several times in a long conversation, and in a room: nothing is lost, repeated or read twice."""

import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.crash.dying import Witness
from tests.crash.long_child import BUDGET, CREW, LOOKS, QUESTION, ROUNDS, TURNS, WINDOW, secret_of
from tests.crash.processes import INTERRUPTED, KILLED, Scene, processes_of
from tests.databases import opened
from tests.runtime.narrow import check_sent
from toolwright.core.threads.call import Call
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio

EXHAUSTIVE = [pytest.param(each, marks=pytest.mark.exhaustive) for each in range(2, 10)]

processes = processes_of("long_child")


def deaths(seed: int) -> Sequence[dict[str, Any]]:
    """When the processes die, one after another: at the first compaction of each, and at random commits."""
    random = Random(seed)
    found: list[dict[str, Any]] = [
        {"effect": "Compact", "unit": 1, "when": "before"},
        {"effect": "Compact", "unit": 1, "when": "after"},
    ]
    found += [{"unit": random.randint(3, 40), "when": random.choice(["before", "after"])} for _ in range(4)]
    random.shuffle(found)
    return found


async def die_often(scene: Scene, place: str, seed: int) -> None:
    for kill in deaths(seed):
        assert await scene.run(place=place, kill=kill) == KILLED, kill


def check_sizes(scene: Scene, limit: int) -> None:
    """Check that nothing was refused as too long."""
    assert Witness(scene.folder / "refused").lines() == []
    assert max(int(line[0]) for line in Witness(scene.folder / "sent").lines()) <= limit


@pytest.mark.parametrize("seed", [1, *EXHAUSTIVE])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_long_conversation_outlives_its_processes(scene: Scene, seed: int) -> None:
    await die_often(scene, "conversation", seed)
    assert await scene.run(place="conversation") == 0
    asked = await turn_with_result(scene)
    assert await scene.run(place="conversation", question=asked) == 0
    store = await opened(scene.url, MemoryBus())
    runs = await store.runs(limit=100)
    [thread] = await store.threads()
    messages = await store.messages(thread.id, 1_000, 0)
    rows = await store.compactions(thread.id)
    calls = await store.calls(limit=500)
    await store.close()
    assert {run.status for run in runs} == {"completed"}
    said = [each.content for each in messages if each.role == "user"]
    starts = range(1, TURNS + 1, LOOKS)
    assert said == [*[f"Look from turn {turn}" for turn in starts], f"{QUESTION}{asked}"]
    looks = sorted(turn_of(each) for each in calls if each.name == "look")
    assert looks == [*range(1, TURNS + 1)], "each turn is there, once"
    done = Counter(line[0] for line in Witness(scene.folder / "effects").lines())
    assert {*done.values()} == {1}, "no call was executed twice"
    failed = {each.id: each.result or {} for each in calls if each.status != "done"}
    assert len(failed) <= len(deaths(seed))
    assert all(each["error"] == INTERRUPTED for each in failed.values())
    assert {*done, *failed} == {each.id for each in calls if each.name == "look"}
    assert messages[-1].content == secret_of(asked)
    assert [row.number for row in rows] == [*range(1, len(rows) + 1)]
    assert rows[-1].summary is not None
    check_sent(messages, rows)
    check_sizes(scene, BUDGET)
    assert await scene.rows("SELECT 1 FROM wakes") == []


async def turn_with_result(scene: Scene) -> int:
    """Return an early turn whose call was not interrupted."""
    store = await opened(scene.url, MemoryBus())
    calls = await store.calls(limit=500)
    await store.close()
    return min(turn_of(each) for each in calls if each.status == "done")


def turn_of(call: Call) -> int:
    turn: int = json.loads(call.arguments)["turn"]
    return turn


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *EXHAUSTIVE])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_every_agent_hears_every_message_once(scene: Scene, seed: int) -> None:
    await die_often(scene, "room", seed)
    assert await scene.run(place="room") == 0
    said = await scene.rows("SELECT seq, content FROM space_messages ORDER BY seq")
    assert [seq for seq, _ in said] == [*range(1, ROUNDS * 4 + 1)]
    assert [json.loads(content).split()[0] for _, content in said] == ["Round", *CREW] * ROUNDS
    inbox = await scene.rows("SELECT thread_id, event_id, status FROM inbox")
    assert {status for *_, status in inbox} == {"processed"}
    assert len({(thread, event) for thread, event, _ in inbox}) == len(inbox) == ROUNDS * len(CREW)
    store = await opened(scene.url, MemoryBus())
    threads = await store.threads()
    assert len(threads) == len(CREW)
    for thread in threads:
        messages = await store.messages(thread.id, 1_000, 0)
        rows = await store.compactions(thread.id)
        heard = [each.content for each in messages if each.role == "user"]
        assert len(heard) == ROUNDS
        assert all(f"Round {number}:" in text for number, text in enumerate(heard))
        assert [row.number for row in rows] == [*range(1, len(rows) + 1)]
        assert rows and rows[-1].cut
        check_sent(messages, rows)
    await store.close()
    check_sizes(scene, WINDOW // 2)
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} == {"completed"}
    assert {status for (status,) in await scene.rows("SELECT status FROM calls")} == {"done"}
    assert await scene.rows("SELECT 1 FROM wakes") == []
