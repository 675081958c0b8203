"""The crash benchmark: what its counting finds in made ledgers, its pages, and a few kills of Toolwright."""

import json
from collections.abc import Iterator
from itertools import count as numbers
from pathlib import Path
from typing import Any

import pytest
from bench.kills import report
from bench.kills.counts import Counts, count
from bench.kills.driver import measure
from bench.kills.systems import ON_SQLITE, SYSTEMS
from bench.kills.work import Work, all_calls, next_calls, read_ledger, result_of

FIRST, SECOND, THIRD, LAST = all_calls("m00000")
Record = dict[str, Any]


def accepted() -> Record:
    return {"kind": "accepted", "message": "m00000"}


def begun(call: str, process: int = 1) -> Record:
    return {"kind": "begun", "call": call, "process": process}


def ended(call: str, process: int = 1) -> Record:
    return {"kind": "ended", "call": call, "process": process}


def made(*calls: str, process: int = 1) -> Iterator[Record]:
    """Return the records of undisturbed effects."""
    for call in calls:
        yield begun(call, process)
        yield ended(call, process)


def answered(**unknown: str) -> Record:
    """Return the record of an answer whose calls are all done, but for those named by their position."""
    results = {
        call: unknown.get(f"call{n}", result_of(call)) for n, call in enumerate(all_calls("m00000"), 1)
    }
    return {"kind": "answered", "message": "m00000", "results": results}


def test_the_plan_has_each_call_once() -> None:
    assert next_calls("m00000", 0) == [FIRST]
    assert next_calls("m00000", 1) == [SECOND, THIRD]
    assert next_calls("m00000", 2) == [LAST]
    assert next_calls("m00000", 3) == []


def test_a_clean_ledger_has_no_case() -> None:
    records = [accepted(), *made(FIRST, SECOND, THIRD, LAST), answered()]
    assert count(records) == Counts(messages=1, effects=4)


def test_an_effect_that_had_ended_and_is_made_again_is_doubled() -> None:
    records = [accepted(), *made(FIRST), *made(FIRST, SECOND, THIRD, LAST, process=2), answered()]
    assert count(records) == Counts(messages=1, effects=4, repeated_ended=1)


def test_an_effect_that_was_cut_off_and_is_made_again_is_told_from_a_doubled_one() -> None:
    records = [accepted(), begun(FIRST), *made(FIRST, SECOND, THIRD, LAST, process=2), answered()]
    assert count(records) == Counts(messages=1, effects=4, cut_off=1, repeated_cut_off=1)


def test_every_further_execution_counts() -> None:
    again = [*made(FIRST, process=3), *made(FIRST, SECOND, THIRD, LAST, process=4)]
    records = [accepted(), begun(FIRST), begun(FIRST, 2), *again, answered()]
    counted = count(records)
    assert counted == Counts(messages=1, effects=4, cut_off=2, repeated_cut_off=2, repeated_ended=1)
    assert counted.repeated == 3


def test_an_effect_that_is_made_twice_at_once_is_doubled() -> None:
    twice = [begun(FIRST), begun(FIRST), ended(FIRST), ended(FIRST)]
    records = [accepted(), *twice, *made(SECOND, THIRD, LAST), answered()]
    assert count(records) == Counts(messages=1, effects=4, repeated_beside=1)


def test_a_report_is_needed_only_if_the_effect_was_cut_off() -> None:
    records = [
        accepted(),
        begun(FIRST),
        *made(SECOND, LAST, process=2),
        answered(call1="unknown", call2="unknown", call3="unknown"),
    ]
    counted = count(records)
    assert counted == Counts(
        messages=1, effects=4, cut_off=1, unknown_cut_off=1, unknown_ended=1, unknown_not_begun=1
    )
    assert counted.unknown_without_need == 2


def test_an_effect_that_did_not_end_is_missing_unless_the_model_read_so() -> None:
    records = [accepted(), begun(FIRST), *made(SECOND, THIRD), answered()]
    assert count(records) == Counts(messages=1, effects=4, cut_off=1, missing=2)


