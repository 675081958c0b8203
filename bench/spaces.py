"""Messages per second from twenty writers, in one shared space and in one space each, on SQLite and Postgres.

The floor is the same number of synced commits of one row, from as many connections as the journal has (SQLite: one).
"""

import asyncio
import tempfile
import time
from pathlib import Path

from tests.postgres_server import fresh_database

import toolwright as tw
from bench.commits import postgres_floors, sqlite_floor
from bench.row import Row
from toolwright.testing import ScriptedModel
from toolwright.wiring.gateway import settle_memory

WRITERS, EACH = 20, 25


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    return asyncio.run(_all())


async def _all() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        floor = sqlite_floor(Path(folder) / "floor.db")
        rows += await _measured("SQLite", f"sqlite:///{folder}/journal.db", floor)
    async with fresh_database(synced=True) as url:
        _, floor = await postgres_floors(url)
        rows += await _measured("Postgres", url, floor)
    return rows


async def _measured(name: str, url: str, floor: float) -> list[Row]:
    model = ScriptedModel([{"text": "x"}])
    app = tw.App(agents=[tw.Agent("bench", tw.Prompt("bench", "x", model=model))])
    with tempfile.TemporaryDirectory() as files:
        async with app.runtime(tw.Settings(database_url=url, files_url=files)) as rt:
            person = await rt.entities.create(external_id="bench")
            for number in range(WRITERS):
                await rt.spaces.create(id=f"space-{number}", name="bench", kind="public")

            async def write(space_id: str) -> None:
                for _ in range(EACH):
                    await rt.spaces.say(space_id, person.id, "Hello there, how are you all doing?")

            rows: list[Row] = []
            for where, spaces in (("one space", 1), ("a space each", WRITERS)):
                start = time.perf_counter()
                await asyncio.gather(*(write(f"space-{n % spaces}") for n in range(WRITERS)))
                rate = WRITERS * EACH / (time.perf_counter() - start)
                rows.append(
                    Row(
                        f"{name}: messages of {WRITERS} writers, {where}",
                        rate,
                        "/s",
                        floor,
                        None,
                        better="more",
                    )
                )
            return rows
