"""Connection to an MCP server: reconnects with back-off, and keeps the list of tools up to date."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError

from toolwright.adapters.mcp.peer import CALLER, MAX_MESSAGE, Peer, error_line, nobody
from toolwright.adapters.mcp.session import FLOODED, Callbacks, OpenClient, OpenSession, open_session
from toolwright.core.concurrency import abandon, is_cancelled, start_task
from toolwright.core.env.logs import logger, logging_without
from toolwright.core.env.redact import Redactor
from toolwright.core.json_value import JSON, utf8_size
from toolwright.core.limits import nth_delay
from toolwright.core.mcp.listing import (
    MAX_INSTRUCTIONS,
    ListingError,
    McpListing,
    read_listed,
    resource_tool,
)
from toolwright.core.mcp.servers import McpUnavailable
from toolwright.core.text import BEFORE_CUT, brief, cleaned_before_cut, sentence
from toolwright.core.tools.mcp import McpServer, McpTarget, Revision
from toolwright.core.value import changed

log = logger("toolwright.mcp")
for _library in ("httpx2", "mcp.client.streamable_http", "mcp.client.sse"):
    logger(_library)  # the URLs and answers that they log can contain secrets

CONNECT_TIMEOUT = 30.0
"""Seconds for a session and its first list."""
CLOSING = 60.0
"""Seconds for the end of a session. A server's process ends earlier, even on a busy machine."""
WATCH_END = 1.0
"""Seconds for the end of a notification stream, after which it is cancelled again."""
ASKING: Revision = "2025-11-25"
"""The last revision in which a tool can send requests to its caller while it runs."""
MAX_PAGES = 200  # per list
MAX_ENTRIES = 20_000  # per list
_MAX_READ_INSTRUCTIONS = 10 * MAX_INSTRUCTIONS  # characters that are searched for secrets
LINGERS = 600.0
"""Seconds for which a server can still be processing an abandoned call and send requests for it."""
MAX_VIEWS = 100  # per list: one per set of options for the same server; the most recently used are kept


@dataclass(frozen=True, slots=True)
class _Listed:
    """A tool list as sent by the server, with the errors of the whole list. `number` is 0 before the first list."""

    number: int = 0
    entries: Sequence[JSON] = ()
    faults: Sequence[ListingError] = ()
    protocol: str | None = None
    instructions: str | None = None
    has_resources: bool = False


