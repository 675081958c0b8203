"""`toolwright threads import`: a thread for each conversation in a file, in bounded memory, and none twice."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

from toolwright.cli.loop import run
from toolwright.cli.output import FAILED, Refusal, one_line, shown_url
from toolwright.cli.settings import read_settings, the_app
from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest, StoreError, ToolwrightError
from toolwright.core.imports.conversation import ConversationForm
from toolwright.core.imports.message import MAX_IMPORTED_TEXT
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_DOCUMENT_VALUES
from toolwright.core.text import hint
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.app import App
from toolwright.wiring.upkeep import importing_runtime

MAX_LINE = 2 * MAX_IMPORTED_TEXT  # bytes
AT_ONCE, BYTES_AT_ONCE = 64, 16 * 1024 * 1024
"""Maximum number of lines that are imported at the same time, and bytes after which no further line is added."""
EACH = 1_000  # lines after which the progress is printed
MAX_PRINTED = 100  # errors of lines
FIELDS = ("messages", "agent", "user", "key", "format", "tags")
IGNORED = frozenset({"tools", "functions", "parallel_tool_calls", "metadata"})
"""Fields of files for fine-tuning that a thread does not have."""

Line: TypeAlias = tuple[int, bytes]
Outcome: TypeAlias = Literal["imported", "already there", "failed"]


def import_file(
    file: Path, agent: str | None, form: ConversationForm | None, user: str | None, target: str | None
) -> int:
    """Import the conversations of a file, print the progress and the errors by line, and return the exit code."""
    settings, app = read_settings(), the_app(target)
    counts = run(_Import(agent, form, user).of(file, partial(importing_runtime, settings), app))
    print(f"{_counted(counts)} Database: {shown_url(settings.database_url)}.")
    return FAILED if counts["failed"] else 0


def _counted(counts: Counter[Outcome]) -> str:
    names: tuple[Outcome, ...] = ("imported", "already there", "failed")
    parts = [f"{counts[name]:,} {name}" for name in names if name == "imported" or counts[name]]
    return f"Conversations: {', '.join(parts)}."


class _Import:
    """Import of one file. Its lines have the given agent, form and user unless they name their own."""

    def __init__(self, agent: str | None, form: ConversationForm | None, user: str | None) -> None:
        self._agent = agent
        self._form = form
        self._user = user
        self._counts = Counter[Outcome]()

    async def of(self, file: Path, opened: Any, app: App) -> Counter[Outcome]:  # a context manager's function
        with ExitStack() as stack:
            try:
                source = sys.stdin.buffer if str(file) == "-" else stack.enter_context(file.open("rb"))
            except OSError as error:
                raise Refusal(f"The file {str(file)!r} cannot be read: {error.strerror or error}.") from error
            async with opened(app) as runtime:
                if self._agent is not None:
                    self._agent = (await runtime.agents.get(self._agent)).id
                lines = _lines(source)
                while some := await asyncio.to_thread(_some, lines):
                    before = self._counts.total() // EACH
                    outcomes = await asyncio.gather(*[self._line(runtime, line) for line in some])
                    self._counts.update(outcomes)
                    if self._counts.total() // EACH > before:
                        print(_counted(self._counts), file=sys.stderr, flush=True)
        return self._counts

    async def _line(self, runtime: Runtime, line: Line) -> Outcome:
        """Import one line. Raises only if the journal cannot be written."""
        number, text = line
        try:
            thread = await runtime.threads.create(**await asyncio.to_thread(self._read, text))
        except StoreError:
            raise
        except ToolwrightError as error:
            if self._counts["failed"] < MAX_PRINTED:
                print(f"toolwright: line {number}: {one_line(error.message)}", file=sys.stderr, flush=True)
            return "failed"
        return "imported" if thread.created else "already there"

    def _read(self, text: bytes) -> dict[str, Any]:  # the arguments of `threads.create`
        """Return the thread of a line. Raises `InvalidRequest`."""
        if len(text) > MAX_LINE:
            raise InvalidRequest(f"A line must have at most {MAX_LINE} bytes.")
        try:
            given = parse_json(text, values=MAX_DOCUMENT_VALUES)
        except NotJson as error:
            raise InvalidRequest(f"This is not JSON: {error}.") from error
        fields = _fields({"messages": given} if isinstance(given, list) else given)
        agent = fields.get("agent") or self._agent
        if agent is None:
            raise InvalidRequest("agent is missing: name it in the line, or with --agent.")
        user = fields.get("user", self._user)
        digest = blake2b(f"{self._agent}\n".encode() + text.strip(), digest_size=20)
        return {
            "agent": agent,
            "user_id": user,
            "tags": fields.get("tags"),
            "messages": fields["messages"],
            "key": fields.get("key") or f"import:{digest.hexdigest()}",
            "format": fields.get("format") or self._form,
        }


def _fields(line: JSON) -> JSONObject:
    if not isinstance(line, dict):
        raise InvalidRequest(f"A line must be a list of messages or an object, not {brief_value(line)}.")
    unknown = next((name for name in line if name not in FIELDS and name not in IGNORED), None)
    if unknown is not None:
        raise InvalidRequest(f"A line has no field {unknown!r}.{hint(unknown, FIELDS)}")
    if "messages" not in line:
        raise InvalidRequest("messages is missing.")
    return line


def _lines(source: BinaryIO) -> Iterator[Line]:
    """Yield the lines that are not blank, with their numbers. Of a line that is too long only the beginning is kept."""
    number = 0
    while text := source.readline(MAX_LINE + 1):
        number += 1
        rest = text
        while not rest.endswith(b"\n") and (rest := source.readline(1024 * 1024)):
            pass
        if text.strip():
            yield number, text


def _some(lines: Iterator[Line]) -> Sequence[Line]:
    """Return the next lines that are imported at the same time."""
    some, size = list[Line](), 0
    while len(some) < AT_ONCE and size < BYTES_AT_ONCE:
        line = next(lines, None)
        if line is None:
            break
        some.append(line)
        size += len(line[1])
    return some
