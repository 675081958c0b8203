"""The client of one server."""

import asyncio
from types import TracebackType

import httpx

from toolwright.client.agents import Agents, Blocks, Inboxes, Passages
from toolwright.client.calls import Calls, Requests
from toolwright.client.runs import Runs
from toolwright.client.spaces import Entities, FrontEnds, Spaces
from toolwright.client.threads import Files, Threads
from toolwright.client.transport.http import Http, Identity, Pause, Token, error_of, shown_in
from toolwright.wire.server import Health, StreamToken
from toolwright.wire.shape import read


class Client:
    """A server's agents, threads, runs and calls: `async with Client("http://127.0.0.1:8000") as client:`.

    A service passes its `secret_key`; a person's program the `public_key` and a `token`, a JWT or a function that
    returns a fresh one. `timeout` is the number of seconds for each part of a request, `silence` the number of seconds
    without data after which a stream reconnects; a server sends a comment every 15. `http` is your own httpx client
    (for proxies, certificates, tests), which you close yourself; without it nothing is read from the environment.
    `pause` waits between two attempts.

    An error of the server is raised as the same error class. Requests that read, or are idempotent, are tried four
    times if the server is unreachable or answers 503; all others only if nothing was sent, or the server answers 429
    without having read them.
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
        http: httpx.AsyncClient | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        identity = Identity(secret_key, public_key, token)
        self._own = httpx.AsyncClient(trust_env=False, limits=_UNLIMITED) if http is None else None
        chosen = http or self._own
        assert chosen is not None, "one of the two is there"
        self._http = Http(base_url, identity, chosen, timeout=timeout, silence=silence, pause=pause)
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
        if self._own is not None:
            await self._own.aclose()

    async def health(self) -> Health:
        """Check the server's health. It can be `unavailable`. Raises `Unreachable` if there is no answer."""
        return await self._state("/health")

    async def ready(self) -> Health:
        """Check whether the server should get requests: as `health`, and its node of a cluster has a heartbeat."""
        return await self._state("/ready")

    async def live(self) -> Health:
        """Return that the server's process answers, whatever its database does. Raises `Unreachable` if it does not."""
        return await self._state("/live")

    async def _state(self, path: str) -> Health:
        answer = await self._http.once("GET", path)
        body = shown_in(answer.body)
        if "status" in body:
            return read(Health, body)
        raise error_of(answer.status, answer.headers, answer.body)

    async def stream_token(self) -> StreamToken:
        """Return a token that opens one stream within a minute, for a browser: `?token=`."""
        return read(StreamToken, (await self._http.call("POST", "/api/stream-tokens", repeat="lost")).json)


_UNLIMITED = httpx.Limits(
    max_connections=None,  # each follower holds a connection: none waits for another
    keepalive_expiry=4.0,  # less than the 5 s after which many servers and proxies end an idle connection
)
