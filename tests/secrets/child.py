"""A process that leaks as much as it can into a journal, and kills itself in the middle if requested.

`python -m tests.secrets.child FOLDER die|live`
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import toolwright as tw
from tests.secrets.leaks import CANARY, WAYS, Calling, leak
from toolwright.wiring.settings import Settings


@tw.tool(description="Die.", idempotent=True)
async def die(state: tw.ThreadState) -> str:
    """Write as much as possible, then stop as in a power cut."""
    state.set_env("LATE", CANARY)
    await state.write_file("note.txt", b"harmless")
    state.emit("late", CANARY)
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return CANARY


async def main() -> None:
    folder = Path(sys.argv[1])
    model = Calling([*WAYS[:4], "die", *WAYS[4:]])
    agent = tw.Agent("tester", tw.Prompt("tester", "You test.", model=model, tools=[leak, die]))
    settings = Settings(database_url=f"sqlite:///{folder / 'journal.db'}", max_result_text=1_024)
    async with tw.App(agents=[agent]).runtime(settings) as rt:
        threads = await rt.threads.list()
        if not threads:
            thread = await rt.threads.create("tester", env={"CANARY": CANARY})
            await rt.threads.send(thread.id, "Go")
        [run] = await rt.runs.list()
        print((await rt.runs.wait(run.id, 30)).status)


if __name__ == "__main__":
    asyncio.run(main())
