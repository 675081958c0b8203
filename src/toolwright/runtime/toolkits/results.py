"""The tool `read_result`: opens tool results that a compacted conversation no longer shows."""

import asyncio
import re
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Annotated, ParamSpec, TypeVar

from pydantic import Field

from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.imports.message import MAX_IMPORTED
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import PageLimit, ended_early
from toolwright.core.results import AttachmentRef, ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.text import quantity
from toolwright.core.threads.compaction import READ_RESULT
from toolwright.core.threads.message import Message
from toolwright.runtime.toolkits.builtins import BuiltinState, builtin, within_run

P = ParamSpec("P")
T = TypeVar("T")

PAGE, MAX_PAGE = 4_000, 20_000  # characters of a page, by default and at most
FOUND, AROUND = 10, 120  # maximum matches of a search, and characters on each side of a match
MAX_SEARCHED = 20_000  # maximum number of messages that a search reads, the newest first
# of results in files; for the remaining ones only the message is searched
MAX_SEARCHED_BYTES = 64 * 1024 * 1024
READ_SIZE = 50  # messages per read
FAST, AT_ONCE = 100_000, 1_000_000  # bytes of a text that is read without a thread, and in one piece


class ResultReader:
    """The tool, which reads the results in a journal."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tool = builtin(self.read_result)

    async def read_result(
        self,
        state: ThreadState,
        call_id: str | None = None,
        query: Annotated[str | None, Field(max_length=200)] = None,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = PAGE,
    ) -> ToolResult:
        """Read the result of an earlier tool call in this conversation that is not shown any more.

        Give the call's id to read it page by page: `limit` characters from `offset` on. Add a query, a word or a
        phrase, to find the places in it where that occurs. Give only a query to search the results of all earlier
        calls, the newest first.
        """
        return await within_run(state, lambda run: self._read(run, state, call_id, query, offset, limit))

    async def _read(
        self,
        run: BuiltinState,
        state: ThreadState,
        call_id: str | None,
        query: str | None,
        offset: int,
        limit: int,
    ) -> JSON:
        if call_id is not None:
            message = await self._result(run, state, call_id)
            whole = await self._whole(state, message)
            if query:
                return await _beside_loop(whole, _places, run, message, whole, query, offset)
            return await _beside_loop(whole, _page, run, message, whole, offset, limit)
        if not query:
            raise InvalidRequest("Give the call_id of a result, or a query to search all of them.")
        return await self._search(run, state, query)

    async def _result(self, run: BuiltinState, state: ThreadState, call_id: str) -> Message:
        """Return the message with the result of a call of this conversation. Raises `InvalidRequest` without one."""
        call = await run.retry_until_available(lambda: self._store.call(call_id))
        own_call = await run.retry_until_available(lambda: self._store.call(run.call_id))
        if call is not None and call.thread_id == run.thread.id and own_call is not None:
            matches = [
                message
                async for message in self._messages(run, own_call.parent_id, call.run_id)
                if message.call_id == call_id and _is_read(message, state)
            ]
            if matches:
                return max(matches, key=lambda message: message.seq or 0)
        if call is None and own_call is not None and own_call.parent_id is None:
            async for message in self._imported(run):
                if message.call_id == call_id and _is_read(message, state):
                    return message
        raise InvalidRequest(f"There is no call {call_id!r} with a result in this conversation.")

    async def _messages(
        self, run: BuiltinState, within: str | None, run_id: str | None = None
    ) -> AsyncGenerator[Message]:
        """Yield the messages of the conversation within a call, or of the thread's own, the newest first.

        With a `run_id`, yield the messages of that run in order.
        """
        if within is not None:
            nested = await run.retry_until_available(lambda: self._store.children.within(within))
            for message in reversed(nested):
                yield message
            return
        if run_id is not None:
            async for message in self._of_run(run, run_id):
                yield message
            return
        before: int | None = None
        for _ in range(MAX_SEARCHED // READ_SIZE):
            place = before
            page = await run.retry_until_available(
                lambda at=place: self._store.messages_before(run.thread.id, at, PageLimit(READ_SIZE))
            )
            for message in reversed(page):
                yield message
            before = page[0].seq if page else None
            if before is None:
                return
            await asyncio.sleep(0)  # an in-memory journal never yields to other tasks

    async def _imported(self, run: BuiltinState) -> AsyncGenerator[Message]:
        """Yield the messages with which the thread was created, in order. Their calls have no rows."""
        read, is_over = 0, False
        while not is_over:
            page = await run.retry_until_available(
                lambda offset=read: self._store.messages(run.thread.id, PageLimit(MAX_IMPORTED), offset)
            )
            imported = [message for message in page if message.imported]
            for message in imported:
                yield message
            read += len(page)
            is_over = len(imported) < len(page) or not ended_early(page)

    async def _of_run(self, run: BuiltinState, run_id: str) -> AsyncGenerator[Message]:
        """Yield the messages of one run, in order."""
        read, has_more = 0, True
        while has_more:
            page = await run.retry_until_available(
                lambda offset=read: self._store.messages(
                    run.thread.id, PageLimit(MAX_SEARCHED), offset, run_id=run_id
                )
            )
            for message in page:
                yield message
            read += len(page)
            has_more = len(page) == MAX_SEARCHED or ended_early(page)

    async def _whole(self, state: ThreadState, message: Message) -> str | bytes:
        """Return the whole result: its text, or its file if the model read only the beginning."""
        file = _file_of(message)
        return message.content if file is None else await state.read_file(file.path)

    async def _search(self, run: BuiltinState, state: ThreadState, query: str) -> JSON:
        """Return the newest results in which the query occurs, each with its first match."""
        results: list[JSON] = []
        searched, skipped = 0, 0
        own_call = await run.retry_until_available(lambda: self._store.call(run.call_id))
        bytes_left = MAX_SEARCHED_BYTES
        async for message in self._messages(run, None if own_call is None else own_call.parent_id):
            searched += 1
            if message.tool_name == READ_RESULT or not _is_read(message, state):
                continue
            whole: str | bytes = message.content
            file = _file_of(message)
            if file is not None and file.size <= bytes_left:
                bytes_left -= file.size
                with suppress(NotFound):  # a deleted file: the message has its beginning
                    whole = await state.read_file(file.path)
            elif file is not None:
                skipped += 1
            around = await _beside_loop(whole, _first_place, run, whole, query)
            if around is not None:
                results.append({"call_id": message.call_id, "tool": message.tool_name, "text": around})
            if len(results) == FOUND:
                return {"results": results}
        notes: list[JSON] = []
        if searched >= MAX_SEARCHED:
            notes.append(f"Only the newest {searched} messages were searched.")
        if skipped:
            notes.append(
                f"Only the beginning of {quantity(skipped, 'older result')} was searched. "
                "Pass a call_id to search all of it."
            )
        return {"results": results, "notes": notes} if notes else {"results": results}


def _is_read(message: Message, state: ThreadState) -> bool:
    """Return whether the asking side has read this result."""
    read_by = message.side in (None, state.execution.current_side)
    return message.role == "tool" and message.kept and read_by


def _file_of(message: Message) -> AttachmentRef | None:
    """Return the file with the whole result, or None if the message has the whole result."""
    end = message.content[-2_000:]
    files = (each for each in message.attachments if f"The whole is in the file {each.path}." in end)
    return next(files, None)


async def _beside_loop(measured: str | bytes, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the tool's answer. Long texts are searched in a thread."""
    if len(measured) > FAST:
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)


