"""A worker that executes calls to the tool `fetch_data`, for a server on any machine.

export TOOLWRIGHT_URL=http://127.0.0.1:8000 TOOLWRIGHT_SECRET_KEY=…
python examples/worker.py

On SIGTERM or Ctrl-C it finishes the calls in progress and claims no new ones.
"""

import asyncio
import logging
import os
import signal

from toolwright.client import Client, Worker


async def fetch_data(query: str) -> dict[str, object]:
    """Look something up. The call's arguments are passed as keywords."""
    return {"source": "pm-api", "results": [f"Something about {query}"]}


async def main() -> None:
    logging.basicConfig(level=logging.INFO)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    url = os.environ.get("TOOLWRIGHT_URL", "http://127.0.0.1:8000")
    async with Client(url, secret_key=os.environ.get("TOOLWRIGHT_SECRET_KEY")) as client:
        worker = Worker(client, concurrency=10, lease=30.0)
        worker.tool("fetch_data", fetch_data)
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await stopping.wait()
            await worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
