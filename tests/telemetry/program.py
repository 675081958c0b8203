"""A program whose agent calls a failing tool, in a separate environment."""

import os
from pathlib import Path

from tests.forks import Forks

SECRET = "sk-very-secret-4711"

PROGRAM = f"""
import asyncio
import logging
import toolwright as tw
from toolwright import testing

@tw.tool(description="Fail.")
async def fail(state: tw.ThreadState) -> str:
    key = await state.env("KEY")
    logging.getLogger("mine").error("The key is %s.", key)
    raise ValueError(f"no luck with {{key}}")

model = testing.ScriptedModel([{{"calls": [{{"name": "fail", "args": {{}}}}]}}, {{"text": "Done."}}])
app = tw.App(agents=[tw.Agent("boss", tw.Prompt("boss", "You work.", model=model, tools=[fail]))])

async def main() -> None:
    async with testing.runtime(app) as rt:
        thread = await rt.threads.create("boss", env={{"KEY": "{SECRET}"}})
        run = await rt.runs.wait((await rt.threads.send(thread.id, "go")).id, 20)
        print(run.status, rt.telemetry is not None)

asyncio.run(main())
"""


def lead(folder: Path, commands: Forks, **variables: str) -> str:
    """Return the output of the program in that environment."""
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "SENTRY_"))}
    done = commands.run([], folder, kept | variables, program="program.py")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
