"""`toolwright work`, `toolwright nodes` and `serve --no-work`: processes that share the runs of one database."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from socket import gethostname

import httpx2
import pytest
from cryptography.fernet import Fernet

from tests.cli.shell import Shell
from tests.cli.test_serve import url_of
from tests.kit import until
from tests.motor.rig import NatsServer
from tests.postgres_server import fresh_database
from tests.store.pg_proxy import Proxy
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.postgres.locks import PostgresLock
from toolwright.adapters.system import build_version
from toolwright.client import Client, Health
from toolwright.core.journal.units import IDLE

pytestmark = pytest.mark.anyio

OLDEST = "The oldest unclaimed wake-up has been due for 0.0 s.\n"
HEADER = ["node", "version", "busy", "slots", "clock", "last heartbeat", "state", "address"]
NO_CLUSTER = f"There is no cluster on this database.\n{IDLE}\n"

APP = """
import toolwright as tw
from toolwright.testing import ScriptedModel

app = tw.App(agents=[tw.Agent("clerk", tw.Prompt("p", "Help.", model=ScriptedModel([{"text": "Done."}])))])
"""


@pytest.fixture
async def database() -> AsyncGenerator[str]:
    async with fresh_database() as url:
        yield url


async def answered(url: str) -> object:
    """Send a message to the server at that URL. Return the agent's answer."""
    async with Client(url) as client, asyncio.timeout(30):
        thread = await client.threads.create("clerk")
        sent = await client.threads.send(thread.id, "Go.")
        return (await client.runs.wait(sent.run_id)).output


def found_by_doctor(shell: Shell) -> list[tuple[str, ...]]:
    """Return the findings of `toolwright doctor`, line by line."""
    return [tuple(line.split("\t")) for line in shell.run("doctor", "--port", "0").stdout.splitlines()]


async def has_warning(ask: Callable[[], Awaitable[Health]]) -> bool:
    return (await ask()).warning is not None


async def is_ready(client: Client) -> bool:
    return (await client.ready()).status == "ok"


async def test_one_process_serves_and_another_works(shell: Shell, database: str) -> None:
    shell.write("nodes_app.py", APP)
    shell.env |= {"TOOLWRIGHT_DATABASE_URL": database, "TOOLWRIGHT_CLUSTER": "postgres"}
    shell.env["TOOLWRIGHT_ENCRYPTION_KEYS"] = Fernet.generate_key().decode()

    def nodes() -> list[list[str]]:
        done = shell.run("nodes")
        assert (done.returncode, done.stderr) == (0, OLDEST if done.stdout else NO_CLUSTER)
        header, *rows = [line.split("\t") for line in done.stdout.splitlines()] or [HEADER]
        assert header == HEADER
        return rows

    assert await asyncio.to_thread(nodes) == []
    with (
        shell.start("serve", "nodes_app:app", "--port", "0", "--no-work") as server,
        shell.start("work", "nodes_app:app") as worker,
    ):
        url = await asyncio.to_thread(url_of, server)
        await asyncio.to_thread(
            worker.until, "Toolwright executes the runs of nodes_app:app. Ctrl-C stops it."
        )
        assert await answered(url) == "Done."
        [(node, shown_version, busy, slots, skew, seen, state, address)] = await asyncio.to_thread(nodes)
        assert (node.startswith("node_"), busy, slots, seen.endswith(" s ago")) == (True, "0", "1000", True)
        assert shown_version == build_version()
        assert (state, address) == ("living", f"{gethostname()} (pid {worker.process.pid})")
        assert abs(float(skew.removesuffix(" s"))) < 10
        findings = await asyncio.to_thread(found_by_doctor, shell)
        assert ("nodes", "ok", "1 alive") in findings
        assert ("owner", "ok", "1 node of a cluster executes the runs") in findings
        del shell.env["TOOLWRIGHT_CLUSTER"]
        [note] = [each for each in await asyncio.to_thread(found_by_doctor, shell) if each[0] == "nodes"]
        assert note[1] == "note" and note[2].startswith("1 living node of a cluster on this database: ")
        shell.env["TOOLWRIGHT_CLUSTER"] = "postgres"
        shell.env["TOOLWRIGHT_FILES_URL"] = str(shell.folder / "other.files")
        findings = await asyncio.to_thread(found_by_doctor, shell)
        [(what, _, said)] = [each for each in findings if each[1] == "broken"]
        assert what == "nodes" and said.startswith(
            f"The node {node} does not share the files of this process. "
        )
        del shell.env["TOOLWRIGHT_FILES_URL"]
        shell.env["TOOLWRIGHT_ENCRYPTION_KEYS"] = Fernet.generate_key().decode()
        findings = await asyncio.to_thread(found_by_doctor, shell)
        [said] = [each[2] for each in findings if each[:2] == ("nodes", "broken")]
        assert said.startswith(f"The node {node} encrypts secrets with a key that this process does not have")
        async with httpx2.AsyncClient(timeout=60) as http:
            for path in ("/health", "/ready"):
                body = (await http.get(f"{url}{path}")).json()
                assert (body["status"], "warning" in body) == ("ok", False)
        worker.ctrl_c()
        assert await asyncio.to_thread(worker.end) == 0
        assert await asyncio.to_thread(nodes) == []  # the node has left
        assert ("owner", "note", IDLE) in await asyncio.to_thread(found_by_doctor, shell)
        async with Client(url) as client:
            for ask in (client.health, client.ready):
                await until(partial(has_warning, ask))
                assert ((await ask()).status, (await ask()).warning) == ("ok", IDLE)


