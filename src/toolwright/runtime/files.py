"""Files of threads: how they are stored, named and read (D19)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence, Set
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from toolwright.core.broken_rows import exists
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import InvalidJSON, InvalidRequest, NotFound, TooLarge
from toolwright.core.files import File, FileDrafts, checked_path, clean_mime_type, fold, written_file
from toolwright.core.journal.store import Store
from toolwright.core.json_text import NotJson
from toolwright.core.json_value import JSON, is_large, surely_longer, utf8_size
from toolwright.core.limits import MAX_ATTACHMENT, PAGE_BYTES, Page, ended_early
from toolwright.core.ports import Clock, FileStore, NewId
from toolwright.core.results import LARGE, Attachment, AttachmentRef, ToolResult, decoded
from toolwright.core.text import CUT, brief, quantity
from toolwright.core.threads.call import Call
from toolwright.core.value import Value, changed
from toolwright.runtime.carried import Carried
from toolwright.runtime.journal import by_id
from toolwright.wire.result import (
    WHOLE,
    in_file,
    longer,
    result_from_json,
    result_to_json,
    shortened,
    text_of,
    whole_file,
    whole_result,
)

T = TypeVar("T")

READ_SIZE = 256 * 1024  # bytes of a file per read
MAX_FILES = 100  # of one message or result
MAX_CODE = 200  # characters
_MARK = 100  # maximum bytes of a mark in a stack


class StoredAttachment(Value):
    """A new file whose bytes are stored. The attachment has no `data`."""

    attachment: Attachment
    size: int
    digest: str


class FileKeeper:
    """Stores the bytes of files, and builds their rows.

    `max_attachment` limits one file, `max_text` the part of a result that a model is shown; both in bytes.
    """

    def __init__(
        self, files: FileStore, clock: Clock, new_id: NewId, *, max_attachment: int, max_text: int
    ) -> None:
        self._files = files
        self._clock = clock
        self._new_id = new_id
        self.max_attachment = max_attachment
        self._max_text = max_text
        self._adding = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def turn(self, thread_id: str, attachments: Sequence[object]) -> AsyncGenerator[None]:
        """Wait until no one else in this process adds files to the thread. Does not wait without attachments.

        Writers that add files at the same time would take each other's paths, and all but one would have to try again.
        """
        if not attachments:
            yield
            return
        lock = self._adding.setdefault(thread_id, asyncio.Lock())
        async with lock:
            yield

    async def attach(
        self,
        thread_id: str,
        drafts: FileDrafts,
        attachments: Sequence["Attachment | AttachmentRef | StoredAttachment"],
    ) -> tuple[AttachmentRef, ...]:
        """Store new files and resolve references. Adds all of them to the drafts.

        Raises `InvalidRequest`, `TooLarge` or `NotFound` for the first invalid one; the drafts must be discarded then.
        """
        # Store all bytes before the first row: if the file store fails in between, the drafts are unchanged.
        stored = await self.store(attachments)
        refs: list[AttachmentRef] = []
        for each in stored:
            if isinstance(each, AttachmentRef):
                refs.append(await _resolved(each, drafts))
                continue
            file = await self._new_file(thread_id, drafts, each.attachment, each.size, each.digest)
            drafts.add(file)
            refs.append(file.ref)
        return tuple(refs)

    async def store(
        self, attachments: Sequence["Attachment | AttachmentRef | StoredAttachment"]
    ) -> "list[AttachmentRef | StoredAttachment]":
        """Store the bytes of new files, so that `attach` can be repeated without them.

        Raises `InvalidRequest` or `TooLarge` for the first invalid one; no bytes are stored then.
        """
        if len(attachments) > MAX_FILES:
            error = f"must be at most {MAX_FILES} files, not {len(attachments)}"
            raise InvalidRequest(
                f"A message or a result can have at most {MAX_FILES} files, not {len(attachments)}.",
                [{"path": "attachments", "message": error}],
            )
        decoded = [
            (each, await self._decoded(each, number)) if isinstance(each, Attachment) else each
            for number, each in enumerate(attachments)
        ]
        return [await self._put(*each) if isinstance(each, tuple) else each for each in decoded]

    async def _put(self, attachment: Attachment, content: bytes) -> "StoredAttachment":
        digest = await self._files.put(content)
        return StoredAttachment(attachment=changed(attachment, data=""), size=len(content), digest=digest)

    async def write(
        self, thread_id: str, drafts: FileDrafts, path: str, content: bytes, mime_type: str | None
    ) -> AttachmentRef:
        """Write or overwrite a file with a program's content."""
        existing = await drafts.at(path)
        checked = checked_path(path)
        digest = await self._files.put(content)
        file = written_file(
            thread_id, checked, len(content), digest, mime_type, new_id=self._new_id, at=self._clock.now()
        )
        if existing is not None and existing.path != file.path:
            file = changed(file, path=existing.path, name=existing.name)
        drafts.put(file)
        return file.ref

    async def read(self, file: File, part: slice | None = None) -> bytes:
        """Return the bytes of a file, or of a part of it."""
        return await self._files.get(file.digest, part)

    async def load(self, ref: AttachmentRef) -> bytes | None:
        """Return the bytes of a message's attachment, or None if they were deleted."""
        try:
            return None if ref.digest is None else await self._files.get(ref.digest)
        except NotFound:  # deleted with another thread: the message is sent without the file
            return None

    def too_long(self, result: ToolResult) -> bool:
        """Return whether the result is longer than a model may be shown. A result that is already cut is not."""
        value, most = result.result, self._max_text
        if result.status == "success" and not isinstance(value, str):
            if is_large(value) and surely_longer(value, most):  # serializing it would block the event loop
                return True
            if utf8_size(value) <= most:
                return False  # the common case
        text = text_of(result)
        return len(text) * 4 > most and longer(text, len(as_bytes(text)), most)

    def cut(self, result: ToolResult) -> ToolResult:
        """Return the result, cut if it is too long for a model. The rest is discarded."""
        if not self.too_long(result):
            return result
        return shortened(result, as_bytes(text_of(result)), self._max_text, "")

    def recordable(self, result: ToolResult) -> ToolResult:
        """Return the result with its stack cut to the limit of texts for models."""
        return recordable(result, self._max_text)

    async def within_limit(
        self, thread_id: str, drafts: FileDrafts, result: ToolResult, name: str
    ) -> ToolResult:
        """Return the result, cut if it is too long for a model, with its full text stored in a file (D20).

        A text that is larger than a file can be is cut without a file.
        """
        if not self.too_long(result):
            return result
        content = await in_thread_if_large([result.result, result.error_data], _content, result)
        if len(content) > self.max_attachment:
            limit = quantity(self.max_attachment, "byte")
            more = f" The rest is discarded, because a file can have at most {limit}."
            return shortened(result, content, self._max_text, more)
        structured = result.status == "success" and not isinstance(result.result, str)
        kind, suffix = ("application/json", "json") if structured else ("text/plain", "txt")
        attachment = Attachment(name=f"{name}-{result.status}.{suffix}", mime_type=kind, data="")
        file = await self._new_file(
            thread_id, drafts, attachment, len(content), await self._files.put(content), WHOLE
        )
        drafts.add(file)
        cut = shortened(result, content, self._max_text, in_file(file.path))
        return changed(cut, attachments=(*cut.attachments, file.ref))

    async def report_within_limit(
        self, thread_id: str, drafts: FileDrafts, result: ToolResult, name: str
    ) -> ToolResult:
        """Return a child's result within the limit. An error keeps the fields that name the child."""
        bare = changed(result, error_data=None)
        limited = await self.within_limit(thread_id, drafts, bare, name)
        return result if limited is bare else changed(limited, error_data=result.error_data)

    async def value_within_limit(
        self, thread_id: str, drafts: FileDrafts, whole: JSON, name: str
    ) -> tuple[JSON, tuple[AttachmentRef, ...]]:
        """Return a value that a thread reads from its inbox, cut to the limit, and the file with the full value."""
        limited = await self.within_limit(thread_id, drafts, ToolResult.ok(whole), name)
        return limited.result, tuple([ref for ref in limited.attachments if isinstance(ref, AttachmentRef)])

    async def _new_file(
        self,
        thread_id: str,
        drafts: FileDrafts,
        attachment: Attachment,
        size: int,
        digest: str,
        prefix: str = "fil",
    ) -> File:
        path = await drafts.free_path(attachment.name)
        return File(
            thread_id=thread_id,
            path=path,
            id=self._new_id(prefix),
            name=path.rsplit("/", 1)[1],
            mime_type=clean_mime_type(attachment.mime_type),
            size=size,
            digest=digest,
            width=attachment.width,
            height=attachment.height,
            created_at=self._clock.now(),
        )

    async def _decoded(self, attachment: Attachment, number: int) -> bytes:
        """Return the bytes of a new file."""
        if len(attachment.data) * 3 // 4 > self.max_attachment + 2:
            raise self._too_large(attachment, number)
        try:
            content = (
                await asyncio.to_thread(decoded, attachment.data)
                if len(attachment.data) > LARGE
                else decoded(attachment.data)
            )
        except ValueError:
            raise InvalidRequest(
                f"The data of the file {brief(repr(attachment.name), 200)} is not base64 text.",
                [{"path": f"attachments.{number}.data", "message": "must be base64 text"}],
            ) from None
        if len(content) > self.max_attachment:
            raise self._too_large(attachment, number)
        return content

    def _too_large(self, upload: Attachment, number: int) -> TooLarge:
        limit = quantity(self.max_attachment, "byte")
        return TooLarge(
            f"attachments.{number}.data: the file {brief(repr(upload.name), 200)} is larger than the limit of {limit}."
        )


