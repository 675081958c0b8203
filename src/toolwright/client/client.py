"""Client of a server's HTTP API: settings of the connection, and the groups of routes as attributes."""

import asyncio
from types import TracebackType

import httpx2

from toolwright.client.agents import Agents, Blocks, Inboxes, Passages
from toolwright.client.calls import Calls, Requests
from toolwright.client.http import CallerHeaders, Http, HttpClient, Pause, Token, error_from, json_object
from toolwright.client.runs import Runs
from toolwright.client.spaces import Entities, FrontEnds, Spaces
from toolwright.client.threads import Files, Threads
from toolwright.wire.server import Health, StreamToken
from toolwright.wire.shape import read


class Client:
    """A server's agents, threads, runs and calls: `async with Client("http://127.0.0.1:8000") as client:`.

    A service passes its `secret_key`. A person's program passes the `public_key` and a `token`: a JWT, or a function
    that returns a fresh one for each request. `timeout` is the number of seconds for each part of a request (default
    30). `silence` is the number of seconds without data after which a stream reconnects (default 40); a server sends
    a comment every 15 seconds. `http` is your own client of httpx2 or httpx (for proxies, certificates, tests), which
    you close yourself; without it no proxy or certificate is read from the environment. `pause` is awaited with the
    seconds between two attempts (default `asyncio.sleep`).

    An error of the server is raised as the same error class. Requests that read or are idempotent are tried four times
    if the server is unreachable or answers 503. All other requests are only retried if nothing was sent, or if the
    server answers 429, which means that it has not processed the request.
    """

    def __init__(
        self,
        base_url: str,
        *,
        secret_key: str | None = None,
        public_key: str | None = None,
        token: Token | None = None,
        timeout: float = 30.0,
        silence: float = 40.0,
        http: HttpClient | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        identity = CallerHeaders(secret_key, public_key, token)
        self._owned = httpx2.AsyncClient(trust_env=False, limits=_UNLIMITED) if http is None else None
        used = http or self._owned
        assert used is not None, "a client was passed or created"
        self._http = Http(base_url, identity, used, timeout=timeout, silence=silence, pause=pause)
        self.agents = Agents(self._http)
        self.blocks = Blocks(self._http)
        self.passages = Passages(self._http)
        self.threads = Threads(self._http)
        self.files = Files(self._http)
        self.runs = Runs(self._http)
        self.requests = Requests(self._http)
        self.calls = Calls(self._http)
        self.inboxes = Inboxes(self._http)
        self.entities = Entities(self._http)
        self.clients = FrontEnds(self._http)
        self.spaces = Spaces(self._http)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owned is not None:
            await self._owned.aclose()

    async def health(self) -> Health:
        """Check the server's health. It can be `unavailable`. Raises `Unreachable` if there is no answer."""
        return await self._state("/health")

    async def ready(self) -> Health:
        """Check whether the server should receive requests: as `health`, and in a cluster its node has a heartbeat."""
        return await self._state("/ready")

    async def live(self) -> Health:
        """Check that the server's process answers, regardless of its database. Raises `Unreachable` if it does not."""
        return await self._state("/live")

    async def _state(self, path: str) -> Health:
        answer = await self._http.once("GET", path)
        body = json_object(answer.body)
        if "status" in body:
            return read(Health, body)
        raise error_from(answer.status, answer.headers, answer.body)

    async def stream_token(self) -> StreamToken:
        """Return a token that opens one stream with this client's rights, as `?token=`. It is valid for one minute."""
        return read(StreamToken, (await self._http.call("POST", "/api/stream-tokens", repeat="lost")).json)


_UNLIMITED = httpx2.Limits(
    max_connections=None,  # each followed stream holds a connection, and must not block other requests
    keepalive_expiry=4.0,  # less than the 5 s after which many servers and proxies close an idle connection
)
