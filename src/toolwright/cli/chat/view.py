"""A run as it is watched in a terminal: text while it is written, calls and results in lines of their own."""

import asyncio
import json
import os
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import clean_text

_CHUNK = 65_536


class Lines:
    """Lines as they come, from a terminal, a pipe or a file."""

    def __init__(self, file: int = 0) -> None:
        self._file = file
        self._rest = b""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def start(self) -> None:
        """Begin to read."""
        try:
            asyncio.get_running_loop().add_reader(self._file, self._read)
        except OSError:  # a file or /dev/null, which cannot be waited for and need not be
            while self._read_some():
                pass

    def stop(self) -> None:
        """Read no more."""
        asyncio.get_running_loop().remove_reader(self._file)

    async def next(self) -> str | None:
        """Return the next line, or None at the end, repeatedly."""
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
        return line

    def _read(self) -> None:
        if not self._read_some():
            self.stop()

    def _read_some(self) -> bool:
        """Read some; false at the end."""
        try:
            chunk = os.read(self._file, _CHUNK)
        except OSError:  # closed, or a terminal that is gone
            chunk = b""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            lines.append(self._rest)
        for line in lines:
            self._lines.put_nowait(line.decode("utf-8", "replace").rstrip("\r"))
        if not chunk:
            self._lines.put_nowait(None)
        return bool(chunk)


SHORT = 160


@dataclass(slots=True, kw_only=True)
class SeenCall:
    """One call, as far as it has been seen. `seconds` is None for a call that did not begin."""

    name: str
    arguments: str
    shown: bool = False
    started: datetime | None = None
    status: str = "open"
    seconds: float | None = None


def spelled(arguments: str) -> str:
    """JSON arguments as a reader of Python expects them: `city="Rome", limit=3`."""
    try:
        given: JSON = json.loads(arguments or "{}")
    except ValueError:
        return shortened(arguments)
    if not isinstance(given, dict):
        return shortened(arguments)
    return shortened(
        ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items())
    )


def shortened(value: JSON) -> str:
    """Return a value in one line of at most 160 characters, safe to print."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(clean_text(text).split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def duration(seconds: float | None) -> str:
    """`12 ms` or `1.2 s`; a dash where there is none."""
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def table_of(calls: list[SeenCall]) -> Table:
    """Return a table of the calls, in their order."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("#", justify="right", min_width=2)
    table.add_column("tool", no_wrap=True)
    table.add_column("arguments", overflow="ellipsis", no_wrap=True, max_width=40)
    table.add_column("status", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True, min_width=6)
    for number, call in enumerate(calls, 1):
        style = {"done": "green", "error": "red"}.get(call.status, "yellow")
        table.add_row(
            str(number),
            Text(call.name),
            Text(call.arguments),
            Text(call.status, style),
            duration(call.seconds),
        )
    return table


