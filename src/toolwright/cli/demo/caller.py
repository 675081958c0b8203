"""The demo as a client of its gateway, over HTTP like any other program."""

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import httpx

from toolwright.core.errors import ToolwrightError
from toolwright.core.json_value import JSONObject
from toolwright.core.text import sentence

TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An event as it came over the stream."""

    type: str
    payload: JSONObject
    at: datetime
    run_id: str | None


class Caller:
    """Calls one gateway with its secret key."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=url, headers={"x-secret-key": key}, timeout=TIMEOUT, trust_env=False
        )

    async def create_thread(self, agent: str) -> str:
        """A new thread; its id."""
        return str((await self._post("/api/threads", {"agentId": agent}))["threadId"])

    async def send(self, thread_id: str, content: str) -> str:
        """Send a message; the id of the run that reads it."""
        return str((await self._post(f"/api/threads/{thread_id}/messages", {"content": content}))["runId"])

    async def follow(self, thread_id: str) -> AsyncGenerator[Seen]:
        """The thread's events as they happen; the first, `connected`, says that none will be missed."""
        with _faults_in_words():
            async with self._http.stream("GET", f"/api/threads/{thread_id}/stream") as stream:
                await _check(stream)
                async for line in stream.aiter_lines():
                    if line.startswith("data:"):
                        yield _event(json.loads(line.removeprefix("data:")))

    async def sign_in_path(self) -> str:
        """A path of the gateway that signs in at the console, once."""
        return str((await self._post("/console/links", {}))["path"])

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _post(self, path: str, body: JSONObject) -> JSONObject:
        with _faults_in_words():
            response = await self._http.post(path, json=body)
            await _check(response)
        answer: JSONObject = response.json()
        return answer


@contextmanager
def _faults_in_words() -> Generator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise ToolwrightError(
            sentence(f"The gateway cannot be reached: {str(error) or type(error).__name__}")
        ) from error


async def _check(response: httpx.Response) -> None:
    if response.is_error:
        body = (await response.aread()).decode("utf-8", "replace")
        raise ToolwrightError(f"The gateway answered {response.status_code}: {body}")


def _event(event: JSONObject) -> Seen:
    payload, run_id = event.get("data"), event.get("runId")
    return Seen(
        type=str(event["type"]),
        payload=payload if isinstance(payload, dict) else {},
        at=datetime.fromisoformat(str(event["ts"])),
        run_id=run_id if isinstance(run_id, str) else None,
    )
