"""Runs, as a client sees them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolwright.client.run_results import RunResults
from toolwright.client.transport.follow import CONNECTED, follow, signals
from toolwright.client.transport.http import RETRIABLE, Http, segment
from toolwright.core.agents.run_events import RunEvent
from toolwright.core.agents.run_result import RunResult
from toolwright.core.threads.run import OVER, RunStatus
from toolwright.wire.event import Event
from toolwright.wire.reading import Items, read_broken, read_field, read_list
from toolwright.wire.run import Run, SentPrompt

ENDS = frozenset(f"run.{status}" for status in OVER)


class Runs:
    """The runs of a gateway. Raises `NotFound` for ids that lead nowhere."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._results = RunResults(http)

    async def get(self, run_id: str) -> Run:
        """Return the run, with its steps."""
        answer = await self._http.get(_path(run_id))
        return read_field(Run, answer, "run").lacking(read_broken(answer))

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Items[Run]:
        """Runs, the newest first, without their steps."""
        query = {
            "status": status,
            "agentId": agent,
            "threadId": thread_id,
            "limit": limit,
            "offset": offset,
        }
        return read_list(Run, await self._http.get("/api/runs", query), "runs")

    async def events(self, run_id: str, after: int = 0, limit: int = 500, offset: int = 0) -> Items[Event]:
        """Return the run's recorded events after the number `after`, in order."""
        query = {"after": after, "limit": limit, "offset": offset}
        return read_list(Event, await self._http.get(f"{_path(run_id)}/events", query), "events")

    async def prompts(self, run_id: str, limit: int = 20, offset: int = 0) -> Items[SentPrompt]:
        """Return what models were sent at each step of the run, in order, also within its prompt tools."""
        query = {"limit": limit, "offset": offset}
        return read_list(SentPrompt, await self._http.get(f"{_path(run_id)}/prompts", query), "prompts")

    async def result(self, run_id: str) -> RunResult:
        """Return the result of the run, so far if it has not ended: its output as JSON, its messages and calls."""
        return await self._results.result(run_id)

    def stream(self, run_id: str) -> AsyncGenerator[RunEvent]:
        """Yield the run's events as values, from its start to its end; the last one is `RunDone`. See `follow`."""
        return self._results.run(run_id)

    def follow(self, run_id: str, after: int | None = None) -> AsyncGenerator[Event]:
        """Yield the run's events without end, also after the run has ended: first those recorded after the number
        `after` (0: all), then live ones; without `after` from now on. See `Threads.follow`.
        """
        return follow(self._http, f"{_path(run_id)}/stream", after)

    async def wait(self, run_id: str, timeout: float | None = None) -> Run:
        """Wait for the end of the run and return it; `TimeoutError` after `timeout` seconds.

        It follows the run's stream, and reads the run at the start and at the end.
        """
        begun = False
        async with asyncio.timeout(timeout):
            while True:
                try:
                    async with aclosing(signals(self._http, f"{_path(run_id)}/stream")) as events:
                        async for event in events:
                            begun = True
                            if event.type == CONNECTED or event.type in ENDS:
                                run = await self.get(run_id)
                                if run.over:
                                    return run
                except RETRIABLE:
                    if not begun:
                        raise

    async def cancel(self, run_id: str) -> Run:
        """Cancel the run; `RunOver` if it has ended. It is `cancelled` soon after, see `wait`."""
        return read_field(Run, (await self._http.call("POST", f"{_path(run_id)}/cancel")).json, "run")

    async def retry(self, run_id: str) -> Run:
        """Continue a failed run from its last step, see `wait`.

        Raises `NotFailed` for a run that has not failed, or whose inbox events are retried one by one, `RunOver` if a
        later run of its thread has been made, `ThreadBusy` while a run is open in the thread, `ThreadTerminated` if
        the thread's session has ended.
        """
        return read_field(Run, (await self._http.call("POST", f"{_path(run_id)}/retry")).json, "run")


def _path(run_id: str) -> str:
    return f"/api/runs/{segment(run_id)}"