def test_a_call_that_no_result_answers_is_missing() -> None:
    answer = answered()
    del answer["results"][LAST]
    records = [accepted(), *made(FIRST, SECOND, THIRD, LAST), answer]
    assert count(records) == Counts(messages=1, effects=4, missing=1)


def test_calls_that_the_model_did_not_make_are_counted() -> None:
    answer = answered()
    answer["results"]["m00000.9.9"] = "done m00000.9.9"
    records = [accepted(), *made(FIRST, SECOND, THIRD, LAST, "m00001.1.1"), answer]
    assert count(records) == Counts(messages=1, effects=4, unplanned=2)


def test_a_message_without_an_answer_is_lost_stuck_or_failed() -> None:
    failed = {"kind": "failed", "message": "m00000", "error": "ValueError"}
    assert count([accepted()]) == Counts(messages=1, effects=4, lost=1)
    assert count([accepted()], is_stuck=True) == Counts(messages=1, effects=4, stuck=1)
    assert count([accepted(), failed], is_stuck=True) == Counts(messages=1, effects=4, failed=1)
    records = [accepted(), failed, *made(FIRST, SECOND, THIRD, LAST, process=2), answered()]
    assert count(records) == Counts(messages=1, effects=4)


@pytest.mark.anyio
async def test_a_worker_continues_what_an_earlier_one_has_not_answered(tmp_path: Path) -> None:
    Work(tmp_path).record("accepted", message="m00000")
    (tmp_path / "stop").touch()
    handled: list[tuple[str, bool]] = []
    work = Work(tmp_path)

    async def handle(message: str, again: bool) -> dict[str, str]:
        handled.append((message, again))
        return {call: await work.effect(call) for call in all_calls(message)}

    await work.run(handle)
    assert handled == [("m00000", True)]
    assert count(read_ledger(tmp_path / "ledger.jsonl")) == Counts(messages=1, effects=4)
    await Work(tmp_path).run(handle)
    assert len(handled) == 1


@pytest.mark.anyio
async def test_a_message_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    work, accepting = Work(tmp_path), numbers()

    async def handle(message: str, again: bool) -> dict[str, str]:
        if next(accepting) == 5:
            (tmp_path / "stop").touch()
        if message == "m00001":
            raise ValueError("no")
        return {call: await work.effect(call) for call in all_calls(message)}

    await work.run(handle)
    counted = count(read_ledger(tmp_path / "ledger.jsonl"))
    assert counted.failed == counted.unanswered == 1
    assert counted.messages >= 6


def test_the_readme_has_the_table_of_the_saved_results() -> None:
    readme = report.README.read_text(encoding="utf-8")
    assert report.with_table(readme, report.read()) == readme


def test_the_page_has_the_saved_results() -> None:
    assert report.page(report.read()) == report.PAGE.read_text(encoding="utf-8")


def test_the_saved_results_are_enough() -> None:
    results = report.read()
    assert {each.system for each in results} >= set(ON_SQLITE)
    assert all(each.kills >= (100 if each.system.title == "Toolwright" else 50) for each in results)
    assert all(each.versions and each.day for each in results)


def test_results_of_other_systems_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "KILLS.json"
    saved = json.loads(report.RESULTS.read_text(encoding="utf-8"))
    report.keep(saved, path)
    report.keep([saved[-1] | {"kills": 7}], path)
    assert [each.kills for each in report.read(path)] == [*[each["kills"] for each in saved[:-1]], 7]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_toolwright_repeats_and_loses_nothing_when_it_is_killed() -> None:
    measured = measure(SYSTEMS[0], kills=3, seed=1, effects_a_kill=8)
    counted = measured.counts
    assert measured.kills == 3
    assert counted.messages
    assert (counted.repeated, counted.unanswered, counted.missing, counted.unplanned) == (0, 0, 0, 0)
    assert counted.unknown_cut_off == counted.cut_off
