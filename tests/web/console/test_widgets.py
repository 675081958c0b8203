"""Addresses and sizes of files."""

import pytest

from toolwright.web.console.widgets import file_url, size


def test_sizes_are_counted_as_people_do() -> None:
    assert [size(0), size(999), size(1_500), size(25_000), size(3_200_000), size(5_000_000_000)] == [
        "0 B", "999 B", "1.5 KB", "25 KB", "3.2 MB", "5.0 GB",
    ]  # fmt: skip


def test_a_files_url_holds_its_path_as_it_is() -> None:
    url = file_url("thr_1", "/a b/100%?#.txt", "call_1")
    assert url == "/console/files/thr_1/a%20b/100%25%3F%23.txt?call=call_1"


@pytest.mark.parametrize("call_id", ["call_1", None])
def test_a_threads_id_is_one_part_of_the_address_whatever_is_in_it(call_id: str | None) -> None:
    path, _, query = file_url("a/b%41", "/x.txt", call_id).partition("?")
    assert path == "/console/files/a%252Fb%252541/x.txt"
    assert query == ("" if call_id is None else "call=call_1")
