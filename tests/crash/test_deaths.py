"""Processes die at every commit of each script, and in its tools: what the next one leaves is as without the deaths.

A script is the `run` of a `*_child` module, with the check of what it has left. On SQLite a process dies at each
commit. On Postgres, where a process takes longer, it dies at every third.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from _pytest.mark.structures import ParameterSet  # the type of `pytest.param` has no public name

from tests.crash.dying import Witness
from tests.crash.modes_child import KEY as VALUE
from tests.crash.processes import INTERRUPTED, KILLED, Processes, Scene, assert_answered, kill_points, sampled
from tests.crash.tenvs_child import KEY
from tests.crash.toolkit_child import CALLS as LOOP
from tests.databases import opened
from tests.runtime.solving import DONE
from toolwright.testing import MemoryBus

pytestmark = pytest.mark.anyio

NAMES = ("Ada", "Bob", "Cy")
SHORT = {"summary": "short"}
NESTED = {
    "sums": "",
    "sums.1": "work 1",
    "sums.2": "look 2",
    "sums.3": "deep",
    "sums.3.1": "work 3",
    "caller": "",
    "caller.1": "work 4",
    "caller.2": "look 5",
    "caller.3": "deep",
    "caller.3.1": "work 3",
}


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script with the check of what it has left, which returns the number of interrupted calls."""

    check: Callable[[Scene], Awaitable[int | None]]
    commits: int
    """The most commits of an undisturbed run: the last ones can be missing."""
    sure: int = 0
    """The commits that each run has."""
    first: int = 1
    """The first commit at which a process dies."""
    every: tuple[int, int] = (1, 3)
    """It dies at one of that many commits, on SQLite and on Postgres; 0 is none."""


@pytest.fixture
def processes(forks: "subprocess.Popen[str]", script: str) -> Processes:
    return Processes(forks, f"{script}_child")


async def check_composed(scene: Scene) -> int:
    """The request is solved, and no handler was called twice. Return the number of interrupted calls."""
    solution = json.loads((scene.folder / "solution").read_text())
    assert (solution["output"], solution["steps"]) == (DONE, 4)
    results = solution["results"]
    assert len(results) == len(NAMES)
    wrong = [each for each, name in zip(results, NAMES, strict=True) if each != f"Hello {name}"]
    assert wrong in ([], [None])
    assert await scene.rows("SELECT status, stop_reason, step_count FROM runs") == [
        ("completed", "end_turn", 4)
    ]
    said = await scene.rows("SELECT role FROM messages ORDER BY seq")
    assert "".join(role[0] for (role,) in said) == "uauauattat"
    begun = Counter(line.split()[1] for line in (scene.folder / "witness").read_text().splitlines())
    assert all(begun[name] <= 1 for name in NAMES), "no effect may happen twice"
    assert await scene.rows("SELECT 1 FROM wakes") == []
    return len(wrong)


async def check_delegate(scene: Scene) -> None:
    """The request and both delegates are solved, without repeated writes."""
    solution = json.loads((scene.folder / "solution").read_text())
    assert solution == {"output": DONE, "results": [SHORT, SHORT], "state": {"sums": [SHORT, SHORT]}}
    runs = await scene.rows("SELECT status, stop_reason, step_count FROM runs")
    assert runs == [("completed", "end_turn", 2)] * 3
    assert await scene.rows("SELECT kind, status FROM calls") == [("delegate", "resolved")] * 2
    assert len(await scene.rows("SELECT 1 FROM threads WHERE parent_id IS NOT NULL")) == 2
    assert await scene.rows("SELECT 1 FROM wakes") == []


async def check_family(scene: Scene) -> None:
    """All runs of the parent and of its children ended as without a crash (S0 §5)."""
    threads = await scene.rows("SELECT id, agent, state, run_id, report FROM threads ORDER BY created_at, id")
    boss, *children = threads
    assert len(children) == 4
    assert sorted(str(state) for _, _, state, _, _ in children) == [
        "idle",
        "terminated",
        "terminated",
        "terminated",
    ]
    assert [(run, report) for _, _, _, run, report in threads] == [(None, None)] * 5
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} == {"completed"}
    calls = Counter(await scene.rows("SELECT name, status FROM calls"))
    assert calls == {
        ('"prepare"', "resolved"): 1,
        ('"subagent_create"', "resolved"): 1,
        ('"later"', "done"): 1,
        ('"direct"', "resolved"): 1,
        ('"poke"', "done"): 1,
        ('"look"', "done"): 5,
    }
    inbox = await scene.rows(f"SELECT type, status, event_id FROM inbox WHERE thread_id = '{boss[0]}'")
    assert Counter((type_, status) for type_, status, _ in inbox) == {
        ("message", "processed"): 1,
        ("subagent", "processed"): 1,
    }
    await assert_answered(scene, [each[0] for each in threads], "Interrupted")
    assert await scene.rows("SELECT 1 FROM wakes") == []


