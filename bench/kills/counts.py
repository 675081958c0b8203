"""Counts of a measurement: a ledger compared with the messages, by what happened to each effect."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.kills.work import all_calls, result_of


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What happened to the effects of all messages.

    `cut_off` executions began and did not end. `repeated_ended` executions began although an earlier one of the same
    effect had ended, `repeated_cut_off` ones after earlier ones that were all cut off, and `repeated_beside` ones while
    an earlier one was in progress in the same process. For a call, the model can read something else than the result
    of its effect: `unknown_cut_off` if the effect had been cut off, `unknown_not_begun` and `unknown_ended` without
    need. `missing` effects did not end, and the model did not read so. `unplanned` calls are not of the canned model's
    plan. A message without an answer has `failed` if its last attempt raised an error, is `stuck` if the last process
    did not end, or is `lost`.
    """

    messages: int = 0
    effects: int = 0
    cut_off: int = 0
    repeated_ended: int = 0
    repeated_cut_off: int = 0
    repeated_beside: int = 0
    unknown_cut_off: int = 0
    unknown_not_begun: int = 0
    unknown_ended: int = 0
    missing: int = 0
    unplanned: int = 0
    failed: int = 0
    stuck: int = 0
    lost: int = 0

    @property
    def repeated(self) -> int:
        """Executions of effects that had begun before."""
        return self.repeated_ended + self.repeated_cut_off + self.repeated_beside

    @property
    def unknown_without_need(self) -> int:
        """Calls reported as unknown whose effects had not begun, or had ended."""
        return self.unknown_not_begun + self.unknown_ended

    @property
    def unanswered(self) -> int:
        """Messages without an answer."""
        return self.failed + self.stuck + self.lost


def count(records: Sequence[Mapping[str, Any]], *, is_stuck: bool = False) -> Counts:
    """Compare the records of a ledger with the messages. `is_stuck` if the last process did not end by itself."""
    totals: defaultdict[str, int] = defaultdict(int)
    accepted = [each["message"] for each in records if each["kind"] == "accepted"]
    results = {each["message"]: each["results"] for each in records if each["kind"] == "answered"}
    failed = {each["message"] for each in records if each["kind"] == "failed"}
    executions = _executions(records, totals)
    for message in accepted:
        totals["messages"] += 1
        planned = all_calls(message)
        totals["effects"] += len(planned)
        if message not in results:
            totals["failed" if message in failed else "stuck" if is_stuck else "lost"] += 1
            continue
        totals["unplanned"] += len(set(results[message]) - set(planned))
        for call in planned:
            reported = results[message].get(call)
            ends = executions.get(call)
            if reported is not None and reported != result_of(call):
                totals[_unknown(ends)] += 1
            elif not ends or not any(ends) or reported is None:
                totals["missing"] += 1
    known = {call for message in accepted for call in all_calls(message)}
    totals["unplanned"] += len(set(executions) - known)
    totals["cut_off"] = sum(not ended for ends in executions.values() for ended in ends)
    return Counts(**totals)


def _executions(
    records: Sequence[Mapping[str, Any]], totals: defaultdict[str, int]
) -> Mapping[str, Sequence[bool]]:
    """Return whether each execution of each call has ended, and count the repeats."""
    executions: dict[str, list[bool]] = {}
    processes: dict[str, list[int]] = {}
    for each in records:
        if each["kind"] == "begun":
            ends = executions.setdefault(each["call"], [])
            if any(ends):
                totals["repeated_ended"] += 1
            elif each["process"] in processes.get(each["call"], []):
                totals["repeated_beside"] += 1
            elif ends:
                totals["repeated_cut_off"] += 1
            ends.append(False)
            processes.setdefault(each["call"], []).append(each["process"])
        elif each["kind"] == "ended":
            of_process = [n for n, pid in enumerate(processes[each["call"]]) if pid == each["process"]]
            executions[each["call"]][next(n for n in of_process if not executions[each["call"]][n])] = True
    return executions


def _unknown(ends: Sequence[bool] | None) -> str:
    if not ends:
        return "unknown_not_begun"
    return "unknown_ended" if any(ends) else "unknown_cut_off"