def _text(whole: str | bytes) -> str:
    """Return the text, decoded in pieces: a single call of the decoder would block all threads of the process."""
    if isinstance(whole, str):
        return whole
    decode = getincrementaldecoder("utf-8")("replace").decode
    pieces = [decode(whole[at : at + AT_ONCE]) for at in range(0, len(whole), AT_ONCE)]
    return "".join([*pieces, decode(b"", final=True)])


def _places_of(text: str, query: str, start: int) -> Iterator[int]:
    """Yield the case-insensitive matches of the query from `start` on, each at least `AROUND` after the previous one.

    The text is searched in pieces, because a single search would block all threads of the process.
    """
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    while start < len(text):
        end = start + AT_ONCE
        # pieces overlap, so that no match between two is missed
        at = pattern.search(text, start, end + len(query) - 1)
        if at is None:
            start = end
        else:
            yield at.start()
            start = at.start() + AROUND


def _page(run: BuiltinState, message: Message, whole: str | bytes, offset: int, limit: int) -> JSON:
    text = _text(whole)
    page: JSONObject = {
        "call_id": message.call_id,
        "tool": message.tool_name,
        "characters": len(text),
        "offset": offset,
        "text": text[offset : offset + limit],
    }
    return page | ({"next_offset": offset + limit} if offset + limit < len(text) else {})


def _places(run: BuiltinState, message: Message, whole: str | bytes, query: str, offset: int) -> JSON:
    """Return the first matches of the query from `offset` on."""
    text = _text(whole)
    matches = [*islice(_places_of(text, query, offset), FOUND + 1)]
    places: list[JSON] = [{"offset": at, "text": _around(text, at)} for at in matches[:FOUND]]
    page: JSONObject = {
        "call_id": message.call_id,
        "tool": message.tool_name,
        "characters": len(text),
        "places": places,
    }
    return page | ({"next_offset": matches[FOUND]} if len(matches) > FOUND else {})


def _first_place(run: BuiltinState, whole: str | bytes, query: str) -> str | None:
    """Return the text around the first match of the query, or None."""
    text = _text(whole)
    at = next(_places_of(text, query, 0), None)
    return None if at is None else _around(text, at)


def _around(text: str, at: int) -> str:
    first, last = max(at - AROUND, 0), at + 2 * AROUND
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}"
