"""Output of the command line: refusals in one line with an exit code, logs, places, files of results."""

import asyncio
import binascii
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence, Set
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from toolwright.core.env.logs import JsonFormatter, TextFormatter, WithoutSecrets
from toolwright.core.files.file import fold, free_path, safe_name
from toolwright.core.results.content import Attachment, AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.state.memory import MemoryState
from toolwright.core.text import clean_text, sentence, spelled_out

USAGE, FAILED, INTERRUPTED = 2, 1, 130


class Refusal(Exception):
    """A sentence for the user; `code` is the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def one_line(text: str) -> str:
    """Return the text without line breaks, and without anything that steers a terminal."""
    return spelled_out(" ".join(text.split()))


def shown_url(url: str) -> str:
    """Return the URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}", query=""))


FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _OneLine(logging.Formatter):
    """Formatter of log records without traceback, whatever they say in one line."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        return spelled_out(self.formatMessage(record))


def leave_tools_out() -> None:
    """Log no exceptions of tools: the command itself shows each result."""
    logging.getLogger("toolwright.tools").setLevel(logging.ERROR)


def log_briefly() -> None:
    """Show warnings, each in one line."""
    leave_tools_out()
    _log(_OneLine("toolwright: %(message)s"))


def log_fully(form: Literal["text", "json"] = "text", level: str = "warning") -> None:
    """Show our lines from that level on, and warnings of others, with time, place and traceback."""
    logging.getLogger("toolwright").setLevel(level.upper())
    _log(JsonFormatter() if form == "json" else TextFormatter(FORMAT))


def _log(formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.addFilter(WithoutSecrets())  # lines of tools too, not only ours
    logging.getLogger().addHandler(handler)


def check_folder(folder: Path | None) -> None:
    """Make the folder, before a tool does anything whose files it could not take."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unsaved(folder, error) from error


def show_files(result: ToolResult, state: MemoryState, folder: Path | None) -> None:
    """Save the files of the result, or say on stderr which there are, and how to get them."""
    if folder is not None:
        for each in result.attachments:
            print(f"Saved {_save(each, state, folder)}", file=sys.stderr)
    elif result.attachments:
        names = ", ".join(clean_text(f"{each.name} ({each.mime_type})") for each in result.attachments)
        print(f"Files of the result, not saved: {names}. --files FOLDER saves them.", file=sys.stderr)


def _save(each: Attachment | AttachmentRef, state: MemoryState, folder: Path) -> Path:
    """Save a file under its name or the next free one; no file is overwritten."""
    if isinstance(each, AttachmentRef):
        content = asyncio.run(state.read_file(each.path))
    else:
        content = binascii.a2b_base64(each.data)
    try:
        taken = {fold(f"/{path.name}") for path in folder.iterdir()}
        path = folder / asyncio.run(free_path(safe_name(each.name), _those_in(taken), "/"))[1:]
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise _unsaved(folder, error) from error
    return path


def _those_in(taken: Set[str]) -> Callable[[Sequence[str]], Awaitable[Set[str]]]:
    async def of(paths: Sequence[str]) -> Set[str]:
        return taken & set(paths)

    return of


def _unsaved(folder: Path, error: OSError) -> Refusal:
    return Refusal(sentence(f"The files cannot be saved in {str(folder)!r}: {error}"))
