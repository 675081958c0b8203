"""Ids: of constant length and increasing, so that lists are in the order of creation."""

import itertools

from toolwright.adapters.system import new_id


def test_ids_rise_also_within_a_millisecond() -> None:
    ids = [new_id("run") for _ in range(2_000)]
    falls = sum(before >= after for before, after in itertools.pairwise(ids))
    assert falls <= 1  # at the wrap-around of the counter, which starts at a random number
    assert {len(each) for each in ids} == {len("run_") + 27}