async def _resolved(ref: AttachmentRef, drafts: FileDrafts) -> AttachmentRef:
    """Return a reference to an existing file. Raises `NotFound`."""
    file = await drafts.at(ref.path)
    if file is None:
        raise NotFound(f"There is no file {brief(repr(ref.path), 200)} in this thread to refer to.")
    # The path determines everything else; only the description can be the handler's own.
    return changed(file.ref, description=ref.description or file.description)


async def _once(read: Callable[[], Awaitable[T]]) -> T:
    return await read()


class StoredFiles:
    """The current files of a thread in the store. `read` decides how often a failing read is retried."""

    # Any: the return value passes through unchanged
    def __init__(
        self,
        store: Store,
        thread_id: str,
        read: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]] = _once,
    ) -> None:
        self._store = store
        self._thread_id = thread_id
        self._read = read

    async def at(self, folded: str) -> File | None:
        """Return the file at that path."""
        return await self._read(lambda: self._store.file(self._thread_id, folded))

    async def all(self) -> Sequence[File]:
        """Return all files of the thread, by path."""
        return await self._read(lambda: self._store.files(self._thread_id))

    async def existing_paths(self, folded: Sequence[str]) -> Set[str]:
        """Return the paths that already exist."""
        return await self._read(lambda: self._store.files_at(self._thread_id, folded))


