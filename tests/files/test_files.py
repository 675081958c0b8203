"""The common behaviour of every file store: memory, a folder, S3."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import obstore
import pytest
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

from toolwright.adapters.files import open_bucket, open_folder
from toolwright.adapters.memory import MemoryFiles
from toolwright.core.errors import DefinitionError, NotFound, StoreError
from toolwright.core.ports import FileStore
from toolwright.wiring.app import App
from toolwright.wiring.settings import Settings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("default"),  # moto's server and its dependencies raise deprecation warnings
]


@pytest.fixture(scope="module")
def s3() -> Generator[str]:
    """Yield the endpoint of a server that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["memory", "folder", "s3"])
async def files(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[FileStore]:
    match request.param:
        case "memory":
            made: FileStore = MemoryFiles()
        case "folder":
            made = open_folder(tmp_path / "deep" / "files")
        case _:
            made = _bucket(request.getfixturevalue("s3"), monkeypatch)
    yield made
    await made.close()


def _bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    import httpx2  # noqa: PLC0415 - used once

    httpx2.put(
        f"{endpoint}/bucket", headers={"Authorization": "AWS test:test"}, timeout=60
    ).raise_for_status()
    return open_bucket("s3://bucket/a/prefix")


async def test_bytes_come_back_as_they_were_under_their_digest(files: FileStore) -> None:
    for content in (b"", b"x", bytes(range(256)) * 40_000):
        digest = await files.put(content)
        assert digest == sha256(content).hexdigest()
        assert await files.get(digest) == content
        if content:
            assert await files.get(digest, slice(0, len(content))) == content
            assert (
                await files.get(digest, slice(len(content) // 2, len(content)))
                == content[len(content) // 2 :]
            )


async def test_the_same_bytes_put_at_once_are_kept_once(files: FileStore) -> None:
    digests = await asyncio.gather(*(files.put(b"the same") for _ in range(20)))
    assert len(set(digests)) == 1
    assert await files.get(digests[0]) == b"the same"


@pytest.mark.parametrize("digest", ["0" * 64, "none", "../../etc/passwd", ""])
async def test_what_was_never_put_is_not_there(files: FileStore, digest: str) -> None:
    with pytest.raises(NotFound):
        await files.get(digest)


async def test_a_probe_of_a_store_leaves_nothing(files: FileStore, tmp_path: Path) -> None:
    await files.probe()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a path of anyio would be no clearer
    digest = await files.put(b"x")
    await files.probe()
    assert await files.get(digest) == b"x"
    assert [name for _, _, names in os.walk(tmp_path) for name in names] in ([], [digest])


async def test_a_probe_of_a_bucket_takes_its_object_away(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = _bucket(s3, monkeypatch)
    digest = await bucket.put(b"stays")
    await bucket.probe()
    listed = await obstore.list(S3Store.from_url("s3://bucket/a/prefix")).collect_async()  # pyright: ignore[reportUnknownMemberType]  # also lists in Arrow, which is not typed
    paths = [str(each["path"]) for each in listed]
    assert any(path.endswith(digest) for path in paths)
    assert not any("probe" in path for path in paths)


@pytest.mark.parametrize("below", ["file", "file/below", "file/below/deep"])
async def test_a_folder_that_is_a_file_or_below_one_is_found_by_a_probe(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(
        StoreError, match=f"files folder '{tmp_path / below}' cannot be written: Not a directory"
    ):
        await open_folder(tmp_path / below).probe()


async def test_a_folder_without_write_permission_is_found_by_a_probe() -> None:
    """This includes a superuser, whom permissions do not restrict."""
    with pytest.raises(StoreError, match="files folder '/proc/files' cannot be written"):
        await open_folder(Path("/proc/files")).probe()


async def test_a_runtime_whose_named_folder_is_unusable_does_not_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    database = tmp_path / "x.db"
    settings = Settings(database_url=f"sqlite:///{database}", files_url=str(tmp_path / "file"))
    with pytest.raises(StoreError, match="files folder"):
        async with App().runtime(settings):
            pass
    assert not database.exists()


async def test_a_folder_that_cannot_be_written_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    made = open_folder(tmp_path / "file" / "below")
    with pytest.raises(StoreError, match="cannot be written"):
        await made.put(b"x")


async def test_a_store_that_is_away_is_an_error_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    made = open_bucket("s3://bucket/prefix")
    with pytest.raises(StoreError):
        async with asyncio.timeout(30):
            await made.get("0" * 64)


async def test_a_folder_is_not_made_before_there_is_a_file(tmp_path: Path) -> None:
    made = open_folder(tmp_path / "files")
    assert not (tmp_path / "files").exists()
    await made.put(b"x")
    assert sum(len(names) for _, _, names in os.walk(tmp_path / "files")) == 1


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({}, "toolwright.db.files"),
        ({"database_url": "sqlite:///a/b.db"}, "a/b.db.files"),
        ({"database_url": "postgresql://x/y"}, "toolwright.files"),
        ({"database_url": "memory://"}, None),
        ({"files_url": "/data/files"}, "/data/files"),
        ({"files_url": "file:///data/files"}, "/data/files"),
        ({"files_url": "s3://bucket/x"}, None),
        ({"files_url": "memory://"}, None),
    ],
)
def test_files_lie_beside_the_database_unless_told_otherwise(
    settings: dict[str, str], folder: str | None
) -> None:
    found = Settings(**settings).files_folder  # type: ignore[arg-type]  # texts, as in the environment
    assert found == (None if folder is None else Path(folder))


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "gs://bucket", "http://x/y", "s3:/b", "s3:b", "s3://", "s3:///b", "file:x", "file://h/x"],
)
def test_a_file_store_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(DefinitionError, match="files_url must be"):
        Settings(files_url=url)


KILLED_WRITING = """
import asyncio, resource, signal, sys
from pathlib import Path
from toolwright.adapters.files import open_folder

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
asyncio.run(open_folder(Path(sys.argv[1])).put(b"x" * 5_000))
"""
DAY = timedelta(days=1)


async def killed_while_writing(folder: Path) -> Path:
    """The partial file that a process leaves if it is killed in the middle of a write."""
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED_WRITING, str(folder))
    assert await killed.wait() == -signal.SIGXFSZ
    [part] = [Path(where) / name for where, _, names in os.walk(folder) for name in names]
    return part


def seen(folder: Path) -> set[str]:
    return {name for _, _, names in os.walk(folder) for name in names}


async def test_what_a_killed_process_left_half_written_is_taken_away_when_it_is_old(tmp_path: Path) -> None:
    part = await killed_while_writing(tmp_path)
    assert part.name.startswith(sha256(b"x" * 5_000).hexdigest())
    assert len(part.read_bytes()) == 1_000
    written = datetime.fromtimestamp(part.stat().st_mtime, UTC)
    made = open_folder(tmp_path)
    assert await made.tidy(written - DAY) == 0, "somebody may be writing to it"
    digest = await made.put(b"x" * 5_000)
    assert await made.get(digest) == b"x" * 5_000
    assert await made.tidy(written + DAY) == 1
    assert seen(tmp_path) == {digest}
    assert await made.get(digest) == b"x" * 5_000


async def test_nothing_but_leftovers_is_taken_away(tmp_path: Path) -> None:
    made = open_folder(tmp_path)
    digest = await made.put(b"x")
    own = tmp_path / "sha256" / digest[:2]
    others = [own / "notes#1", own / f"{digest}#1.bak", tmp_path / "readme", tmp_path / f"{'a' * 64}#1"]
    for path in [*others, own / f"{digest}#2", tmp_path / "sha256" / "toolwright-probe0x"]:
        path.write_text("", encoding="utf-8")
    (own / f"{digest}#3").mkdir()
    assert await made.tidy(datetime.now(UTC) + DAY) == 2
    assert seen(tmp_path) == {digest, *(path.name for path in others)}
    assert (own / f"{digest}#3").is_dir()


async def test_a_store_without_leftovers_has_nothing_to_tidy_up(files: FileStore) -> None:
    assert await files.tidy(datetime.now(UTC) + DAY) == 0
    digest = await files.put(b"x")
    assert await files.tidy(datetime.now(UTC) + DAY) == 0
    assert await files.get(digest) == b"x"