async def check_modes(scene: Scene) -> None:
    """Children that live on, talk, report or are deferred ended as without a crash (S0 §5, §6)."""
    threads = await scene.rows("SELECT id, name, state, run_id, report FROM threads ORDER BY created_at, id")
    boss, *children = threads
    assert sorted((str(name), str(state)) for _, name, state, _, _ in children) == [
        ('"Alpha"', "terminated"),
        ('"Beta"', "terminated"),
        ('"Bob"', "idle"),
        ('"Eve"', "idle"),
        ('"Needy"', "idle"),
        ("None", "terminated"),  # the pair of agents
    ]
    assert [(run, report) for _, _, _, run, report in threads] == [(None, None)] * 7
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} == {"completed"}
    calls = Counter(await scene.rows("SELECT name, status FROM calls"))
    assert calls == {
        ('"clerk"', "resolved"): 2,
        ('"code"', "done"): 2,
        ('"subagent_create"', "done"): 1,
        ('"subagent_create"', "resolved"): 1,
        ('"subagent_create"', "error"): 1,
        ('"pair"', "resolved"): 1,
        ('"again"', "done"): 1,
        ('"subagent_message"', "resolved"): 1,
        ('"tell"', "done"): 2,
        ('"key"', "done"): 1,
    }
    inbox = await scene.rows(f"SELECT type, status FROM inbox WHERE thread_id = '{boss[0]}'")
    assert Counter(inbox) == {("message", "processed"): 1, ("subagent", "processed"): 4}
    await assert_answered(scene, [each[0] for each in threads], "Interrupted", VALUE)
    for table in ("wakes", "requests"):
        assert await scene.rows(f"SELECT 1 FROM {table}") == [], table


async def check_retry(scene: Scene) -> None:
    """The retried run completed, and its effect was not repeated."""
    store = await opened(scene.url, MemoryBus())
    [run] = await store.runs()
    [call] = await store.calls(limit=10)
    messages = await store.run_messages(run.id)
    await store.close()
    assert (run.status, run.stop_reason, run.error, run.output) == ("completed", "end_turn", None, "Paid.")
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    effects = [line[0] for line in Witness(scene.folder / "effects").lines()]
    if call.status == "error":
        assert call.result is not None and call.result["error"] == INTERRUPTED
        assert effects in ([], [call.id])
    else:
        assert effects == [call.id]
    assert await scene.rows("SELECT 1 FROM wakes") == []


async def check_toolkit(scene: Scene) -> None:
    """Every call of the custom loop is recorded once with its result."""
    store = await opened(scene.url, MemoryBus())
    [run] = await store.runs()
    calls = sorted(await store.calls(limit=100), key=lambda call: (call.step, call.position))
    messages = await store.run_messages(run.id)
    await store.close()
    assert (run.status, run.stop_reason, run.step_count) == ("completed", "end_turn", len(LOOP))
    assert [call.name for call in calls] == [name for name, _ in LOOP]
    asked = [call.id for message in messages for call in message.calls]
    answered = [message.call_id for message in messages if message.role == "tool"]
    assert asked == answered == [call.id for call in calls]
    effects = [line[0] for line in Witness(scene.folder / "effects").lines()]
    by_name = {call.name: call for call in calls}
    effect = by_name.pop("effect")
    assert {call.status for call in by_name.values()} == {"done"}
    if effect.status == "error":
        assert effect.result is not None and effect.result["error"] == INTERRUPTED
        assert effects in ([], [effect.id])
    else:
        assert effects == [effect.id]
    assert set(Witness(scene.folder / "looks").lines()[0][:1]) == {by_name["look"].id}
    assert len(await scene.rows("SELECT 1 FROM space_messages")) == 1
    assert len(await scene.rows("SELECT 1 FROM passages")) == 1
    assert {status for (status,) in await scene.rows("SELECT status FROM inbox")} == {"processed"}
    assert await scene.rows("SELECT 1 FROM wakes") == []


