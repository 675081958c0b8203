"""Saved requests (S1 `_delegate`): the JSON files of a folder, read when the app is created."""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_text import NotJson, read_json
from toolwright.core.requests.request import MAX_REQUEST, RequestForm, read_request
from toolwright.core.requests.speaker import request_agent
from toolwright.core.schemas.meta import ANONYMOUS
from toolwright.core.schemas.output import Output
from toolwright.core.text import sentence

MAX_FILES = 10_000  # files
SUFFIX = ".json"
_AT = datetime.fromtimestamp(0, UTC)  # of messages that are not shown


def read_saved_requests(folder: Path) -> Mapping[str, RequestForm]:
    """Return the requests in a folder tree, by path without `.json`: `summary`, `team/review`.

    Raises `DefinitionError` naming the file that is invalid, too large or outside the folder.
    """
    if not folder.is_dir():
        raise DefinitionError(f"There is no folder {str(folder)!r} of saved requests.")
    root = folder.resolve()
    saved: dict[str, RequestForm] = {}
    for path in _files(root):
        name = path.relative_to(root).as_posix().removesuffix(SUFFIX)
        if not path.resolve().is_relative_to(root):
            raise DefinitionError(f"The saved request {name!r} lies outside its folder.")
        saved[name] = _read(name, path)
    return saved


def check_saved_requests(catalog: Catalog) -> None:
    """Raise `DefinitionError` if a saved request does not fit the app."""
    if ANONYMOUS in catalog.requests:
        raise DefinitionError(
            f"No saved request may be named {ANONYMOUS!r}, which is reserved for requests without a file."
        )
    twice = next((agent.name for agent in catalog.agents if agent.name in catalog.requests), None)
    if twice is not None:
        raise DefinitionError(f"{twice!r} is both an agent and a saved request. Rename one.")
    for name, request in catalog.requests.items():
        try:
            request_agent(catalog, request, Output(request.output), request.config.model, _AT)
        except DefinitionError as error:
            raise DefinitionError(
                sentence(f"The saved request {name!r} cannot be used: {error.message}")
            ) from error


def _files(root: Path) -> Iterator[Path]:
    """Yield the files of the folder tree, except hidden ones, which belong to editors or the system."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in sorted(names):
            if name.endswith(SUFFIX) and not name.startswith("."):
                count += 1
                if count > MAX_FILES:
                    raise DefinitionError(
                        f"The folder {str(root)!r} has more than {MAX_FILES} saved requests."
                    )
                yield Path(folder, name)


def _read(name: str, path: Path) -> RequestForm:
    what = f"The saved request {name!r}"
    try:
        if path.stat().st_size > MAX_REQUEST:
            raise DefinitionError(f"{what} has more than {MAX_REQUEST} bytes.")
        return read_request(what, read_json(path.read_bytes()))
    except OSError as error:
        raise DefinitionError(sentence(f"{what} cannot be read: {error.strerror}")) from error
    except NotJson as error:
        raise InvalidConfiguration(sentence(f"{what} is not valid JSON: {error}"), []) from error
