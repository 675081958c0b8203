"""Instances of composed requests: a hundred comments in one request, with separate states."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolwright as tw
from toolwright.testing import ScriptedModel, runtime

pytestmark = pytest.mark.anyio

COMMENTS = [f"comment {number}" for number in range(100)]
NOTE = {
    "type": "object",
    "properties": {
        "comment": {"type": "string", "description": "Always the comment of the instance"},
        "seen": {"description": "What was noted before"},
        "note": {"type": "integer"},
        "_instance": {"type": "string"},
        "_outputPath": {},
    },
    "required": ["comment", "note"],
}


def note(comment: str, note: int, seen: object = None) -> dict[str, Any]:
    return {"comment": comment, "note": note, "seen": seen}


def called(instance: str, number: int, before: bool) -> dict[str, Any]:
    """Return a call that notes a number on a comment, optionally with a reference to its earlier note."""
    call = {"_tool": "note", "comment": "†state.text", "note": number, "_instance": instance}
    path = {"path": "†state.notes", "method": "push"}
    return {**call, "_outputPath": path, **({"seen": "†state.notes.0.note"} if before else {})}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    order=st.permutations(COMMENTS),
    more=st.lists(st.tuples(st.sampled_from(COMMENTS), st.integers(0, 9)), max_size=100),
    steps=st.integers(1, 4),
)
async def test_notes_on_a_hundred_comments_are_never_mixed_up(
    order: list[str], more: list[tuple[str, int]], steps: int
) -> None:
    asked = [*[(instance, -number) for number, instance in enumerate(order, 1)], *more]
    expected: dict[str, dict[str, Any]] = {each: {"text": f"text of {each}"} for each in COMMENTS}
    calls: list[dict[str, Any]] = []
    for instance, number in asked:
        notes: list[dict[str, Any]] = expected[instance].setdefault("notes", [])
        calls.append(called(instance, number, bool(notes)))
        seen = notes[0]["note"] if notes else None
        notes.append({"comment": f"text of {instance}", "note": number, "seen": seen})
    size = len(calls) // steps + 1
    turns = [
        {"json": {"output": None, "calls": calls[start : start + size]}}
        for start in range(0, len(calls), size)
    ]
    registry = tw.Registry()
    registry.tool("note", NOTE)(note)
    context = [
        {"type": "tool", "tool": "note"},
        *[{"type": "state", "state": {"text": f"text of {each}"}, "instance": each} for each in COMMENTS],
    ]
    async with runtime(tw.App(registry=registry)) as rt:
        model = ScriptedModel([*turns, {"json": {"output": "noted", "calls": []}}])
        solution = await rt.request({"model": model}, {"type": "string"}, context)
    assert solution.states == expected
    assert solution.state == {}
    assert [call.instance for call in solution.calls] == [instance for instance, _ in asked]


async def test_an_instance_that_the_request_does_not_name_is_sent_back() -> None:
    registry = tw.Registry()
    registry.tool("note", NOTE)(note)
    wrong = {"_tool": "note", "comment": "x", "note": 1, "_instance": "comment 100"}
    turns = [
        {"json": {"output": None, "calls": [wrong]}},
        {"json": {"output": "noted", "calls": [{**wrong, "_instance": "comment 1"}]}},
    ]
    context = [
        {"type": "tool", "tool": "note"},
        *[{"type": "data", "data": each, "instance": each} for each in COMMENTS[:3]],
    ]
    async with runtime(tw.App(registry=registry)) as rt:
        solution = await rt.request({"model": ScriptedModel(turns)}, {"type": "string"}, context)
        assert [call.instance for call in solution.calls] == ["comment 1"]
        sent_back = (await rt.threads.messages(solution.thread_id))[2].content
    words = "calls.0._instance: must be one of 'comment 0', 'comment 1', 'comment 2'"
    assert words in sent_back