async def check_channels(scene: Scene) -> None:
    """Each of the three agents answered once, in its turn."""
    for space_id, said in (("general", ["Ideas?", "michael!", "jim!", "dwight!"]), ("dm", ["Psst", "Yes?"])):
        messages = await scene.rows(
            f"SELECT seq, content FROM space_messages WHERE space_id = '{space_id}' ORDER BY seq"
        )
        assert [json.loads(content) for _, content in messages] == said
        assert [seq for seq, _ in messages] == [*range(1, len(said) + 1)]
    inbox = await scene.rows("SELECT thread_id, event_id, status FROM inbox")
    assert {status for _, _, status in inbox} == {"processed"}
    [(question,)] = await scene.rows("SELECT id FROM space_messages WHERE space_id = 'general' AND seq = 1")
    asked = [thread_id for thread_id, event_id, _ in inbox if event_id == question]
    assert (len(asked), len({*asked}), len(inbox)) == (3, 3, 5)
    [(reacted,)] = await scene.rows("SELECT message_id FROM reactions")
    assert reacted == question
    types = [type for (type,) in await scene.rows("SELECT type FROM space_events")]
    assert (types.count("reaction_added"), types.count("space.message")) == (1, 6)
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} == {"completed"}
    assert {status for (status,) in await scene.rows("SELECT status FROM calls")} == {"done"}
    threads = [thread_id for (thread_id,) in await scene.rows("SELECT id FROM threads")]
    assert len(threads) == 3
    await assert_answered(scene, threads, "Interrupted")
    assert await scene.rows("SELECT 1 FROM wakes") == []


async def check_space(scene: Scene) -> None:
    """Every message was posted once, every call is shown to its end."""
    said = await scene.rows("SELECT seq, content, metadata FROM space_messages ORDER BY seq")
    assert [json.loads(content) for _, content, _ in said] == ["Book", "", "Moment", "Booked"]
    assert [seq for seq, _, _ in said] == [1, 2, 3, 4]
    shown = json.loads(said[1][2])
    assert (shown["status"], shown["result"]) == ("complete", {"confirmed": True})
    assert {status for (status,) in await scene.rows("SELECT status FROM inbox")} == {"processed"}
    assert {status for (status,) in await scene.rows("SELECT status FROM runs")} <= {"completed", "skipped"}
    assert {status for (status,) in await scene.rows("SELECT status FROM calls")} <= {"done", "resolved"}
    numbers = [n for (n,) in await scene.rows("SELECT n FROM space_events ORDER BY n")]
    assert numbers == list(range(1, len(numbers) + 1))
    types = [type for (type,) in await scene.rows("SELECT type FROM space_events ORDER BY n")]
    assert types.count("space.message") == 4
    assert types.count("tool.done") == types.count("message_updated") == 1
    assert await scene.rows("SELECT 1 FROM wakes") == []


async def check_tenvs(scene: Scene) -> None:
    """There is one child, with all tenvs, encrypted."""
    [(child,)] = await scene.rows("SELECT id FROM threads WHERE parent_id IS NOT NULL")
    kept = await scene.rows(f"SELECT name, type, key IS NULL FROM env WHERE owner = '{child}' ORDER BY name")
    assert kept == [("api_key", "secret", 0), ("shop", "text", 1), ("size", "text", 1)]
    said = str(await scene.rows(f"SELECT body FROM messages WHERE thread_id = '{child}'"))
    assert "tea 3 True" in said
    assert KEY not in said
    [(parent,)] = await scene.rows("SELECT id FROM threads WHERE parent_id IS NULL")
    brought = await scene.rows(f"SELECT name, type FROM env WHERE owner = '{parent}' ORDER BY name")
    assert brought == [("api_key", "secret"), ("shop", "text")]
    assert await scene.rows("SELECT DISTINCT status FROM runs") == [("completed",)]
    assert KEY not in str(await scene.rows("SELECT value FROM env"))


