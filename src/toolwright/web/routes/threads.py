"""Routes of threads, their messages, compactions, variables and files, whose downloads browsers do not execute."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal, cast
from urllib.parse import quote

from fastapi import Header, Path, Query, Response
from pydantic import Field, JsonValue
from starlette.responses import StreamingResponse

from toolwright.core.agents.prompt import Env
from toolwright.core.env.env import EnvInput, EnvType, read_env, stored_only
from toolwright.core.errors import InvalidRequest
from toolwright.core.files import File as FileRow
from toolwright.core.imports.conversation import ConversationForm
from toolwright.core.imports.message import MAX_IMPORTED
from toolwright.core.limits import MAX_SUMMARY, PageLimit
from toolwright.core.results import unchecked
from toolwright.core.text import quantity
from toolwright.core.threads.compaction import Compaction as CompactionRow
from toolwright.core.threads.message import Message as MessageRow
from toolwright.core.threads.thread import Thread as ThreadRow
from toolwright.runtime.threads.threads import SentMessage
from toolwright.web.answers import (
    EnvNames,
    ErrorShape,
    ListShape,
    answer,
    failures,
    shown,
)
from toolwright.web.auth.permits import only_services_import, owner_of_new
from toolwright.web.dependencies import AnyCaller, ServingDep
from toolwright.web.requests import (
    FILES,
    Id,
    Limit,
    MessageText,
    Name,
    NewEnv,
    Offset,
    Reference,
    RequestBody,
    StorableText,
    Unsatisfiable,
    Values,
    part_of,
)
from toolwright.web.route import noun
from toolwright.wire.message import File, Message, Sent
from toolwright.wire.rendering import Absent, From, Itself
from toolwright.wire.shape import Shape
from toolwright.wire.thread import Child, Compaction, Thread

MAX_LISTED = 1_000
"""Maximum length of lists in a body. Another check limits the files of a message, with its own error."""

router = noun("/api/threads", "threads")
_BYTES: dict[str, Any] = {  # part of an OpenAPI document
    "description": "The bytes of the file.",
    "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
}


class InvalidTenv(Shape):
    """A tenv of the wrong type. Its value is not repeated, because it can be secret."""

    name: str
    message: str


class ThreadRefused(ErrorShape):
    """A rejected thread: the names of the tenvs that are missing, and those of the wrong type."""

    missing: Absent[list[str]] = None
    invalid: Absent[list[InvalidTenv]] = None


class ThreadCreated(Shape):
    """A new thread, or the one that has the key already: `created` is false then."""

    thread: Itself[Thread]
    thread_id: Annotated[str, From("id")]


class ThreadAnswer(Shape):
    """One thread."""

    thread: Itself[Thread]


class ThreadList(ListShape):
    """Threads, the oldest first."""

    threads: list[Thread]


class ChildList(ListShape):
    """The children of a thread, oldest first."""

    children: list[Child]


class MessageList(ListShape):
    """Messages, the oldest first."""

    messages: list[Message]


class MessageAnswer(Shape):
    """One message."""

    message: Itself[Message]


class CompactionList(ListShape):
    """Compactions of a thread's conversations, oldest first."""

    compactions: list[Compaction]


class CompactionAnswer(Shape):
    """A new compaction of a conversation."""

    compaction: Itself[Compaction]


class NewSummary(RequestBody):
    """A summary that replaces the one written by a model. `side` selects the side of an agent with two sides."""

    text: Annotated[StorableText, Field(max_length=MAX_SUMMARY)]
    side: Literal["side_a", "side_b"] | None = None


class NewThread(RequestBody):
    """A thread to create."""

    agent_id: Reference = Field(description="Name or id of the agent.")
    user_id: Reference | None = None
    env: Values | None = Field(None, description="Variables by name: text, or an object with value and type.")
    tenvs: dict[str, JsonValue] | None = Field(
        None, description="Typed variables that the agent's tools require, by name."
    )
    tags: Annotated[list[Name], Field(max_length=MAX_LISTED)] | None = None
    arguments: dict[str, JsonValue] | None = None
    messages: Annotated[list[dict[str, JsonValue]], Field(max_length=MAX_IMPORTED)] | None = Field(
        None, description="Conversation from elsewhere that the thread continues. For services."
    )
    format: ConversationForm | None = Field(
        None, description="Form of the messages, which is recognized if it is not given."
    )
    key: Reference | None = Field(
        None, description="Key of the thread for its owner: a thread that has it already is returned."
    )