async def test_nodes_are_shown_by_the_databases_clock_with_their_state_and_their_url(
    shell: Shell, database: str
) -> None:
    shell.write("nodes_app.py", APP)
    shell.env["TOOLWRIGHT_DATABASE_URL"] = database
    session = await connect(database)
    insert = "INSERT INTO nodes (id, version, slots, busy, seen, address) VALUES ($1, '1', 10, 0, $2, 'host')"
    await session.execute(insert, "node_dead", 1_767_225_600_000_000)
    done = await asyncio.to_thread(shell.run, "nodes")
    assert done.stdout.splitlines()[1].split("\t")[-2:] == ["dead since 2026-01-01 00:00:00 UTC", "host"]
    assert done.stderr.splitlines()[-1] == IDLE
    await session.close()
    shell.env |= {"TOOLWRIGHT_CLUSTER": "postgres", "TOOLWRIGHT_NODE_URL": "http://10.0.0.3:8000"}
    with shell.start("work", "nodes_app:app") as worker:
        await asyncio.to_thread(worker.until, "Ctrl-C stops it.")
        done = await asyncio.to_thread(shell.run, "nodes")
        assert "http://10.0.0.3:8000" in [line.split("\t")[-1] for line in done.stdout.splitlines()]
        assert IDLE not in done.stderr


def test_nodes_of_a_database_that_can_have_none_are_not_looked_for(shell: Shell) -> None:
    done = shell.run("nodes")
    assert (
        done.stderr
        == "There is no cluster. A cluster needs a Postgres database: set TOOLWRIGHT_DATABASE_URL.\n"
    )


async def test_a_process_without_a_cluster_that_keeps_nodes_waiting_is_named(
    shell: Shell, database: str
) -> None:
    shell.write("nodes_app.py", APP)
    shell.env |= {"TOOLWRIGHT_DATABASE_URL": database, "TOOLWRIGHT_CLUSTER": "postgres"}
    shell.env["TOOLWRIGHT_ENCRYPTION_KEYS"] = Fernet.generate_key().decode()
    lock = PostgresLock(database)
    assert await lock.acquire()
    said = "process without TOOLWRIGHT_CLUSTER executes the runs"
    with shell.start("work", "nodes_app:app") as waiting:
        told = await asyncio.to_thread(waiting.until, "Ctrl-C stops it.")
        assert "Toolwright waits to execute the runs of nodes_app:app. Ctrl-C stops it." in told
    with shell.start("serve", "nodes_app:app", "--port", "0") as server:
        url = await asyncio.to_thread(url_of, server)
        async with httpx2.AsyncClient(timeout=60) as http:
            answer = await http.get(f"{url}/ready")
            assert (answer.status_code, said in answer.json()["error"]) == (503, True)
            assert (await http.get(f"{url}/health")).status_code == 200
        assert said in (await asyncio.to_thread(shell.run, "nodes")).stderr
        findings = await asyncio.to_thread(found_by_doctor, shell)
        assert ("owner", "ok", f"a {said}") in findings
        [note] = [each[2] for each in findings if each[0] == "nodes"]
        assert said in note
        await lock.release()
        async with Client(url) as client:
            await until(lambda: is_ready(client))


