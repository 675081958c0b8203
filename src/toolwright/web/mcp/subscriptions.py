"""Subscriptions of hosts to resources: a changed file of the app is reported to the sessions that subscribed to it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from toolwright.core.concurrency import start_task
from toolwright.web.mcp.resources import Resources, ToolResource
from toolwright.web.mcp.sessions import principal
from toolwright.web.mcp.tools import Context, McpParts

MAX_URIS = 100
"""Maximum number of resources to which one session or one stream of `subscriptions/listen` subscribes."""
MAX_STREAMS = 20
"""Maximum number of streams of `subscriptions/listen` of one caller."""
INTERVAL = 2.0
"""Seconds between two polls of the files, which is the shortest time between two reports of a resource."""

UNFOLLOWED = "The resource is read by a tool, so that its changes are not known"
_KEY = "toolwright.subscriptions"

_Version: TypeAlias = tuple[int, int, int] | None


class Subscriptions:
    """The methods of subscriptions, in both revisions.

    Changes of resources that a tool reads are unknown. Of the others only the app's files change: texts are fixed, and
    files of calls are written once. A file is polled only while it has subscriptions.
    """

    def __init__(self, parts: McpParts, resources: Resources) -> None:
        self._parts = parts
        self._resources = resources
        self._bus = InMemorySubscriptionBus()
        self._handler = ListenHandler(self._bus, max_buffered_events=2 * MAX_URIS)
        self._streams = Counter[str]()
        self._files = {
            each.uri: each.content for each in parts.permissions.resources if isinstance(each.content, Path)
        }
        self._followed = Counter[str]()
        self._versions: dict[str, _Version] = {}
        self._polling: asyncio.Task[None] | None = None

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Handle `resources/subscribe` of 2025-11-25."""
        if isinstance(await self._resources.find(context, params.uri), ToolResource):
            raise MCPError(types.INVALID_PARAMS, UNFOLLOWED, {"uri": params.uri[:1000]})
        session = self._session(context)
        if params.uri in session.uris:
            return types.EmptyResult()
        if len(session.uris) >= MAX_URIS:
            raise _too_many(f"A session subscribes to at most {MAX_URIS} resources.")
        session.uris.add(params.uri)
        await self._follow([params.uri])
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Handle `resources/unsubscribe` of 2025-11-25. No effect without a subscription."""
        session = self._session(context)
        if params.uri in session.uris:
            session.uris.discard(params.uri)
            self._unfollow([params.uri])
        return types.EmptyResult()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Handle `subscriptions/listen` of 2026-07-28: report changes until the host closes the stream.

        Only resources that the caller may read and that can be followed are acknowledged. Lists do not change, so their
        changes are not.
        """
        wanted = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        if len(wanted) > MAX_URIS:
            raise _too_many(f"A stream subscribes to at most {MAX_URIS} resources.")
        owner = principal(self._parts.caller(context))
        if self._streams[owner] >= MAX_STREAMS:
            raise _too_many(f"A caller has at most {MAX_STREAMS} streams of subscriptions.")
        self._streams[owner] += 1
        uris: list[str] = []
        try:
            uris = [uri for uri in wanted if await self._is_followed(context, uri)]
            await self._follow(uris)
            honored = types.SubscriptionFilter(resource_subscriptions=uris)
            return await self._handler(context, params.model_copy(update={"notifications": honored}))
        finally:
            self._unfollow(uris)
            self._streams[owner] -= 1
            self._streams = +self._streams  # without callers that have no stream

    async def _is_followed(self, context: Context, uri: str) -> bool:
        try:
            resource = await self._resources.find(context, uri)
        except MCPError:
            return False
        return not isinstance(resource, ToolResource)

    def _session(self, context: Context) -> "_Subscriber":
        # The SDK shows handlers no other place that ends with the session.
        connection = context.session._connection  # pyright: ignore[reportPrivateUsage]
        if _KEY not in connection.state:
            connection.state[_KEY] = session = _Subscriber(context.session)
            connection.exit_stack.callback(self._end, session, self._bus.subscribe(session.deliver))
        return connection.state[_KEY]

    def _end(self, session: "_Subscriber", unsubscribe: Callable[[], None]) -> None:
        unsubscribe()
        session.close()
        self._unfollow(session.uris)

    async def _follow(self, uris: Iterable[str]) -> None:
        """Poll the files among the resources. Changes after the return are reported."""
        files = [uri for uri in uris if uri in self._files]
        self._followed.update(files)
        if files and self._polling is None:
            self._polling = start_task(self._poll(), "toolwright-mcp-resources")
        for uri, version in (await asyncio.to_thread(self._read, files)).items():
            if uri in self._followed:
                self._versions.setdefault(uri, version)

    def _unfollow(self, uris: Iterable[str]) -> None:
        self._followed.subtract([uri for uri in uris if uri in self._files])
        self._followed = +self._followed
        for uri in self._versions.keys() - self._followed.keys():
            del self._versions[uri]
        if self._polling is not None and not self._followed:
            self._polling.cancel()
            self._polling = None

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            for uri, version in (await asyncio.to_thread(self._read, list(self._versions))).items():
                if uri in self._versions and self._versions[uri] != version:
                    self._versions[uri] = version
                    await self._bus.publish(ResourceUpdated(uri))

    def _read(self, uris: Sequence[str]) -> dict[str, _Version]:
        return {uri: _version(self._files[uri]) for uri in uris}


class _Subscriber:
    """A session of 2025-11-25 that subscribes. A host that does not read delays only its own notifications."""

    def __init__(self, session: ServerSession) -> None:
        self.uris = set[str]()
        self._session = session
        self._changed: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None

    def deliver(self, event: ServerEvent) -> None:
        """Send the event if the session subscribes to its resource. Changes that wait are sent once."""
        if isinstance(event, ResourceUpdated) and event.uri in self.uris:
            self._changed[event.uri] = None
            if self._sending is None or self._sending.done():
                self._sending = start_task(self._send(), "toolwright-mcp-updates")

    def close(self) -> None:
        """Stop sending."""
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        while self._changed:
            uri = next(iter(self._changed))
            del self._changed[uri]
            await self._session.send_resource_updated(uri)


def _version(path: Path) -> _Version:
    """Return what changes with the file's content, or None if the file cannot be found."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _too_many(message: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, message)