class View:
    """Prints the events of one thread as they come. `calls` are the calls seen, in their order."""

    def __init__(self, console: Console, speaker: str) -> None:
        self.calls: list[SeenCall] = []
        self._console = console
        self._speaker = speaker
        self._by_id: dict[str, SeenCall] = {}
        self._stream: str | None = None
        self._written = ""

    def show(self, type_: str, payload: JSONObject, at: datetime) -> None:
        """Show one event."""
        match type_:
            case "message.delta":
                self._write(_text(payload, "streamId"), _text(payload, "text"))
            case "message":
                self._message(cast("JSONObject", payload["message"]))
            case "tool.approved" if "args" in payload:
                self._call(payload).arguments = spelled(json.dumps(payload["args"]))
            case "tool.started":
                self._start_call(payload, at)
            case "tool.done":
                self._end_call(payload, at, "done", payload.get("result", "(a long result)"))
            case "tool.error":
                self._end_call(payload, at, "error", payload.get("error", "(a long error)"))
            case "run.waiting":
                self._note(f"waiting for {_awaited(payload)}", "yellow")
            case "run.failed":
                self._note(f"failed: {shortened(payload.get('error', 'no reason given'))}", "bold red")
            case "run.cancelled":
                self._note("cancelled", "yellow")
            case "run.completed" if payload.get("stopReason") != "end_turn":
                self._note(f"ended: {_text(payload, 'stopReason')}", "yellow")
            case _:
                pass

    # ── what the agent says ─────────────────────────────────────────────────────────────────────────────────

    def _write(self, stream: str, text: str) -> None:
        """Show an answer as far as it has come; one that is begun again is shown again."""
        if stream != self._stream:
            self._end_line()
            self._stream = stream
            self._print(f"{self._speaker}  ", "bold cyan", end="")
        elif not text.startswith(self._written):
            self._written = ""
        self._print(text[len(self._written) :], end="")
        self._written = text

    def _message(self, message: JSONObject) -> None:
        match message.get("role"):
            case "assistant":
                self._show_answer(message)
            case "tool":
                call = self._by_id.get(_text(message, "toolCallId"))
                if call is not None and call.status == "open":
                    call.status = "pending"
                    self._note(f"pending: {shortened(_text(message, 'content'))}", "yellow")
            case _:
                pass

    def _show_answer(self, message: JSONObject) -> None:
        content = _text(message, "content")
        if content.strip():
            streamed = self._stream is not None and content.startswith(self._written)
            self._write(self._stream if streamed and self._stream else _text(message, "id"), content)
        self._end_line()
        for asked in cast("list[JSONObject]", message.get("toolCalls", [])):
            call = SeenCall(name=_text(asked, "name"), arguments=spelled(_text(asked, "arguments")))
            self._by_id[_text(asked, "id")] = call
            self.calls.append(call)

    # ── what it calls ───────────────────────────────────────────────────────────────────────────────────────

    def _start_call(self, payload: JSONObject, at: datetime) -> None:
        call = self._call(payload)
        call.started = at
        self._show(call)

    def _end_call(self, payload: JSONObject, at: datetime, status: str, outcome: object) -> None:
        call = self._call(payload)
        self._show(call)
        call.status = status
        if call.started is not None:
            call.seconds = (at - call.started).total_seconds()
        mark, style = ("✓", "green") if status == "done" else ("✗", "red")
        self._print(f"   {mark} ", style, end="")
        self._print(shortened(cast("str", outcome)), None if status == "done" else "red", end="")
        self._print(f"  {duration(call.seconds)}", "dim")

    def _call(self, payload: JSONObject) -> SeenCall:
        call_id = _text(payload, "toolCallId")
        if call_id not in self._by_id:  # its message was too large for an event
            self._by_id[call_id] = SeenCall(name=_text(payload, "toolName"), arguments="…")
            self.calls.append(self._by_id[call_id])
        return self._by_id[call_id]

    def _show(self, call: SeenCall) -> None:
        if call.shown:
            return
        call.shown = True
        self._end_line()
        self._print(" → ", "bold yellow", end="")
        self._print(call.name, "bold", end="")
        self._print(f"({call.arguments})")

    # ── printing ────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, text: str, style: str) -> None:
        self._end_line()
        self._print(f" · {text}", style)

    def _end_line(self) -> None:
        if self._stream is not None:
            self._console.print()
        self._stream, self._written = None, ""

    def _print(self, text: str, style: str | None = None, end: str = "\n") -> None:
        self._console.print(
            clean_text(text), style=style, end=end, markup=False, highlight=False, soft_wrap=True
        )


def _text(payload: JSONObject, key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _awaited(payload: JSONObject) -> str:
    waiting = payload.get("waiting")
    if not isinstance(waiting, dict):
        return "something"
    if waiting.get("reason") == "approval":
        return "an approval"
    if waiting.get("reason") == "calls":
        return f"the result of {shortened(waiting.get('callIds', []))}"
    return shortened(waiting)
