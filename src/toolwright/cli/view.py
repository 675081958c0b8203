"""Terminal view of a run: text as it streams, and a line for each call and result."""

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
SHORT = 160


class Lines:
    """Lines of an input, read without blocking from a terminal, a pipe or a file."""

    def __init__(self, file: int = 0) -> None:
        self._file = file
        self._partial = b""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def start(self) -> None:
        """Start to read. A file is read at once, to its end."""
        try:
            asyncio.get_running_loop().add_reader(self._file, self._read)
        except OSError:  # a file or /dev/null: epoll cannot wait for it, and reading it does not block
            while self._read_some():
                pass

    def stop(self) -> None:
        """Stop reading."""
        asyncio.get_running_loop().remove_reader(self._file)

    async def next(self) -> str | None:
        """Return the next line, or None at the end of the input and on each later call."""
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)  # the end remains for the next reader
        return line

    def _read(self) -> None:
        if not self._read_some():
            self.stop()

    def _read_some(self) -> bool:
        """Read one chunk. Return False at the end of the input."""
        try:
            chunk = os.read(self._file, _CHUNK)
        except OSError:  # the input was closed, or the terminal is gone
            chunk = b""
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if not chunk and self._partial:
            lines.append(self._partial)
        for line in lines:
            self._lines.put_nowait(line.decode("utf-8", "replace").rstrip("\r"))
        if not chunk:
            self._lines.put_nowait(None)
        return bool(chunk)


@dataclass(slots=True, kw_only=True)
class ObservedCall:
    """State of a call, from its events so far. `seconds` is its duration, None if it did not start."""

    name: str
    arguments: str
    is_printed: bool = False
    started: datetime | None = None
    status: str = "open"
    seconds: float | None = None


def format_arguments(arguments: str) -> str:
    """Render JSON arguments as in a Python call: `city="Rome", limit=3`."""
    try:
        parsed: JSON = json.loads(arguments or "{}")
    except ValueError:
        return shorten(arguments)
    if not isinstance(parsed, dict):
        return shorten(arguments)
    return shorten(
        ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in parsed.items())
    )


def shorten(value: JSON) -> str:
    """Return a value in one line of at most 160 characters, safe to print."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(clean_text(text).split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def duration(seconds: float | None) -> str:
    """Render a duration as `12 ms` or `1.2 s`; a dash for None."""
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def call_table(calls: list[ObservedCall]) -> Table:
    """Return a table of the calls, oldest first."""
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


class ChatView:
    """Prints the events of one thread as they arrive. `calls` are the calls so far, oldest first."""

    def __init__(self, console: Console, speaker: str) -> None:
        self.calls: list[ObservedCall] = []
        self._console = console
        self._speaker = speaker
        self._by_id: dict[str, ObservedCall] = {}
        self._stream: str | None = None
        self._written = ""
        self._reasoning = ""

    def show(self, type_: str, payload: JSONObject, at: datetime) -> None:
        """Print one event. Events of other types are ignored."""
        match type_:
            case "message.delta":
                self._write(_text_field(payload, "streamId"), _text_field(payload, "text"))
            case "message.reasoning":
                self._reason(_text_field(payload, "streamId"))
            case "message":
                self._message(cast("JSONObject", payload["message"]))
            case "tool.approved" if "args" in payload:
                self._call(payload).arguments = format_arguments(json.dumps(payload["args"]))
            case "tool.started":
                self._start_call(payload, at)
            case "tool.done":
                self._end_call(payload, at, "done", payload.get("result", "(a long result)"))
            case "tool.error":
                self._end_call(payload, at, "error", payload.get("error", "(a long error)"))
            case "hook.verdict":
                verdict = f"{payload.get('hook')} {payload.get('verdict')} {payload.get('point')}"
                self._note(
                    f"hook {shorten(verdict)}: {shorten(payload.get('reason', ''))}".rstrip(": "), "yellow"
                )
            case "run.waiting":
                self._note(f"waiting for {_wait_reason(payload)}", "yellow")
            case "run.failed":
                self._note(f"failed: {shorten(payload.get('error', 'no reason given'))}", "bold red")
            case "run.cancelled":
                self._note("cancelled", "yellow")
            case "run.completed" if payload.get("stopReason") != "end_turn":
                self._note(f"ended: {_text_field(payload, 'stopReason')}", "yellow")
            case _:
                pass

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _write(self, stream: str, text: str) -> None:
        """Print the new part of a streamed answer. An answer that the model restarts is printed again."""
        if stream != self._stream:
            self._end_line()
            self._stream = stream
            self._print(f"{self._speaker}  ", "bold cyan", end="")
        elif not text.startswith(self._written):
            self._written = ""
        self._print(text[len(self._written) :], end="")
        self._written = text

    def _reason(self, stream: str) -> None:
        """Print one line for the reasoning of an answer, which is longer than the answer."""
        if stream != self._reasoning:
            self._reasoning = stream
            self._note("reasoning …", "dim")

    def _message(self, message: JSONObject) -> None:
        match message.get("role"):
            case "assistant":
                self._show_answer(message)
            case "tool":
                call = self._by_id.get(_text_field(message, "toolCallId"))
                if call is not None and call.status == "open":
                    call.status = "pending"
                    self._note(f"pending: {shorten(_text_field(message, 'content'))}", "yellow")
            case _:
                pass

    def _show_answer(self, message: JSONObject) -> None:
        content = _text_field(message, "content")
        if content.strip():
            streamed = self._stream is not None and content.startswith(self._written)
            self._write(self._stream if streamed and self._stream else _text_field(message, "id"), content)
        self._end_line()
        for requested in cast("list[JSONObject]", message.get("toolCalls", [])):
            arguments = format_arguments(_text_field(requested, "arguments"))
            call = ObservedCall(name=_text_field(requested, "name"), arguments=arguments)
            self._by_id[_text_field(requested, "id")] = call
            self.calls.append(call)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

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
        self._print(shorten(cast("str", outcome)), None if status == "done" else "red", end="")
        self._print(f"  {duration(call.seconds)}", "dim")

    def _call(self, payload: JSONObject) -> ObservedCall:
        call_id = _text_field(payload, "toolCallId")
        if call_id not in self._by_id:  # its message was too large for an event
            self._by_id[call_id] = ObservedCall(name=_text_field(payload, "toolName"), arguments="…")
            self.calls.append(self._by_id[call_id])
        return self._by_id[call_id]

    def _show(self, call: ObservedCall) -> None:
        if call.is_printed:
            return
        call.is_printed = True
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


def _text_field(payload: JSONObject, key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _wait_reason(payload: JSONObject) -> str:
    waiting = payload.get("waiting")
    if not isinstance(waiting, dict):
        return "something"
    if waiting.get("reason") == "approval":
        return "an approval"
    if waiting.get("reason") == "calls":
        return f"the result of {shorten(waiting.get('callIds', []))}"
    return shorten(waiting)
