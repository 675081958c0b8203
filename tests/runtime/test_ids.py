"""Ids: as long as ever, and rising, so that what was made later comes later in a list."""

import itertools

from toolwright.adapters.system import new_id


def test_ids_rise_also_within_a_millisecond() -> None:
    ids = [new_id("run") for _ in range(2_000)]
    falls = sum(before >= after for before, after in itertools.pairwise(ids))
    assert falls <= 1  # where the number, which begins anywhere, begins again
    assert {len(each) for each in ids} == {len("run_") + 27}