class McpConnection:
    """Keeps a session with one target. It is opened when first needed, and reopened when it breaks.

    Agents with different options for the server share it; the `allowedTools` of one do not affect another. `numbers`
    counts the lists of all connections.
    """

    def __init__(
        self, target: McpTarget, open_client: OpenClient, clock: Callable[[], float], numbers: Iterator[int]
    ) -> None:
        self.target = target
        self._open_client = open_client
        self._clock = clock
        self._numbers = numbers
        self.used_at = self._opened_at = clock()
        self._listed = _Listed()
        self._error: ListingError | None = None  # why the server is unavailable
        self._views: OrderedDict[McpServer, McpListing] = OrderedDict()
        self._session: OpenSession | None = None
        self._changed = asyncio.Event()  # set on every change of the session or of its list
        self._stale = asyncio.Event()  # the list must be re-read
        self._retry_now = asyncio.Event()  # set by a caller to end a pause early
        self._callers: dict[int, Peer] = {}
        self._abandoned_at: dict[str | None, float] = {}  # times at which calls were abandoned, by thread
        self.redactor = Redactor(target.secrets)  # for messages of the server
        self._revision: Revision | None = target.server.revision
        self._has_reopened = False
        self._reopens = False  # in another revision, once no call is in progress
        self._is_closing = False
        self._task = start_task(self._run(), f"mcp-{target.server.name}")

    @property
    def is_busy(self) -> bool:
        """Return whether a call is in progress."""
        return bool(self._callers)

    def is_idle(self, seconds: float) -> bool:
        """Return whether the connection has been unused for more than `seconds` and no call is in progress."""
        return not self.is_busy and self._clock() - self.used_at > seconds

    async def listed(self, server: McpServer, seconds: float) -> McpListing:
        """Return the tools of the last list that these options allow, and the status of the server.

        Waits up to `seconds` for the first list, counted from the opening of the connection.
        """
        self.used_at = self._clock()
        try:
            async with asyncio.timeout(max(self._opened_at + seconds - self.used_at, 0)):
                while self._listed.number == 0 and self._error is None:
                    await self._next_change()
        except TimeoutError:
            pass  # the step continues with the status `connecting` instead of waiting for a slow server
        view = await self._view(server)
        if self._error is None:
            return view
        return changed(view, status="down", faults=(self._error, *view.faults), protocol=None)

    async def _view(self, server: McpServer) -> McpListing:
        listed = self._listed
        if listed.number == 0:
            return McpListing(server=server, status="connecting")
        view = self._views.get(server)
        if view is None or view.number != listed.number:
            tools, errors = await asyncio.to_thread(read_listed, server, listed.entries)
            if server.resources and listed.has_resources:
                tools = (*tools, resource_tool(server))
            elif server.resources:
                errors = (*errors, ListingError(message="The server has no resources."))
            view = McpListing(
                server=server,
                status="ready",
                number=listed.number,
                tools=tools,
                faults=(*listed.faults, *errors),
                protocol=listed.protocol,
                instructions=listed.instructions if server.instructions else None,
            )
            self._views[server] = view
        self._views.move_to_end(server)
        if len(self._views) > MAX_VIEWS:
            self._views.popitem(last=False)
        return view

    async def session(self) -> OpenSession:
        """Return the session, waiting until there is one. Raises `McpUnavailable` if the next attempt fails too."""
        self.used_at = self._clock()
        attempts = 0
        while self._session is None or self._session.over.is_set():
            if self._task.done():
                raise McpUnavailable("the connection was closed.")
            if self._error is not None:
                attempts += 1
                if attempts > 1:
                    raise McpUnavailable(self._error.message)
                self._retry_now.set()
            await self._next_change()
        return self._session

    @asynccontextmanager
    async def calling(self, caller: Peer) -> AsyncGenerator[None]:
        """Assign to the caller the requests sent within the block, and the server's requests in the meantime."""
        token = CALLER.set(caller)
        self._callers[id(caller)] = caller
        try:
            with cleaned_before_cut(BEFORE_CUT.get(self.redactor.text)):
                yield
        except asyncio.CancelledError:
            # The server can still send requests for this call. `_caller` must not assign them to another thread.
            self._abandoned_at[caller.thread_id] = self._clock()
            raise
        finally:
            del self._callers[id(caller)]
            CALLER.reset(token)
            self.used_at = self._clock()
            self._reopen_if_unused()

    def _reopen_if_unused(self) -> None:
        if self._reopens and not self._callers:
            self._reopens = False
            if self._session is not None:
                self._session.over.set()

    def reopen_to_ask(self) -> bool:
        """Use the revision 2025-11-25, in which tools can send requests, after the calls in progress.

        Returns False if the server's option names a revision, or if it was tried before.
        """
        if self._revision is not None or self._has_reopened:
            return False
        self._revision, self._reopens, self._has_reopened = ASKING, True, True
        log.warning(
            "A tool of the MCP server %r cannot ask in the revision 2026-07-28: the connection is opened again in %s.",
            self.target.server.name,
            ASKING,
        )
        self._reopen_if_unused()
        return True

    async def close(self) -> None:
        """Close the connection immediately. A session that has not ended after `CLOSING` seconds is abandoned."""
        self._is_closing = True
        self._task.cancel()
        _, running = await asyncio.wait([self._task], timeout=CLOSING)
        if running:
            abandon(self._task)
        self._session = None
        self._notify_changes()

    # ── the task that keeps the session open ────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        """Keep a session open.

        The task belongs to no run. Its log contains no secrets, regardless of the run that opened the connection.
        """
        with self.logging(), cleaned_before_cut(self.redactor.text):
            await self._keep()

    def logging(self) -> AbstractContextManager[None]:
        """Return a context manager that removes the target's secret values from log messages."""
        return logging_without(lambda: self.redactor)

    async def _keep(self) -> None:
        """Open the session again whenever it ends, until this task is cancelled."""
        failures = 0
        while not self._is_ending:
            try:
                await self._live()
                failures = 0
                reason = "it closed the connection"
            except asyncio.CancelledError:
                raise
            except (
                BaseException
            ) as error:  # the SDK's task groups raise groups of any errors; the task must continue
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                reason = error_line(error)
            if self._is_ending:
                return
            # A session that was established resets the back-off: its end is a new failure.
            failures = 1 if self._session is not None else failures + 1
            self._down(reason)
            self._retry_now.clear()
            try:
                async with asyncio.timeout(nth_delay(failures - 1)):
                    await self._retry_now.wait()  # a caller ends the back-off early
            except TimeoutError:
                pass

    @property
    def _is_ending(self) -> bool:
        """Return whether this task was cancelled, even if the cancellation was lost.

        While a session of the SDK ends, a cancellation can be replaced by the error that it has caused, and withdrawn.
        """
        return self._is_closing or is_cancelled()

    async def _live(self) -> None:
        """Run one session until it ends."""
        callbacks = Callbacks(
            elicit=self._elicit,
            sample=self._sample if self.target.server.sampling else None,
            hear=self._receive,
        )
        async with asyncio.timeout(CONNECT_TIMEOUT) as limit:
            async with self._opened(callbacks) as session:
                await self._read_list(session)
                limit.reschedule(None)  # the timeout is for connecting only; the session itself has no limit
                self._session = session
                self._notify_changes()
                watch = asyncio.create_task(self._watch(session), name="mcp-list-changes")
                try:
                    await self._keep_list(session)
                    if session.dispatcher.flooded:
                        raise McpUnavailable(FLOODED)
                finally:
                    while not watch.done():  # as in `_is_ending`, a cancellation can be lost
                        watch.cancel()
                        await asyncio.wait([watch], timeout=WATCH_END)

    @asynccontextmanager
    async def _opened(self, callbacks: Callbacks) -> AsyncGenerator[OpenSession]:
        """Yield a session. A server that does not support the revision in which it could ask is used without it."""
        try:
            async with open_session(self.target, self._open_client, callbacks, self._revision) as session:
                yield session
        except McpUnavailable:
            self._revision = self.target.server.revision
            raise

    async def _keep_list(self, session: OpenSession) -> None:
        """Re-read the list after each change notification, until the session has ended.

        Each read is followed by a pause, which grows as long as notifications arrive during every pause.
        """
        closed = asyncio.create_task(session.over.wait(), name="mcp-session-over")
        restless = 0
        try:
            while not closed.done():
                stale = asyncio.create_task(self._stale.wait(), name="mcp-list-stale")
                try:
                    await asyncio.wait([closed, stale], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    stale.cancel()
                if self._stale.is_set() and not closed.done():
                    self._stale.clear()
                    await self._read_list(session)
                    await asyncio.wait([closed], timeout=nth_delay(restless))
                    restless = restless + 1 if self._stale.is_set() else 0
        finally:
            closed.cancel()

    async def _watch(self, session: OpenSession) -> None:
        """Watch for changes of the list through the notification stream of revision 2026-07-28."""
        tools = getattr(session.client.server_capabilities, "tools", None)
        if not session.modern or tools is None or not tools.list_changed:
            return
        failures = 0
        while not is_cancelled():
            try:
                async with listen(session.client, tools_list_changed=True) as changes:
                    if failures:
                        self._stale.set()  # a change could have been missed while the stream was down
                    failures = 0
                    async for _ in changes:
                        self._stale.set()
            except (MCPError, RuntimeError, TimeoutError) as error:
                why = self.redactor.text(error_line(error))
                log.debug(
                    "MCP server %r: changes to its lists cannot be followed: %s", self.target.server.name, why
                )
            failures += 1
            if not is_cancelled():
                await asyncio.sleep(nth_delay(failures - 1))

    async def _read_list(self, session: OpenSession) -> None:
        entries, errors = await _entries(session)
        if self.redactor:
            entries = cast("list[JSON]", await asyncio.to_thread(self.redactor.json, entries))
        said_of_itself = self.redactor.text(
            (session.client.instructions or "")[:_MAX_READ_INSTRUCTIONS]
        ).strip()
        self._listed = _Listed(
            next(self._numbers),
            entries,
            errors,
            session.client.protocol_version,
            brief(said_of_itself, MAX_INSTRUCTIONS) or None,
            getattr(session.client.server_capabilities, "resources", None) is not None,
        )
        self._error = None
        self._notify_changes()

    def _down(self, error: str) -> None:
        """Record that the server is unavailable. Keep its tools: it can be available again when one is called."""
        error = self.redactor.text(error)  # a server can repeat what it was sent
        reason = ListingError(message=sentence(f"The server cannot be used: {error}"))
        if self._error != reason:
            log.warning("The MCP server %r cannot be used: %s", self.target.server.name, error)
        self._session = None
        self._error = reason
        self._notify_changes()

    def _notify_changes(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()  # a new event, so that every waiter wakes exactly once per change

    async def _next_change(self) -> None:
        await self._changed.wait()

    # ── requests and notifications of the server ────────────────────────────────────────────────────────────

    def _caller(self) -> Peer | None:
        """Return the caller to which a server's request belongs, or None if it is unknown.

        On stdio and SSE messages do not identify the call, which could be an abandoned call of another thread.
        """
        caller = CALLER.get()
        if caller is not None:
            return caller
        if len(self._callers) != 1:
            return None
        [caller] = self._callers.values()
        since = self._clock() - LINGERS
        self._abandoned_at = {thread: at for thread, at in self._abandoned_at.items() if at > since}
        return caller if self._abandoned_at.keys() <= {caller.thread_id} else None

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        caller = self._caller()
        return nobody() if caller is None else await caller.elicit(params)

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        caller = self._caller()
        return nobody() if caller is None else await caller.sample(params)

    async def _receive(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._stale.set()


async def _entries(session: OpenSession) -> tuple[list[JSON], list[ListingError]]:
    """Return all entries of the list, page by page, and the errors of the list as a whole."""
    entries: list[JSON] = []
    errors: list[ListingError] = []
    cursor, cursors, size = None, set[str](), 0
    for _ in range(MAX_PAGES):
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        page = await session.client.list_tools(params=params)
        listed = session.dispatcher.listed
        if listed is None:
            errors.append(ListingError(message="The server's answer to tools/list has no list of tools."))
            return entries, errors
        refused = session.dispatcher.marked - {tool.name for tool in page.tools}
        entries += _usable(listed, refused, errors)
        cursor = page.next_cursor
        if not cursor or len(entries) > MAX_ENTRIES:
            break
        size += await asyncio.to_thread(utf8_size, listed)
        if size > MAX_MESSAGE:
            break
        if cursor in cursors:
            errors.append(
                ListingError(message="The server's list of tools does not end: it returned one page twice.")
            )
            return entries, errors
        cursors.add(cursor)
    if cursor:
        errors.append(
            ListingError(message=f"The server's list of tools is too long: {len(entries)} were read.")
        )
    return entries, errors


def _usable(listed: list[Any], refused: set[str], errors: list[ListingError]) -> list[JSON]:
    """Return the entries without the tools whose headers the SDK rejects. Other errors are reported later."""
    error = "Its x-mcp-header annotations are not valid."
    errors += [ListingError(message=error, tool=brief(name, 60)) for name in sorted(refused)]
    return [each for each in listed if _name(each) not in refused]


def _name(entry: Any) -> str | None:  # whatever the server sent
    match entry:
        case {"name": str(name)}:
            return name
        case _:
            return None