class NewName(RequestBody):
    """The new name of a thread; null removes the name."""

    name: Name | None


class NewFile(RequestBody):
    """A file of a message; `data` is base64."""

    name: Reference
    mime_type: Reference
    data: str
    width: int | None = Field(None, ge=0, lt=2**31)
    height: int | None = Field(None, ge=0, lt=2**31)


class NewMessage(RequestBody):
    """A message to send."""

    slow_text = FILES

    content: MessageText
    attachments: Annotated[list[NewFile], Field(max_length=MAX_LISTED)] | None = None
    deps: dict[str, JsonValue] | None = Field(
        None,
        description="The run's deps, as declared by the agent. From services only, unless it has `user_deps`.",
    )


@router.post(
    "",
    status_code=201,
    response_description="The new thread.",
    responses=failures(404, 409, 413)
    | {
        400: {
            "model": ThreadRefused,
            "description": "Invalid body, or tenvs that are missing or of the wrong type.",
        }
    },
)
async def create_thread(
    caller: AnyCaller, serving: ServingDep, new: NewThread
) -> Annotated[ThreadRow, ThreadCreated]:
    """Create a thread of an agent, or return the one with the key. A person owns the threads they create."""
    owner = owner_of_new(caller, new.user_id)
    if new.messages is not None:
        only_services_import(caller)
    await serving.permits.agent(caller, new.agent_id)
    stored_only(read_env(new.env))
    await serving.permits.env(caller, new.agent_id, new.env or ())
    await serving.permits.tenvs(caller, new.agent_id, new.tenvs or ())
    return await serving.runtime.threads.create(
        new.agent_id,
        owner,
        env=cast("Env | None", new.env),  # validated by `read_env`
        tenvs=new.tenvs,
        tags=new.tags,
        arguments=new.arguments,
        messages=new.messages,
        key=new.key,
        format=new.format,
    )


