"""A process that runs code in a sandbox, and reports when the code is running."""

import asyncio
import sys

from toolwright.core.state.sandbox import read_options
from toolwright.wiring.executors import CodeSandbox


async def main(language: str, source: str, timeout: str) -> None:
    """Run the code for up to that many seconds. The code calls `ready()` when it is running."""

    async def ready() -> None:
        print("ready", flush=True)

    options = read_options(language=language, imports={"ready": ready}, timeout=float(timeout))
    outcome = await CodeSandbox().start(source, options)
    print(outcome.status, flush=True)


asyncio.run(main(*sys.argv[1:]))
