"""The log of a process of a cluster that cannot reach the others, and the error of an unreachable NATS server."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.motor.rig import NatsServer, bus_of, free_ports
from toolwright.adapters.bus import cluster as cluster_bus
from toolwright.adapters.bus import nats
from toolwright.adapters.bus.cluster import ClusterBus
from toolwright.adapters.bus.nats import NatsRelay

pytestmark = pytest.mark.anyio

REJECTED = "the server rejects the user or the password (authorization violation)"
LOST = "Messages to other processes cannot be sent. They see changes with a delay of up to 0.25 s: "
BACK = "Messages to other processes are sent again."
PERMISSIONS = """
authorization { users = [{user: "quiet", password: "p", permissions: {publish: "other", subscribe: ">"}}] }
"""


@pytest.fixture
def server() -> Generator[NatsServer]:
    """A server that requires a password."""
    started = NatsServer("--user", "app", "--pass", "right")
    yield started
    started.kill()


@asynccontextmanager
async def silent() -> AsyncGenerator[str]:
    """Yield the URL of a server that accepts connections and sends nothing."""
    ended = asyncio.Event()

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    listening = await asyncio.start_server(wait, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        ended.set()
        listening.close()


def closed() -> str:
    """Return the URL of a port on which no server listens."""
    return f"nats://127.0.0.1:{free_ports(1)[0]}"


def with_user(server: NatsServer, user: str) -> str:
    return server.url.replace("://", f"://{user}@")


async def until_said(caplog: pytest.LogCaptureFixture, condition: Callable[[str], bool]) -> None:
    """Wait for a warning."""
    async with asyncio.timeout(60):
        while True:
            if any(map(condition, caplog.messages)):
                return
            await asyncio.sleep(0.01)


async def test_the_check_of_a_server_names_why_it_cannot_be_used(server: NatsServer) -> None:
    async def fault(*urls: str) -> str | None:
        return await NatsRelay(urls, "d").fault()

    right, wrong, away = with_user(server, "app:right"), with_user(server, "app:wrong"), closed()
    assert await fault(right) is None
    assert await fault(wrong) == await fault(server.url) == REJECTED
    assert await fault(away) == "connection refused"
    assert await fault(away, right) is None
    assert await fault(away, wrong) == (
        f"{away.removeprefix('nats://')}: connection refused; {server.url.removeprefix('nats://')}: {REJECTED}"
    )
    unknown = await fault("nats://no-such-host.invalid:4222")
    assert unknown is not None and unknown.startswith("the host name cannot be resolved")
    async with silent() as url:
        assert await fault(url) == "no answer within 2 seconds"


@pytest.mark.parametrize(
    ("options", "user"),
    [
        (("--user", "app@shop", "--pass", "p/a:s%40s"), f"{quote('app@shop')}:{quote('p/a:s%40s', safe='')}"),
        (("--auth", "to/k@n"), quote("to/k@n", safe="")),
    ],
)
async def test_credentials_in_the_url_of_a_server_are_decoded(options: tuple[str, ...], user: str) -> None:
    started = NatsServer(*options)
    try:
        url = with_user(started, user)
        assert await NatsRelay([url], "d").fault() is None
        assert nats.credentials_of([url, started.url]) == {}  # they differ: each URL keeps its own
        async with bus_of("", url, works=True) as one, bus_of("", url, works=True) as other:
            one.share("room", {"ada": True})
            async with asyncio.timeout(60):
                while True:
                    if other.shared("room"):
                        break
                    await asyncio.sleep(0.01)
    finally:
        started.kill()


def test_the_check_of_a_server_takes_no_longer_than_two_attempts() -> None:
    assert 2 * nats.CONNECT < nats.REACH < 5


async def test_the_check_of_a_server_names_messages_that_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "nats.conf").write_text(PERMISSIONS)
    started = NatsServer("-c", str(tmp_path / "nats.conf"))
    try:
        fault = await NatsRelay([with_user(started, "quiet:p")], "d").fault()
    finally:
        started.kill()
    assert fault is not None and fault.lower().startswith("permissions violation for publish")


async def test_a_process_whose_messages_the_server_refuses_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "nats.conf").write_text(PERMISSIONS)
    started = NatsServer("-c", str(tmp_path / "nats.conf"))
    try:
        async with bus_of("", with_user(started, "quiet:p"), works=True) as bus:
            await until_said(caplog, lambda said: said.startswith("NATS rejected a message"))
            bus.share("room", {"ada": True})
            await asyncio.sleep(0.2)
    finally:
        started.kill()
    assert sum(said.startswith("NATS rejected") for said in caplog.messages) == 1


@pytest.mark.parametrize("why", ["closed", "password", "silent"])
async def test_a_process_names_in_one_warning_why_it_does_not_reach_the_others(
    why: str, server: NatsServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("WARNING")
    monkeypatch.setattr(cluster_bus, "REFRESH", 0.05)
    monkeypatch.setattr(cluster_bus, "PATIENCE", 0.0)
    async with silent() as quiet:
        url, reason = {
            "closed": (closed(), "connection refused"),
            "password": (with_user(server, "app:wrong"), REJECTED),
            "silent": (quiet, "no answer within 2 seconds"),
        }[why]
        async with bus_of("", url, works=True):
            await until_said(caplog, lambda said: said.startswith(LOST))
            await asyncio.sleep(0.2)
    assert caplog.messages == [f"{LOST}NATS at {nats.host_of(url)}: {reason}"]


async def test_the_return_of_the_broker_is_as_loud_as_its_loss(
    server: NatsServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_bus, "PATIENCE", 0.0)
    caplog.set_level("WARNING")
    server.kill()
    async with bus_of("", with_user(server, "app:right"), works=True):
        await until_said(caplog, lambda said: said.startswith(LOST))
        server.start()
        await until_said(caplog, lambda said: said == BACK)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


async def test_a_session_for_notifications_that_cannot_be_opened_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_bus, "PATIENCE", 0.0)
    [port] = free_ports(1)
    async with bus_of(f"postgresql://app@127.0.0.1:{port}/app", "postgres", works=True):
        await until_said(caplog, lambda said: said.startswith(LOST) and "Connect call failed" in said)


class Deaf(NatsRelay):
    """A relay that swallows its first cancellation."""

    def __init__(self) -> None:
        super().__init__([closed()], "d")
        self.listens = asyncio.Event()

    async def listen(self, receive: Callable[[str], None], connected: Callable[[], None]) -> None:
        self.listens.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()


async def test_a_bus_ends_although_its_relay_swallows_a_cancellation() -> None:
    relay = Deaf()
    bus = ClusterBus(relay, works=True)
    await bus.start()
    await relay.listens.wait()
    async with asyncio.timeout(60):
        await bus.close()
