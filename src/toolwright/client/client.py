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

    A service gives its `secret_key`; a person's program the `public_key` and a `token`, a JWT or what gives a fresh
    one. `timeout` are the seconds that each part of a request may take, `silence` those without a sign of life after
    which a stream is taken up again; a server sends one every 15. `http` is an own client of httpx (for proxies,
    certificates, tests), which is yours to close; without it nothing is read from the environment. `pause` waits
    between two tries.

    What the server refuses is raised as the error of the tree that it is there. What only reads, or is the same when
    it is done twice, is tried four times when the server is not there or says 503; all else only if nothing was sent,
    or the server has too much to do to read it (429).
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
        """Check whether the server can work; `unavailable` is an answer too. Raises `Unreachable` if there is none."""
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
