"""Files of a result that `toolwright call` has got: saved to a folder, or named."""

import asyncio
import binascii
import sys
from collections.abc import Awaitable, Callable, Sequence, Set
from pathlib import Path

from toolwright.cli.output import Refusal
from toolwright.core.files.file import fold, free_path, safe_name
from toolwright.core.results.content import Attachment, AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.state.memory import MemoryState
from toolwright.core.text import sentence
from toolwright.wire.text import clean_text


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
    """Under its name, or the next one that is free: nothing is written over."""
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