async def check_dependencies(scene: Scene) -> None:
    """Each process opened at most one pool, and the last one left nothing open."""
    lines = Witness(scene.folder / "witness").lines()
    by_process = [
        Counter(line[0] for line in lines if line[-1] == pid) for pid in {line[-1] for line in lines}
    ]
    assert all(each["open"] <= 1 for each in by_process)
    last = [line[0] for line in lines if line[-1] == lines[-1][-1]]
    reads = last.count("read")
    kept = ["open", *["begin", "read", "end"] * reads, "close"] if reads else []
    assert last == [*kept, "stopped"]
    assert await scene.rows("SELECT status FROM runs") == [("completed",)]
    [(thread_id,)] = await scene.rows("SELECT id FROM threads")
    await assert_answered(scene, [thread_id], "Interrupted")
    assert len(by_process) > 1 or len(lines) == 15


async def check_deps(scene: Scene) -> None:
    """The run and its child have the deps that the first process was given, and every tool has read them."""
    assert await scene.rows("SELECT status, deps FROM runs") == [("completed", '{"id":7}')] * 2
    read = [line[:-1] for line in Witness(scene.folder / "witness").lines() if line[0] == "read"]
    assert len(read) >= 2
    assert all("7" in line for line in read)


async def check_approvals(scene: Scene) -> None:
    """Nothing was paid twice or without an approval."""
    assert await scene.rows("SELECT status FROM runs") == [("completed",)]
    assert await scene.rows("SELECT 1 FROM wakes") == []
    paid = payments(scene)
    assert len(paid) == len(set(paid)), "no effect may happen twice"
    assert set(paid) <= {"1", "3", "5"}
    calls = await scene.rows("SELECT name, status, approval, result FROM calls ORDER BY step, position, id")
    asked = [(status, approval) for name, status, approval, _ in calls if json.loads(name) == "pay"]
    assert {status for status, _ in asked} <= {"done", "resolved", "error"}
    # the refused payment
    assert [status for status, approval in asked if approval == "asked"] == ["resolved"]
    interrupted = [each for each in calls if json.loads(each[3]).get("error") == INTERRUPTED]
    assert len(paid) + len(interrupted) >= 3
    said = await scene.rows("SELECT body FROM messages WHERE role = 'tool' ORDER BY seq")
    assert len(said) == 4
    assert "The call was not approved: no" in said[1][0]


def payments(scene: Scene) -> list[str]:
    """Return the numbers of the payments, in order."""
    return [line[1] for line in Witness(scene.folder / "witness").lines()]


async def check_within(scene: Scene) -> int:
    """All nested calls have a result, and no effect that might not be repeatable was repeated.

    Return the number of interrupted calls.
    """
    calls = await scene.rows("SELECT id, name, status, result FROM calls ORDER BY step, position")
    names = {id_: json.loads(name) for id_, name, _, _ in calls}
    placed = {".".join([names[id_.split(".")[0]], *id_.split(".")[1:]]) for id_ in names}
    assert placed == {*NESTED, "expert", "work", "look"}
    assert {status for _, _, status, _ in calls} <= {"done", "error"}
    broken = [names[id_] for id_, _, _, result in calls if json.loads(result).get("error") == INTERRUPTED]
    assert set(broken) <= {"work"}
    assert not [each for each in calls if "There is no tool" in each[3]], "each with the tools of who made it"
    assert await scene.rows("SELECT status, stop_reason, step_count FROM runs") == [
        ("completed", "end_turn", 3)
    ]
    said = await scene.rows("SELECT role, body FROM messages WHERE within IS NULL ORDER BY seq")
    assert "".join(role[0] for role, _ in said) == "uattttatata"
    bodies = [json.loads(body) for _, body in said]
    assert bodies[-1]["content"] == "All done."
    asked = [each[0] for body in bodies for each in body.get("calls", [])]
    assert asked == [body["call"][0] for body in bodies if "call" in body]
    begun = Counter(line.split()[1] for line in (scene.folder / "witness").read_text().splitlines())
    assert all(begun[n] <= 1 for n in ("1", "4", "6")), "no effect may happen twice"
    assert begun["3"] <= 2  # it is called in two places
    assert set(begun) | {str(n) for n in range(1, 9)} == {str(n) for n in range(1, 9)}
    assert await scene.rows("SELECT 1 FROM wakes") == []
    return len(broken)


