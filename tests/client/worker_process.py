"""A worker in a separate process; every effect is a line in a file that is synced before the result is sent.

`python worker_process.py URL FILE [FREE]`: if FREE is given, `hang` returns once a file of that name exists.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from toolwright.client import Client, Worker


def witness(path: str, said: str) -> None:
    """Append a whole line and sync it."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{os.getpid()} {said}\n".encode())
    os.fsync(file)
    os.close(file)


async def main(url: str, path: str, mode: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with Client(url) as client:
        worker = Worker(client, concurrency=5, lease=1.0, name="test")

        @worker.tool("effect")
        def effect(n: int) -> int:  # pyright: ignore[reportUnusedFunction]  # the worker has it
            witness(path, f"effect {n}")
            return n

        async def hang(n: int) -> str:
            witness(path, f"hang {n}")
            if mode == "hangs":
                await asyncio.Event().wait()
            return "done by the other"

        worker.tool("once")(hang)
        worker.tool("again")(hang)
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            print("ready", flush=True)
            await stopping.wait()
            await worker.stop()


if __name__ == "__main__":
    assert Path(sys.argv[2]).parent.is_dir()
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
