"""The demo's external worker, a separate process: `python -m toolwright.cli.demo.worker URL`."""

import asyncio
import os
import signal
import sys

from toolwright.cli.loop import force_exit, run
from toolwright.client import Client, Worker

KEY = "TOOLWRIGHT_DEMO_KEY"


async def find_hotels(city: str) -> list[dict[str, object]]:
    """Return hotels of a city."""
    return [
        {"hotel": "Sakura", "city": city, "price": 120},
        {"hotel": "Fuji View", "city": city, "price": 180},
    ]


async def _work(url: str, key: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with Client(url, secret_key=key) as client:
        worker = Worker(client, name="demo")
        worker.tool("find_hotels", find_hotels)
        working = asyncio.create_task(worker.run())
        await stopping.wait()
        await worker.stop()
        await working


if __name__ == "__main__":
    run(_work(sys.argv[1], os.environ[KEY]))
    force_exit(0)