async def check_hooks(scene: Scene) -> int:
    """Each verdict was recorded once, and it is what became of its call, however often it was asked for before."""
    assert await scene.rows("SELECT status, stop_reason FROM runs") == [("completed", "end_turn")] * 2
    calls = {
        call_id: (json.loads(name), json.loads(json.loads(arguments)), json.loads(result))
        for call_id, name, arguments, result in await scene.rows(
            "SELECT id, name, arguments, result FROM calls"
        )
    }
    rows = await scene.rows("SELECT point, call_id, ruling, reason FROM hook_verdicts")
    assert len({(point, call_id) for point, call_id, _, _ in rows if call_id}) == len(
        [r for r in rows if r[1]]
    )
    assert [ruling for point, _, ruling, _ in rows if point == "after_model"] == ["retried"]
    interrupted = 0
    for point, call_id, ruling, reason in rows:
        if call_id is None:
            continue
        name, arguments, result = calls[call_id]
        reason = None if reason is None else json.loads(reason)
        match ruling:
            case "denied":
                assert (name, arguments["n"], result["error"]) in (("pay", 1, reason), ("look", 2, reason))
            case "replaced":
                assert arguments["n"] > 20
            case "asked":
                assert (name, arguments["n"]) == ("pay", 3)
            case _:
                assert (point, ruling) == ("after_call", "changed")
    ruled = Counter(ruling for _, _, ruling, _ in rows if ruling != "changed")
    assert ruled == {"denied": 2, "replaced": 2, "asked": 1, "retried": 1}
    changed = {call_id for point, call_id, _, _ in rows if point == "after_call"}
    for call_id, (name, _, result) in calls.items():
        if call_id in changed:
            assert result["result"].split(", ")[-1].isdigit()
        elif "Interrupted" in str(result.get("error")):
            interrupted += 1
        else:
            assert "Asked" in result["error"], name
    late = next(result["result"] for name, _, result in calls.values() if name == "ask")
    [read] = [
        text for (text,) in await scene.rows("SELECT body FROM messages") if "[Tool Result: ask]" in text
    ]
    assert late in read, "the late result was read as the hook has changed it"
    paid = [
        int(line.split()[1]) for line in (scene.folder / "witness").read_text().splitlines() if "paid" in line
    ]
    assert len(paid) == len(set(paid)), "no payment is made twice"
    assert len(paid) + interrupted >= 3
    allowed = {arguments["n"] for name, arguments, _ in calls.values() if name == "pay"}
    assert {*paid} <= allowed - {1}, "none with arguments of a lost verdict"
    assert "ann@x.org" not in str(await scene.rows("SELECT text FROM sent_texts"))
    return interrupted


async def check_dynamic(scene: Scene) -> None:
    """What the functions of a run returned before its first answer holds in all of its steps."""
    assert await scene.rows("SELECT status, step_count FROM runs") == [("completed", 3)]
    said = [json.loads(body) for (body,) in await scene.rows("SELECT body FROM messages ORDER BY seq")]
    sent = [tuple(each["sent"][1:4:2]) for each in said if "sent" in each]
    assert len(sent) == 3
    assert len(set(sent)) == 1, "all requests had the same instructions and tools"
    results = {json.loads(result).get("result") for (result,) in await scene.rows("SELECT result FROM calls")}
    assert len(results) == 1, "the tool was there for all calls, or for none"


SCRIPTS = {
    "approvals": Script(check=check_approvals, commits=26, first=2),
    "channels": Script(check=check_channels, commits=26),
    "composed": Script(check=check_composed, commits=10),
    "delegate": Script(check=check_delegate, commits=20),
    # thread, message, claim, two answers with two results each, the last answer
    "depends": Script(check=check_dependencies, commits=10, sure=10, every=(1, 0)),
    "deps": Script(check=check_deps, commits=16, sure=13, every=(1, 0)),
    "dynamic": Script(check=check_dynamic, commits=12, first=3),
    "family": Script(check=check_family, commits=46, sure=40, first=3),
    "hooks": Script(check=check_hooks, commits=40, first=2),
    "modes": Script(check=check_modes, commits=69, sure=55, first=3, every=(3, 9)),
    # thread, message, claim, answer, result, failure, retry, claim, answer
    "retry": Script(check=check_retry, commits=9, every=(1, 1)),
    "space": Script(check=check_space, commits=22, first=3),
    "tenvs": Script(check=check_tenvs, commits=13, sure=13, every=(1, 0)),
    "toolkit": Script(check=check_toolkit, commits=24),
    "within": Script(check=check_within, commits=31, first=2),
}
both_kinds = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