@router.get("", response_description="The threads.")
async def list_threads(
    caller: AnyCaller,
    serving: ServingDep,
    user_id: Annotated[StorableText | None, Query(alias="userId")] = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> Annotated[Sequence[ThreadRow], ThreadList]:
    """List threads, oldest first. A person sees their own."""
    return await serving.runtime.threads.list(user_id, limit, offset, among=caller.users)


@router.get("/{thread_id}", response_description="The thread.", responses=failures(404))
async def get_thread(
    caller: AnyCaller, serving: ServingDep, thread_id: Id
) -> Annotated[ThreadRow, ThreadAnswer]:
    """Get a thread."""
    await serving.permits.thread(caller, thread_id)
    return await serving.runtime.threads.get(thread_id)


@router.patch("/{thread_id}", response_description="The thread.", responses=failures(404))
async def rename_thread(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, new: NewName
) -> Annotated[ThreadRow, ThreadAnswer]:
    """Set the name of a thread; null removes the name. The name of a child cannot be changed."""
    await serving.permits.thread(caller, thread_id)
    return await serving.runtime.threads.rename(thread_id, new.name)


@router.delete(
    "/{thread_id}",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Deleted."}} | failures(404, 409),
)
async def delete_thread(
    caller: AnyCaller,
    serving: ServingDep,
    thread_id: Id,
    cancel: Annotated[bool, Query(description="Cancel its runs in progress first.")] = False,
) -> Response:
    """Permanently delete a thread with its messages, files, values, events and children. Not for home threads."""
    await serving.permits.thread(caller, thread_id)
    await serving.runtime.threads.delete(thread_id, cancel)
    return Response(status_code=204)


@router.get("/{thread_id}/children", response_description="The children.", responses=failures(404))
async def list_children(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, limit: Limit = PageLimit(100), offset: Offset = 0
) -> Annotated[Sequence[ThreadRow], ChildList]:
    """List the children of the thread with their status, oldest first."""
    await serving.permits.thread(caller, thread_id)
    return await serving.runtime.threads.children(thread_id, limit, offset)


@router.post(
    "/{thread_id}/messages",
    status_code=202,
    response_description="The message, and the run that reads it.",
    responses=failures(403, 404, 409, 413),
)
async def send_message(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, new: NewMessage
) -> Annotated[SentMessage, Sent]:
    """Send a message, which joins the current run or starts one."""
    await serving.permits.thread(caller, thread_id)
    if new.deps is not None:
        await serving.permits.deps(caller, thread_id)
    files = [
        unchecked(
            name=each.name, mime_type=each.mime_type, data=each.data, width=each.width, height=each.height
        )
        for each in new.attachments or ()
    ]
    by = caller.through("http")
    return await serving.runtime.threads.post(thread_id, new.content, files, new.deps, by=by)


@router.get("/{thread_id}/messages", response_description="The messages.", responses=failures(404))
async def list_messages(
    caller: AnyCaller,
    serving: ServingDep,
    thread_id: Id,
    run_id: Annotated[
        StorableText | None, Query(alias="runId", description="Only messages of this run.")
    ] = None,
    limit: Limit = PageLimit(100),
    offset: Offset = 0,
) -> Annotated[Sequence[MessageRow], MessageList]:
    """List the thread's messages, oldest first. A message that no run has read yet is not included."""
    await serving.permits.thread(caller, thread_id)
    messages = await serving.runtime.threads.messages(thread_id, limit, offset, run_id=run_id)
    return shown(messages, caller.presentation.message)


@router.put(
    "/{thread_id}/messages/{message_id}/pin",
    response_description="The pinned message.",
    responses=failures(404),
)
async def pin_message(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, message_id: Id
) -> Annotated[MessageRow, MessageAnswer]:
    """Pin a message, so that it is never left out of a request. Calls and their results cannot be pinned."""
    await serving.permits.thread(caller, thread_id)
    message = await serving.runtime.threads.pin(thread_id, message_id)
    return caller.presentation.message(message)


@router.delete(
    "/{thread_id}/messages/{message_id}/pin",
    response_description="The unpinned message.",
    responses=failures(404),
)
async def unpin_message(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, message_id: Id
) -> Annotated[MessageRow, MessageAnswer]:
    """Unpin a message, so that it can be left out of requests."""
    await serving.permits.thread(caller, thread_id)
    message = await serving.runtime.threads.pin(thread_id, message_id, False)
    return caller.presentation.message(message)


@router.put(
    "/{thread_id}/messages/{message_id}/hidden",
    response_description="The hidden messages.",
    responses=failures(404),
)
async def hide_message(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, message_id: Id
) -> Annotated[Sequence[MessageRow], MessageList]:
    """Leave a message out of all requests to models. An answer with calls is hidden together with their results."""
    await serving.permits.thread(caller, thread_id)
    messages = await serving.runtime.threads.hide_message(thread_id, message_id, by=caller.label)
    return shown(messages, caller.presentation.message)


@router.delete(
    "/{thread_id}/messages/{message_id}/hidden",
    response_description="The messages that are sent again.",
    responses=failures(404),
)
async def show_message(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, message_id: Id
) -> Annotated[Sequence[MessageRow], MessageList]:
    """Send a hidden message to models again."""
    await serving.permits.thread(caller, thread_id)
    messages = await serving.runtime.threads.hide_message(thread_id, message_id, False)
    return shown(messages, caller.presentation.message)


@router.get("/{thread_id}/compactions", response_description="The compactions.", responses=failures(404))
async def list_compactions(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, limit: Limit = PageLimit(100), offset: Offset = 0
) -> Annotated[Sequence[CompactionRow], CompactionList]:
    """List the compactions of the thread's conversations with their summaries, oldest first."""
    await serving.permits.thread(caller, thread_id)
    return await serving.runtime.threads.compactions(thread_id, limit, offset)


@router.patch(
    "/{thread_id}/summary",
    response_description="The compaction with the new summary.",
    responses=failures(404, 413),
)
async def edit_summary(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, new: NewSummary
) -> Annotated[CompactionRow, CompactionAnswer]:
    """Replace the summary of the omitted messages. The next steps use it."""
    await serving.permits.thread(caller, thread_id)
    return await serving.runtime.threads.edit_summary(thread_id, new.text, new.side, by=caller.label)


@router.delete(
    "/{thread_id}/summary", response_description="The compaction was deleted.", responses=failures(404)
)
async def remove_summary(
    caller: AnyCaller,
    serving: ServingDep,
    thread_id: Id,
    side: Annotated[
        Literal["side_a", "side_b"] | None,
        Query(description="The side whose summary it is, for an agent with two sides."),
    ] = None,
) -> Annotated[CompactionRow, CompactionAnswer]:
    """Delete the compaction. The next steps include all messages, until the conversation is too long again."""
    await serving.permits.thread(caller, thread_id)
    return await serving.runtime.threads.remove_summary(thread_id, side, by=caller.label)


@router.patch(
    "/{thread_id}/env",
    response_description="The names of the thread's variables.",
    responses=failures(404, 413),
)
async def set_env(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, new: NewEnv
) -> Annotated[Mapping[str, EnvType], EnvNames]:
    """Set variables of the thread, or delete them with null. Plain text gets the declared type, or is a secret.

    A person may set only the names in the agent's `user_env` and the names requested by a run in the thread.
    """
    await serving.permits.thread(caller, thread_id)
    thread = await serving.runtime.threads.get(thread_id)
    await serving.permits.env(caller, thread.agent, new.env, thread_id)
    return await serving.runtime.threads.set_env(
        thread_id, cast("EnvInput", new.env), by=caller.through("http")
    )


files_router = noun("/api/threads/{thread_id}/files", "files")


class FileList(ListShape):
    """A thread's files, by path."""

    files: list[File]


INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"})
"""Content types that browsers may display because they cannot contain scripts. All others are downloaded."""

Unlisted = Annotated[str | None, Header(include_in_schema=False)]
OfCall = Annotated[
    StorableText | None, Query(alias="callId", description="The id of a call whose result has the file.")
]
FilePath = Annotated[StorableText, Path(description="The file's path, with or without a slash before it.")]


@files_router.get("", response_description="The files.", responses=failures(404))
async def list_files(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, limit: Limit = PageLimit(100), offset: Offset = 0
) -> Annotated[Sequence[FileRow], FileList]:
    """List the thread's files by path."""
    await serving.permits.thread(caller, thread_id)
    files = await serving.runtime.files.list(thread_id)
    return files[offset : offset + limit]


@files_router.get(
    "/{path:path}",
    response_class=Response,
    responses={
        200: _BYTES,
        206: {**_BYTES, "description": "The part of the bytes that a `Range` names."},
        304: {"description": "Not modified: the caller already has this version."},
    }
    | failures(404, 416),
)
async def get_file(
    caller: AnyCaller,
    serving: ServingDep,
    thread_id: Id,
    path: FilePath,
    call_id: OfCall = None,
    if_none_match: Unlisted = None,
    range_header: Annotated[str | None, Header(alias="range", include_in_schema=False)] = None,
    if_range: Unlisted = None,
) -> Response:
    """Download a file, or one part of it (`Range: bytes=0-99`).

    With `callId`, members of the space that shows the call may read the files of its result.
    """
    file = await serving.permits.file(caller, thread_id, path, call_id)
    headers = _headers(file)
    if if_none_match is not None and headers["ETag"] in map(str.strip, if_none_match.split(",")):
        return Response(status_code=304, headers=headers)
    try:
        part = part_of(file.size, range_header if if_range in (None, headers["ETag"]) else None)
    except Unsatisfiable:
        why = f"The file has {quantity(file.size, 'byte')}, and none of these."
        headers = {"Content-Range": f"bytes */{file.size}"}
        return answer({"error": why, "code": InvalidRequest.code}, 416, headers)
    whole = part is None
    if part is None:
        part = slice(0, file.size)
    else:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{file.size}"
    headers["Content-Length"] = str(part.stop - part.start)
    pieces = serving.runtime.files.pieces(file, part)
    first = await anext(pieces, b"")  # raises errors before the answer has started
    return StreamingResponse(_and_then(first, pieces), 200 if whole else 206, headers=headers)


@files_router.head("/{path:path}", response_class=Response, include_in_schema=False)
async def describe_file(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, path: FilePath, call_id: OfCall = None
) -> Response:
    """Get the headers of a download, without reading the content."""
    file = await serving.permits.file(caller, thread_id, path, call_id)
    return Response(headers={**_headers(file), "Content-Length": str(file.size)})


async def _and_then(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def _headers(file: FileRow) -> dict[str, str]:
    """Return headers that prevent a browser from executing the file."""
    inline = file.mime_type in INLINE_TYPES
    charset = "; charset=utf-8" if file.mime_type.startswith("text/") else ""
    name = quote(file.name, safe="")
    return {
        "Content-Type": f"{file.mime_type}{charset}",
        "Content-Disposition": f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{name}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
        "Accept-Ranges": "bytes",
        "ETag": f'"{file.digest}"',
    }
