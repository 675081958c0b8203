"""Routes that list and download the files of threads. Downloads have headers that keep browsers from executing them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Header, Path
from starlette.responses import Response, StreamingResponse

from toolwright.core.broken_rows import sliced
from toolwright.core.errors import InvalidRequest
from toolwright.core.files import File as FileRow
from toolwright.core.limits import PageLimit
from toolwright.core.text import quantity
from toolwright.web.answers import ApiResponse, ListShape, answer, answers, failures, listed
from toolwright.web.dependencies import AnyCaller
from toolwright.web.requests.query import Id, Limit, Offset, StorableText, Unsatisfiable, part_of
from toolwright.web.routes.router import noun
from toolwright.web.serving import ServingDep
from toolwright.wire.message import File, file_json

router = noun("/api/threads/{thread_id}/files", "files")


class FileList(ListShape):
    """A thread's files, by path."""

    files: list[File]


INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"})
"""Content types that browsers may display because they cannot contain scripts. All others are downloaded."""

_BYTES: dict[str, Any] = {  # part of an OpenAPI document
    "description": "The bytes of the file.",
    "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
}
Unlisted = Annotated[str | None, Header(include_in_schema=False)]
FilePath = Annotated[StorableText, Path(description="The file's path, with or without a slash before it.")]


@router.get("", responses=answers(FileList, "The files.", errors=(404,)))
async def list_files(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, limit: Limit = PageLimit(100), offset: Offset = 0
) -> ApiResponse:
    """List the thread's files by path."""
    await serving.permits.thread(caller, thread_id)
    files = await serving.runtime.files.list(thread_id)
    return listed("files", sliced(files, limit, offset), file_json)


@router.get(
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
    if_none_match: Unlisted = None,
    range_header: Annotated[str | None, Header(alias="range", include_in_schema=False)] = None,
    if_range: Unlisted = None,
) -> Response:
    """Download a file, or one part of it (`Range: bytes=0-99`)."""
    await serving.permits.thread(caller, thread_id)
    file = await serving.runtime.files.get(thread_id, path)
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


@router.head("/{path:path}", response_class=Response, include_in_schema=False)
async def describe_file(caller: AnyCaller, serving: ServingDep, thread_id: Id, path: FilePath) -> Response:
    """Get the headers of a download, without reading the content."""
    await serving.permits.thread(caller, thread_id)
    file = await serving.runtime.files.get(thread_id, path)
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