def deaths() -> list[ParameterSet]:
    """Return the script, the kind of journal and the commit of each death."""
    points: list[ParameterSet] = []
    for name, script in SCRIPTS.items():
        for kind, every in zip(("sqlite", "postgres"), script.every, strict=True):
            if every:
                points += sampled(range(script.first, script.commits + 1, every), name, kind)
    return points


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (name, kind)
        for name, script in SCRIPTS.items()
        for kind, every in zip(("sqlite", "postgres"), script.every, strict=True)
        if every
    ],
)
async def test_an_undisturbed_script(scene: Scene, script: str) -> None:
    assert await scene.run() == 0
    assert SCRIPTS[script].sure <= scene.commits() <= SCRIPTS[script].commits, "the matrix has every commit"
    assert not await SCRIPTS[script].check(scene)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("script", "kind", "unit"), deaths())
async def test_death_at_a_commit(scene: Scene, script: str, unit: int, when: str) -> None:
    first = await scene.run(kill={"unit": unit, "when": when})
    assert first == KILLED or (unit > SCRIPTS[script].sure and first == 0)
    assert await scene.run() == 0
    assert (await SCRIPTS[script].check(scene) or 0) <= 1


@both_kinds
@pytest.mark.parametrize(
    ("script", "tool", "interrupted"),
    [
        *[("composed", name, 1) for name in NAMES],
        *[pytest.param("within", n, int(n in (1, 3, 4, 6)), marks=pytest.mark.matrix) for n in range(1, 9)],
    ],
)
async def test_death_inside_a_tool(scene: Scene, script: str, tool: str | int, interrupted: int) -> None:
    assert await scene.run(kill={"tool": tool}) == KILLED
    assert await scene.run() == 0
    assert await SCRIPTS[script].check(scene) == interrupted


@pytest.mark.parametrize("script", ["within"])
@pytest.mark.parametrize("again", sampled(range(1, 12, 2)))
@pytest.mark.parametrize(("kind", "unit"), kill_points(sqlite=range(6, 27, 5), postgres=range(6, 27, 10)))
async def test_a_second_death_while_nested_calls_recover(scene: Scene, unit: int, again: int) -> None:
    assert await scene.run(kill={"unit": unit, "when": "after"}) in (KILLED, 0)
    assert await scene.run(kill={"unit": again, "when": "after"}) in (KILLED, 0)
    assert await scene.run() == 0
    assert await check_within(scene) <= 2


@pytest.mark.parametrize("script", ["within"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "unit"), kill_points(sqlite=range(3, 11), postgres=range(3, 11, 2)))
async def test_death_in_the_turn_of_either_side(scene: Scene, unit: int, when: str) -> None:
    assert await scene.run(agent="both", kill={"unit": unit, "when": when}) == KILLED
    assert await scene.run(agent="both") == 0
    assert await scene.rows("SELECT status, turn, step_count FROM runs") == [("completed", 4, 6)]
    said = [json.loads(body) for _, body in await scene.rows("SELECT role, body FROM messages ORDER BY seq")]
    words = [(body.get("side"), body["content"]) for body in said if body["content"][:1] in ("a", "b")]
    assert words == [("side_a", "a1"), ("side_b", "b1"), ("side_a", "a2"), ("side_b", "b2")]
    begun = Counter(line.split()[1] for line in (scene.folder / "witness").read_text().splitlines())
    assert begun["1"] <= 1


@both_kinds
@pytest.mark.parametrize("script", ["approvals"])
@pytest.mark.parametrize("waits", [1, 3, 4])
async def test_killed_while_it_waits_it_is_approved_in_the_next_process(scene: Scene, waits: int) -> None:
    assert await scene.run(waits=waits) == KILLED
    asked = await scene.rows(
        "SELECT status, attempts FROM calls WHERE approval = 'asked' AND status = 'waiting'"
    )
    assert asked == [("waiting", 0)]
    assert await scene.run(waits=waits) == KILLED  # a second crash changes nothing
    assert await scene.run() == 0
    await check_approvals(scene)
    assert payments(scene) == ["1", "3", "5"]


@both_kinds
@pytest.mark.parametrize("script", ["approvals"])
@pytest.mark.parametrize("approved", [1, 2, 3, 4])
async def test_killed_right_after_the_answer_the_question_is_not_repeated(
    scene: Scene, approved: int
) -> None:
    assert await scene.run(approved=approved) == KILLED
    assert await scene.run() == 0
    await check_approvals(scene)
    assert payments(scene) == ["1", "3", "5"]
    events = await scene.rows("SELECT payload FROM events WHERE type = 'tool.waiting'")
    assert len(events) == 4
