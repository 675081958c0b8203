"""Output of the command line: one-line errors with an exit code, logs, URLs without passwords, files of results."""

import asyncio
import binascii
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence, Set
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from toolwright.core.env.logs import JsonFormatter, TextFormatter, WithoutSecrets
from toolwright.core.files import fold, free_path, safe_name
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import Attachment, AttachmentRef, ToolResult
from toolwright.core.state.memory import MemoryState
from toolwright.core.text import clean_text, sentence, spelled_out

USAGE, FAILED, INTERRUPTED = 2, 1, 130
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Refusal(Exception):
    """A user's mistake: the message to print, and the exit code `code`."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def one_line(text: str) -> str:
    """Return the text without line breaks and terminal control characters."""
    return spelled_out(" ".join(text.split()))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, has_header: bool = False) -> None:
    """Print a table. On a pipe, print each row as a line of tab-separated values, after a header with `has_header`."""
    from rich import box  # noqa: PLC0415 - commands without a table start faster
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = Console()
    if not console.is_terminal:
        for row in (columns, *rows) if has_header else rows:
            print(*row, sep="\t")
        return
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)


def read_arguments(text: str) -> JSONObject:
    """Return the arguments of a call, written as JSON. Raises `Refusal`."""
    try:
        given: JSON = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(sentence(f"The arguments are not JSON: {error}")) from error
    if not isinstance(given, dict):
        raise Refusal(f"""The arguments must be a JSON object, as in '{{"name": "value"}}', not {text!r}.""")
    return given


def shown_url(url: str) -> str:
    """Return the URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}", query=""))


class _OneLine(logging.Formatter):
    """Formats a log record as one line, without its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        return spelled_out(self.formatMessage(record))


def silence_tools() -> None:
    """Do not log exceptions of tools: the command itself shows each result."""
    logging.getLogger("toolwright.tools").setLevel(logging.ERROR)


def log_briefly() -> None:
    """Log warnings on stderr, each in one line."""
    silence_tools()
    _log(_OneLine("toolwright: %(message)s"))


def log_fully(form: Literal["text", "json"] = "text", level: str = "warning") -> None:
    """Log our records from `level` on, and warnings of other libraries, with time, logger and traceback."""
    logging.getLogger("toolwright").setLevel(level.upper())
    _log(JsonFormatter() if form == "json" else TextFormatter(FORMAT))


def _log(formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.addFilter(WithoutSecrets())  # also for log lines of tools
    logging.getLogger().addHandler(handler)


def check_folder(folder: Path | None) -> None:
    """Create the folder before the tool is called, so that its files can be saved. Raises `Refusal` if it cannot."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unsaved(folder, error) from error


def show_files(result: ToolResult, state: MemoryState, folder: Path | None) -> None:
    """Save the files of the result, or without a folder list them on stderr with the option that saves them."""
    if folder is not None:
        for each in result.attachments:
            print(f"Saved {_save(each, state, folder)}", file=sys.stderr)
    elif result.attachments:
        names = ", ".join(clean_text(f"{each.name} ({each.mime_type})") for each in result.attachments)
        print(f"Files of the result, not saved: {names}. Add --files FOLDER to save them.", file=sys.stderr)


def _save(attachment: Attachment | AttachmentRef, state: MemoryState, folder: Path) -> Path:
    """Save a file under its name, or under the next free name if a file of that name exists."""
    if isinstance(attachment, AttachmentRef):
        content = asyncio.run(state.read_file(attachment.path))
    else:
        content = binascii.a2b_base64(attachment.data)
    try:
        existing = {fold(f"/{path.name}") for path in folder.iterdir()}
        path = folder / asyncio.run(free_path(safe_name(attachment.name), _existing(existing), "/"))[1:]
        with path.open("xb") as file:  # fails if another process has created it since
            file.write(content)
    except OSError as error:
        raise _unsaved(folder, error) from error
    return path


def _existing(names: Set[str]) -> Callable[[Sequence[str]], Awaitable[Set[str]]]:
    async def select(paths: Sequence[str]) -> Set[str]:
        return names & set(paths)

    return select


def _unsaved(folder: Path, error: OSError) -> Refusal:
    return Refusal(sentence(f"The files cannot be saved in {str(folder)!r}: {error}"))
