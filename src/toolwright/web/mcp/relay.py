"""What happens in a call, told to its host: progress, log messages, and that it is still waited for."""

from collections.abc import Sequence
from typing import get_args

from mcp.server.connection import allowed_log_levels
from mcp_types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams

from toolwright.core.json_value import JSON
from toolwright.core.threads.event import Event
from toolwright.web.mcp.parts import Context, McpParts, is_modern

LOG = "log"
"""The type of the events that handlers emit for the host's log: a text, or `{level?, message?, logger?, …}`."""

LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
ENDS = frozenset({"tool.done", "tool.error"})


class Relay:
    """Tells the host of one request; progress only rises, as the protocol asks."""

    def __init__(self, parts: McpParts, context: Context, call_id: str) -> None:
        self._parts = parts
        self._context = context
        self._call_id = call_id
        self._last = float("-inf")
        self._reported = False
        self.ended = False

    async def tell(self, events: Sequence[Event]) -> None:
        """Pass on what of these events is for the host."""
        for event in events:
            own = event.payload.get("toolCallId") == self._call_id
            if event.type == "tool.progress" and own:
                await self._progress(event)
            elif event.type == LOG:
                await self._log(event.payload.get("data"))
            elif event.type in ENDS and own:
                self.ended = True

    async def beat(self, seconds: float, what: str) -> None:
        """Say that the call goes on after so many seconds, unless its tool tells of its own progress."""
        if not self._reported and seconds > self._last:
            self._last = seconds
            await self._context.session.report_progress(round(seconds, 1), None, what)

    async def _progress(self, event: Event) -> None:
        done, total, text = (event.payload.get(name) for name in ("done", "total", "text"))
        if not isinstance(done, int | float) or (self._reported and done <= self._last):
            return
        self._last, self._reported = done, True
        await self._context.session.report_progress(
            done,
            total if isinstance(total, int | float) else None,
            text if isinstance(text, str) else None,
        )

    async def _log(self, said: JSON) -> None:
        given = said if isinstance(said, dict) else {"message": said}
        level = given.get("level", "info")
        named = level if level in LEVELS else "info"
        if not self._wanted(named):
            return
        logger = given.get("logger")
        rest = {name: each for name, each in given.items() if name not in ("level", "logger")}
        params = LoggingMessageNotificationParams(
            level=named,
            logger=logger if isinstance(logger, str) else None,
            data=rest["message"] if list(rest) == ["message"] else rest,
        )
        await self._context.session.send_notification(
            LoggingMessageNotification(params=params), self._context.request_id
        )

    def _wanted(self, level: LoggingLevel) -> bool:
        if is_modern(self._context):
            meta = (self._context.params or {}).get("_meta")
            return level in allowed_log_levels(self._context.protocol_version, meta)
        least = self._parts.levels.get(session_of(self._context), "debug")
        return LEVELS.index(level) >= LEVELS.index(least)


def session_of(context: Context) -> str | None:
    """The session of a request, None on stdio, which has but one."""
    return None if context.request is None else context.request.headers.get("mcp-session-id")