async def test_the_doctor_says_whether_the_broker_answers(shell: Shell, database: str) -> None:
    broker = await asyncio.to_thread(NatsServer)
    host = broker.url.removeprefix("nats://")
    shell.env |= {"TOOLWRIGHT_DATABASE_URL": database, "TOOLWRIGHT_CLUSTER": f"nats://user:hidden@{host}"}

    async def found() -> tuple[str, ...]:
        lines = await asyncio.to_thread(found_by_doctor, shell)
        assert "hidden" not in str(lines)
        return next(each for each in lines if each[0] == "NATS")

    try:
        assert await found() == ("NATS", "ok", f"{host} answers")
    finally:
        await asyncio.to_thread(broker.kill)
    what, verdict, said = await found()
    assert (what, verdict) == ("NATS", "broken")
    assert said == f"{host} cannot be used: connection refused"


async def test_the_doctor_names_a_pooler_that_keeps_no_lock(shell: Shell, database: str) -> None:
    async with Proxy(database, pools=True) as proxy:
        shell.env["TOOLWRIGHT_DATABASE_URL"] = proxy.url
        lines = await asyncio.to_thread(found_by_doctor, shell)
        [said] = [each[2] for each in lines if each[:2] == ("database", "broken")]
        assert "through a connection pooler such as PgBouncer" in said
        shell.env["TOOLWRIGHT_CLUSTER"] = "nats://127.0.0.1:9"
        lines = await asyncio.to_thread(found_by_doctor, shell)
        assert [each[0] for each in lines if each[1] == "broken"] == ["NATS"]


def test_settings_that_need_a_shared_database_are_refused_without_one(shell: Shell) -> None:
    shell.env["TOOLWRIGHT_DATABASE_URL"] = "memory://"
    said = (
        "toolwright: The setting TOOLWRIGHT_WORK is not valid: a process without work needs a shared database"
    )
    assert shell.refused("serve", "--no-work")[1].startswith(said)
    with shell.start(
        "serve", "--dev", "--no-work", "--port", "0"
    ) as server:  # the same in the process that it starts
        server.until(said)
        server.ctrl_c()
        server.end()
    shell.env["TOOLWRIGHT_CLUSTER"] = "postgres"
    assert "TOOLWRIGHT_CLUSTER is not valid: a cluster needs a Postgres database" in shell.refused("work")[1]


@pytest.mark.parametrize(
    ("variables", "arguments", "said"),
    [
        (
            {},
            (),
            "`toolwright work` needs the app whose runs it executes. Name it, as in `toolwright work app:app`",
        ),
        ({"TOOLWRIGHT_WORK": "off"}, ("app:app",), "only executes runs, but TOOLWRIGHT_WORK is off. Remove"),
        (
            {"TOOLWRIGHT_DATABASE_URL": "memory://"},
            ("app:app",),
            "No other process can use a journal in memory: set TOOLWRIGHT_DATABASE_URL.",
        ),
    ],
)
def test_a_worker_that_would_do_nothing_is_refused(
    shell: Shell, variables: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    shell.write("app.py", APP)
    shell.env |= variables
    code, line = shell.refused("work", *arguments)
    assert code == 2 and said in line


async def test_listing_the_nodes_makes_no_tables(shell: Shell) -> None:
    async with fresh_database(migrated=False) as url:
        shell.env |= {"TOOLWRIGHT_DATABASE_URL": url}
        listed = await asyncio.to_thread(shell.run, "nodes")
        assert listed.returncode == 0, listed.stderr
        connection = await connect(url)
        try:
            tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
            assert await connection.fetchval(tables) == 0
        finally:
            await connection.close()