class WholeResults:
    """Reads results of calls that were cut for the model, from the files that have the whole of them."""

    def __init__(self, store: Store, keeper: FileKeeper) -> None:
        self._store = store
        self._keeper = keeper

    async def of_calls(self, calls: Sequence[Call], most: int = PAGE_BYTES) -> Sequence[Call]:
        """Return the calls with their whole results. At most `most` bytes are read: further results stay cut."""
        rows = [*calls]
        for number, call in enumerate(rows):
            result = _readable_result(call)
            ref = None if result is None else whole_file(result)
            if result is None or ref is None or ref.size > most:
                continue
            most -= ref.size
            whole = await self.of(call.thread_id, result)
            rows[number] = changed(call, result=result_to_json(whole))
        return Page(rows, more=ended_early(calls))

    async def of(self, thread_id: str, result: ToolResult, most: int = MAX_ATTACHMENT) -> ToolResult:
        """Return the whole result, or the cut one if its file has more than `most` bytes or has been replaced."""
        ref = whole_file(result)
        if ref is None or ref.size > most:
            return result
        file = await self._store.file(thread_id, fold(ref.path))
        if file is None or file.id != ref.id:
            return result
        try:
            content = await self._keeper.read(file)
            return await asyncio.to_thread(whole_result, result, file.mime_type, content)
        except (NotFound, NotJson):  # deleted in the meantime, not what was stored, or of too many values
            return result


def _readable_result(call: Call) -> ToolResult | None:
    """Return the result of the call, or None if it has none, or one that cannot be read."""
    try:
        return None if call.result is None else result_from_json(call.result)
    except InvalidJSON:
        return None


class ThreadFiles(Carried):
    """Files of threads, for users. Raises `NotFound` for unknown threads and files."""

    def __init__(self, store: Store, keeper: FileKeeper) -> None:
        self._store = store
        self._keeper = keeper

    async def list(self, thread_id: str) -> Sequence[File]:
        """Return the thread's files, by path."""
        if not await exists(self._store.thread(by_id("thread", thread_id))):
            raise NotFound(f"There is no thread {thread_id!r}.")
        return await self._store.files(thread_id)

    async def get(self, thread_id: str, path: str) -> File:
        """Return the file at a path."""
        try:
            file = await self._store.file(by_id("thread", thread_id), fold(checked_path(path)))
        except InvalidRequest:
            file = None  # no file can exist at such a path
        if file is None:
            raise NotFound(f"There is no file {brief(repr(path), 200)} in this thread.")
        return file

    async def read(self, thread_id: str, path: str) -> bytes:
        """Return the bytes of the file at a path."""
        return await self.content(await self.get(thread_id, path))

    async def content(self, file: File) -> bytes:
        """Return a file's content, given its row."""
        return await self._keeper.read(file)

    async def pieces(self, file: File, part: slice) -> AsyncGenerator[bytes]:
        """Yield the bytes of a part of a file in pieces. Each piece is read when it is requested."""
        for start in range(part.start, part.stop, READ_SIZE):
            yield await self._keeper.read(file, slice(start, min(start + READ_SIZE, part.stop)))


def _content(result: ToolResult) -> bytes:
    return as_bytes(text_of(result))


def as_bytes(text: str) -> bytes:
    """Return the text of a result as it is stored."""
    return text.encode("utf-8", "replace")


def recordable(result: ToolResult, most: int) -> ToolResult:
    """Return the result with a stack of at most `most` bytes and a valid code, so that it can be recorded."""
    if result.stack is None and result.error_code is None:
        return result  # the common case
    code = None if result.error_code is None else brief(result.error_code, MAX_CODE)
    return changed(
        result, stack=None if result.stack is None else _stack(result.stack, most), error_code=code
    )


def _stack(stack: str, most: int) -> str:
    """Return the beginning and end of a stack, which matter more than its middle."""
    content = as_bytes(stack) if len(stack) * 4 > most else b""
    if len(content) <= most:
        return stack
    half = max(most - _MARK, 2) // 2
    omitted = len(content) - 2 * half
    first, last = content[:half].decode("utf-8", "ignore"), content[-half:].decode("utf-8", "ignore")
    return f"{first}{CUT}{omitted} bytes are left out)\n{last}"
