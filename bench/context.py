"""A step in a thread of 2,000 messages: with a context window of 32,000 tokens, and without a window.

Runs on SQLite on disk. A figure is the CPU time of the event loop's thread for a step after the first; it includes the
request and the commits of its answer and result. The floor is the same step in a new thread. The first row is the
number of messages that a claim reads from the thread.
"""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import connect

import toolwright as tw
from bench.row import Row
from toolwright.adapters.store.sql.messages import MESSAGES, messages
from toolwright.adapters.store.sql.threads import threads
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Usage

MESSAGES_BEFORE, STEPS, WARM = 2_000, 30, 5
WINDOW = 32_000  # tokens
EXTRA = 2.0  # ms more than a step of a new thread


class Timed:
    """A model that calls a tool at every step, and records the CPU time of the calling thread."""

    def __init__(self, window: int | None) -> None:
        self.name, self.window = "bench:timed", window
        self.times: list[float] = []
        self.sent: list[int] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream one answer."""
        if "summary" in request.who:
            yield ModelResponse(text="A summary of what was said.", model="timed")
            return
        self.times.append(time.thread_time())
        self.sent.append(len(request.messages))
        number = len(self.times)
        if number > STEPS:
            yield ModelResponse(text="Done.", model="timed")
            return
        call = ModelCall(id=f"c{number}", name="look", arguments='{"place": "here"}')
        yield ModelResponse(calls=(call,), model="timed", usage=Usage(output_tokens=10))


@tw.tool(read_only=True)
async def look(place: str) -> str:
    """Look at a place."""
    return f"Nothing is to be seen {place}. " * 10


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    return asyncio.run(_all())


async def _all() -> list[Row]:
    floor, _ = await _measured(0, None)
    whole, sent_whole = await _measured(MESSAGES_BEFORE, None)
    bounded, sent = await _measured(MESSAGES_BEFORE, WINDOW)
    sides, of_sides = await _measured(MESSAGES_BEFORE, None, has_sides=True)
    name = f"a step in a thread of {MESSAGES_BEFORE:,} messages"
    return [
        Row(
            f"{name}, a window of {WINDOW:,} tokens: CPU",
            bounded,
            "ms",
            floor,
            floor + EXTRA,
            note=f"{sent} sent",
        ),
        Row(f"{name}, sent whole: CPU", whole, "ms", floor, None, note=f"{sent_whole} sent"),
        Row(
            f"{name} between two sides, sent whole: CPU",
            sides,
            "ms",
            floor,
            floor + EXTRA,
            note=f"{of_sides} sent",
        ),
    ]


async def _measured(before: int, window: int | None, *, has_sides: bool = False) -> tuple[float, int]:
    """Return the CPU ms of a step, and the number of messages in its request."""
    model = Timed(window)
    prompt = tw.Prompt("bench", "Look around.", model=model, tools=[look])
    agent = tw.Agent("bench", tw.Side(prompt, max_steps=STEPS + 5))
    if has_sides:
        other = tw.Prompt("other", "Look around too.", model=model, tools=[look])
        agent = tw.Agent(
            "bench",
            type="dual_ai",
            side_a=tw.Side(prompt, max_steps=STEPS + 5),
            side_b=tw.Side(other, max_steps=STEPS + 5),
            max_session_turns=STEPS + 5,
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        settings = tw.Settings(database_url=f"sqlite:///{path}")
        async with tw.App(agents=[agent]).runtime(settings) as rt:
            thread = await rt.threads.create("bench")
        if before:
            _fill(path, thread.id, before, has_sides=has_sides)
        async with tw.App(agents=[agent]).runtime(settings) as rt:
            run = await rt.threads.send(thread.id, "Look around.")
            done = await rt.runs.wait(run.id, 60)
            assert done.status == "completed", done.error
    steps = [b - a for a, b in zip(model.times[WARM:], model.times[WARM + 1 :], strict=False)]
    return statistics.median(steps) * 1_000, model.sent[-1]


def _fill(path: Path, thread_id: str, count: int, *, has_sides: bool) -> None:
    """Add that number of 1 KB messages to the thread, as a conversation with a user or between two sides."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        MESSAGES.params(
            Message(
                id=f"msg_{seq}",
                role="assistant" if has_sides or seq % 2 == 0 else "user",
                side=("side_b" if seq % 2 else "side_a") if has_sides else None,
                content=json.dumps({"number": seq, "text": "word " * 200}),
                created_at=at,
            ),
            thread_id=thread_id,
            seq=seq,
        )
        for seq in range(1, count + 1)
    ]
    names = [column.name for column in messages.columns]
    marks = ", ".join(f":{name}" for name in names)
    with closing(connect(path)) as connection:
        connection.executemany(f"INSERT INTO messages ({', '.join(names)}) VALUES ({marks})", rows)
        connection.execute(f"UPDATE {threads.name} SET seq = ? WHERE id = ?", (count, thread_id))
        connection.commit()
