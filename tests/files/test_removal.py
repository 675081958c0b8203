"""Old bytes are removed from a folder, and bytes that are stored again at the same time are never lost."""

import os
import threading
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from toolwright.adapters.files import ASIDE, open_folder, remove_old, renew
from toolwright.adapters.memory import MemoryFiles
from toolwright.core.errors import NotFound
from toolwright.core.ports import FileStore

pytestmark = pytest.mark.anyio

PAST, FUTURE = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)


def files_in(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


@pytest.fixture(params=["folder", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    return open_folder(tmp_path / "files") if request.param == "folder" else MemoryFiles()


async def test_old_bytes_are_removed_and_young_ones_stay(files: FileStore) -> None:
    digest = await files.put(b"some")
    assert not await files.remove(digest, PAST)
    assert await files.get(digest) == b"some"
    assert await files.remove(digest, FUTURE)
    with pytest.raises(NotFound):
        await files.get(digest)
    assert await files.remove(digest, FUTURE)  # the file does not exist any more
    assert await files.remove("../../secrets", FUTURE)
    assert await files.put(b"some") == digest
    assert await files.get(digest) == b"some"


async def test_storing_bytes_again_makes_them_young(tmp_path: Path) -> None:
    files = open_folder(tmp_path)
    digest = await files.put(b"some")
    [path] = files_in(tmp_path)
    os.utime(path, (0, 0))
    await files.put(b"some")
    assert not await files.remove(digest, PAST)
    os.utime(path, (0, 0))
    assert await files.remove(digest, PAST)
    assert files_in(tmp_path) == []


def test_bytes_that_are_touched_while_they_are_removed_come_back(tmp_path: Path) -> None:
    """Another thread renews them as fast as it can: at the end they exist, or it has been notified that they do not."""
    path, stop = tmp_path / sha256(b"some").hexdigest(), threading.Event()

    def touch() -> None:
        while not stop.is_set():
            try:
                os.utime(path)
            except FileNotFoundError:
                path.write_bytes(b"some")

    path.write_bytes(b"some")
    toucher = threading.Thread(target=touch)
    toucher.start()
    try:
        for _ in range(2_000):
            remove_old(path, datetime.now(UTC).timestamp() - 0.000_05)
    finally:
        stop.set()
        toucher.join()
    if not path.exists():
        assert not renew(path)  # the writer is notified
        path.write_bytes(b"some")
    assert path.read_bytes() == b"some"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


async def test_bytes_that_a_killed_process_has_moved_aside_come_back(tmp_path: Path) -> None:
    """Another caller can have seen them before they were moved."""
    files = open_folder(tmp_path)
    lost, written_anew = await files.put(b"lost"), await files.put(b"anew")
    for digest in (lost, written_anew):
        path = tmp_path / "sha256" / digest[:2] / digest
        path.rename(path.with_name(path.name + ASIDE))
    await files.put(b"anew")
    await files.tidy(PAST)
    assert await files.get(lost) == b"lost"
    assert await files.get(written_anew) == b"anew"
    assert {each.name for each in files_in(tmp_path)} == {lost, written_anew}
