"""Serving an app: the allowed addresses, and how it stops."""

import asyncio
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx2
import pytest

import toolwright as tw
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import CannotServe
from toolwright.testing import ScriptedModel
from toolwright.web.options import GatewayOptions
from toolwright.wiring.gateway import Server, gateway, serve
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

prompt = tw.Prompt("p", model=ScriptedModel([{"text": "Hi."}]))
app = tw.App(agents=[tw.Agent("tester", prompt)])
settings = Settings.model_validate({"database_url": "memory://", "secret_keys": ()})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_a_server_with_an_open_stream_soon(number: signal.Signals) -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(app, settings, port=0, ready=ready.set_result))
    async with httpx2.AsyncClient(base_url=await ready, timeout=10) as client:
        made = (await client.post("/api/threads", json={"agentId": "tester"})).json()
        async with client.stream("GET", f"/api/threads/{made['threadId']}/stream") as stream:
            chunks = stream.aiter_raw()
            assert b"connected" in await anext(chunks)
            os.kill(os.getpid(), number)
            async with asyncio.timeout(3):
                assert [chunk async for chunk in chunks] == []
                await serving
        with pytest.raises(httpx2.ConnectError):
            await client.get("/health")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_without_keys_a_server_listens_on_this_machine_only(host: str) -> None:
    with pytest.raises(CannotServe, match="set TOOLWRIGHT_SECRET_KEYS, or listen on"):
        await serve(app, settings, host=host, port=0)
    listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    with listener, pytest.raises(CannotServe):
        await serve(app, settings, listener=listener)


async def test_an_insecure_server_serves_every_machine_and_no_page_of_another_site() -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(app, settings, host="0.0.0.0", port=0, ready=ready.set_result, insecure=True)
    )
    async with httpx2.AsyncClient(base_url=await ready, timeout=60) as client:
        for headers, status in (
            ({"Host": "service.example", "X-Forwarded-For": "203.0.113.9"}, 200),
            ({"Host": "service.example", "Origin": "https://service.example"}, 200),
            ({"Host": "service.example", "Origin": "https://evil.example"}, 403),
        ):
            assert (await client.get("/api/agents", headers=headers)).status_code == status
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


async def test_with_keys_a_server_may_listen_anywhere() -> None:
    keyed = settings.model_copy(update={"secret_keys": ("k",)})
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(app, keyed, host="0.0.0.0", port=0, ready=ready.set_result))
    async with httpx2.AsyncClient(base_url=await ready, headers={"x-secret-key": "k"}, timeout=60) as client:
        headers = {"Host": "service.example"}
        assert (await client.get("/api/agents", headers=headers)).status_code == 200
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


@pytest.mark.parametrize("own", [True, False], ids=["its own socket", "a socket that it was given"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_accepted_connection_sends_each_answer_at_once(host: str, own: bool) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = None if own else socket.create_server((host, 0), family=family)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(app, settings, host=host, port=0, listener=listener, ready=ready.set_result)
    )
    async with httpx2.AsyncClient(base_url=await ready, timeout=60) as client:
        answer = await client.get("/health")
        caller = answer.extensions["network_stream"].get_extra_info("client_addr")
        with _accepted_from(caller[:2]) as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


async def test_an_idle_connection_stays_open_longer_than_clients_keep_theirs() -> None:
    with socket.socket() as listener:
        server = Server(gateway(app, settings), GatewayOptions(clock=SystemClock()), listener)
    usual = [httpx2.Limits().keepalive_expiry, 60.0]  # the timeouts of httpx2 and of common proxies
    assert server.config.timeout_keep_alive > max(each for each in usual if each is not None)


async def test_a_server_on_a_unix_socket_answers(tmp_path: Path) -> None:
    keyed = settings.model_copy(update={"secret_keys": ("k",)})
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "server"))
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(app, keyed, listener=listener, ready=ready.set_result))
    await ready
    transport = httpx2.AsyncHTTPTransport(uds=str(tmp_path / "server"))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/health")).status_code == 200
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


