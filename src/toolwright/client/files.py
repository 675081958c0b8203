"""Files of threads, as a client sees them."""

from toolwright.client.transport.http import Http, segment
from toolwright.wire.seen.reading import Items, read_list
from toolwright.wire.seen.threads import File


class Files:
    """The files of a thread."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, thread_id: str, limit: int = 100, offset: int = 0) -> Items[File]:
        """The files, by path. Raises `NotFound`."""
        query = {"limit": limit, "offset": offset}
        return read_list(File, await self._http.get(_path(thread_id), query), "files")

    async def read(self, thread_id: str, path: str) -> bytes:
        """The bytes of the file at that path. Raises `NotFound`."""
        where = "/".join(segment(part) for part in path.removeprefix("/").split("/"))
        return (await self._http.call("GET", f"{_path(thread_id)}/{where}", repeat="lost")).body


def _path(thread_id: str) -> str:
    return f"/api/threads/{segment(thread_id)}/files"
