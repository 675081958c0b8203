"""The end of every command, even if foreign threads and tasks never end: its output and its exit code."""

import socket
from contextlib import ExitStack

from tests.cli.shell import Shell

APP = """
import asyncio, threading
import toolwright as tw
from toolwright.testing import ScriptedModel

def never():
    threading.Event().wait()

async def deaf():
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass

@tw.tool(description="Waits for a thread that never comes back.", timeout=0.05)
async def waits() -> str:
    await asyncio.to_thread(never)

@tw.tool(description="Leaves a thread at work.")
def leaves() -> str:
    threading.Thread(target=never, daemon=False).start()
    return "left"

@tw.tool(description="Leaves a task at work that swallows every cancellation.")
async def spawns() -> str:
    asyncio.create_task(deaf())
    await asyncio.sleep(0)
    return "left"

@tw.tool(description="Is interrupted.", timeout=5.0)
async def interrupted() -> str:
    threading.Thread(target=never, daemon=False).start()
    raise KeyboardInterrupt

@tw.tool(description="Is interrupted in the caller's task, and leaves a deaf one.", timeout=None)
async def interrupted_here() -> str:
    await spawns.handler()
    raise KeyboardInterrupt

async def endless():
    try:
        yield 1
    finally:
        await deaf()

@tw.tool(description="Leaves a generator open that does not let itself be closed.")
async def opens() -> str:
    generator = endless()
    await anext(generator)
    kept.append(generator)
    return "left"

async def begins_another():
    try:
        await asyncio.sleep(3600)
    finally:
        kept.append(asyncio.create_task(deaf()))

@tw.tool(description="Leaves a task that begins a deaf one when it is cancelled.")
async def delegates() -> str:
    kept.append(asyncio.create_task(begins_another()))
    await asyncio.sleep(0)
    return "left"

kept = []
tools = [waits, leaves, spawns, interrupted, interrupted_here, opens, delegates]
model = ScriptedModel([{"calls": [{"name": "leaves", "args": {}}]}, {"text": "Done."}])
app = tw.App(agents=[tw.Agent("helper", tw.Prompt("helper", "Help.", model=model, tools=tools))], tools=tools)
"""

STUCK = """
import threading
import toolwright as tw

threading.Thread(target=threading.Event().wait).start()
app = tw.App()
"""


CASES = (
    ("waits", 1, '{"error":"Tool timed out after 50ms","error_code":"timeout"}'),
    ("leaves", 0, "left"),
    ("spawns", 0, "left"),
    ("opens", 0, "left"),
    ("delegates", 0, "left"),
    ("interrupted", 130, ""),
    ("interrupted_here", 130, ""),
)


def test_a_call_ends_though_its_handler_leaves_something_running(empty: Shell) -> None:
    """All cases at once, since each waits some seconds for the work that is left."""
    empty.write("app.py", APP)
    with ExitStack() as at_work:
        calls = {case: at_work.enter_context(empty.start("call", case[0])) for case in CASES}
        ends = {case: call.end() for case, call in calls.items()}
    for (tool, code, printed), call in calls.items():
        assert ends[tool, code, printed] == code, tool
        assert printed in call.shown, tool
        assert "Traceback" not in call.shown, tool


def test_a_chat_ends_though_a_handler_leaves_a_thread_running(empty: Shell) -> None:
    empty.write("app.py", APP)
    with empty.start_anew("chat", "helper") as chat:
        chat.say("Go")
        chat.until("Done.")
        chat.say("/quit")
        assert chat.end() == 0


def test_commands_end_though_the_app_itself_leaves_a_thread_running(empty: Shell) -> None:
    empty.write("app.py", STUCK)
    with empty.start_anew("tools", "list") as listing:
        assert listing.end() == 0


def test_a_server_that_cannot_serve_ends_though_the_app_leaves_a_thread_running(empty: Shell) -> None:
    empty.write("app.py", STUCK)
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, empty.start("serve", "app:app", "--port", str(taken.getsockname()[1])) as server:
        assert server.end() == 1
    assert "is in use" in server.shown