def _accepted_from(caller: tuple[str, int]) -> socket.socket:
    """Return this process's end of a connection that `caller` has opened: one of its descriptors."""
    for name in Path("/proc/self/fd").iterdir():
        try:
            held = socket.socket(fileno=os.dup(int(name.name)))
        except OSError:
            continue  # closed in the meantime, or no socket
        try:
            if held.getpeername()[:2] == caller:
                return held
        except OSError:
            pass  # a listener, or one end of a socket pair
        held.close()
    raise AssertionError(f"no connection from {caller}")


async def test_a_port_that_is_taken_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=f"Port {port} of '127.0.0.1' is in use. Choose another port"):
            await serve(app, settings, port=port)


async def test_the_application_for_other_servers_runs_its_app() -> None:
    application = tw.gateway(app, settings)
    transport = httpx2.ASGITransport(application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/health")).status_code == 503
        async with application.router.lifespan_context(application):
            assert (await client.get("/health")).json()["status"] == "ok"
            assert (await client.get("/api/agents/tester")).status_code == 200
        assert (await client.get("/api/agents")).status_code == 503


def _damage(path: Path, table: str) -> None:
    """Overwrite the pages of a table and of its indexes with garbage."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(size,)] = connection.execute("PRAGMA page_size").fetchall()
        roots = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE tbl_name = ?", (table,)
        ).fetchall()
    with path.open("r+b") as file:
        for (root,) in roots:
            file.seek((root - 1) * size)
            file.write(b"\xa5" * size)


async def test_a_malformed_database_is_a_clear_answer_and_not_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path}/here.db"})
    async with app.runtime(damaged) as rt:
        thread_id = (await rt.threads.create("tester")).id
    for table in ("commits", "threads"):
        _damage(tmp_path / "here.db", table)
    application = tw.gateway(app, damaged)
    transport = httpx2.ASGITransport(application)
    async with (
        application.router.lifespan_context(application),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        for path in ("/health", "/ready", f"/api/threads/{thread_id}"):
            answer = await client.get(path)
            assert answer.status_code == 503, (path, answer.text)
            assert "malformed. The database file is damaged" in answer.json()["error"]
        sent = await client.post("/api/threads", json={"agentId": "tester"})
        assert (sent.status_code, sent.json()["code"]) == (503, "store_unavailable")
        assert (await client.get("/live")).status_code == 200
    assert [each for each in caplog.records if each.exc_info] == []


async def test_a_server_runs_within_the_lifespan_of_its_app() -> None:
    said: list[str] = []

    @asynccontextmanager
    async def lifespan(app: tw.App) -> AsyncGenerator[str]:
        said.append("begin")
        yield "the pool"
        said.append("end")

    living = tw.App(agents=[tw.Agent("tester", prompt)], lifespan=lifespan)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(living, settings, port=0, ready=ready.set_result))
    async with httpx2.AsyncClient(base_url=await ready, timeout=60) as client:
        assert (await client.get("/health")).status_code == 200
    assert said == ["begin"]
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert said == ["begin", "end"]
    mounted = tw.gateway(living, settings)
    async with mounted.router.lifespan_context(mounted):
        assert said == ["begin", "end", "begin"]
    assert said == ["begin", "end"] * 2


EMBEDDED = """
import sys
import uvicorn
import toolwright as tw
from toolwright.testing import ScriptedModel

agent = tw.Agent("tester", model=ScriptedModel([{"text": "Hi."}]))
application = tw.gateway(tw.App(agents=[agent]), tw.Settings(database_url="memory://"))
uvicorn.run(application, port=int(sys.argv[1]), log_level="info")
print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_gateway_in_a_foreign_server_stops_with_an_open_stream(number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        EMBEDDED,
        str(port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        while b"running on" not in await process.stderr.readline():
            pass
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            made = (await client.post("/api/threads", json={"agentId": "tester"})).json()
            async with client.stream("GET", f"/api/threads/{made['threadId']}/stream") as stream:
                chunks = stream.aiter_raw()
                assert b"connected" in await anext(chunks)
                process.send_signal(number)
                assert [chunk async for chunk in chunks] == []
                await process.communicate()  # wait for its end while the reader is still connected
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
