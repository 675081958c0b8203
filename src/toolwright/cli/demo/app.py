"""The demo's app. From this file's folder: `toolwright chat analyst --model openai:gpt-6.1-terra`."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import cast
from urllib.parse import parse_qs, urlsplit

from rich.console import Console

from toolwright.cli.demo.desk import demo_app
from toolwright.cli.demo.worker import KEY
from toolwright.cli.view import Lines
from toolwright.client import Client, Event
from toolwright.core.json_value import JSONObject

app = demo_app(Path(__file__).parent)


SPACE = "desk"
EXECUTORS = {
    "current_weather": "over HTTP",
    "find_hotels": "by a worker, which is another process",
    "confirm_booking": "by you",
}
WISH = "Book a hotel in Tokyo, please."
FORECAST = {"tokyo": (18, "clear")}


async def book(console: Console, url: str, key: str) -> None:
    """Play the scene in a space: a person asks for a hotel, the agent searches, asks back and books."""
    with _worker(url, key):
        async with Client(url, secret_key=key) as client:
            you = (await client.entities.create(external_id="you", display_name="You")).id
            await client.spaces.create("Travel desk", id=SPACE)
            for member in (you, "host"):
                await client.spaces.add_member(SPACE, member)
            _print(console, "\nA space, with you and the agent host in it:\n", "dim")
            async with aclosing(client.spaces.follow(SPACE, after=0)) as events:
                await client.spaces.say(SPACE, WISH, entity_id=you)
                async for event in events:
                    if await _show(console, client, event):
                        break
            await _print_calls(console, client)


async def _print_calls(console: Console, client: Client) -> None:
    """Print the finished calls and what executed each of them."""
    lines = ["", "None of the host's tools is a Python function:"]
    for call in await client.calls.list(status=["done", "resolved"]):
        if call.name in EXECUTORS:
            result = json.dumps(call.result, ensure_ascii=False)
            lines.append(f" → {call.name}  {EXECUTORS[call.name]}: {result}")
    _print(console, "\n".join(lines))


async def _show(console: Console, client: Client, event: Event) -> bool:
    """Show an event of the space, and answer the confirmation. Return whether the hotel is booked."""
    if event.type != "space.message":
        return False
    message = cast("JSONObject", event.payload["message"])
    metadata = cast("JSONObject", message["metadata"])
    if metadata.get("type") == "tool_call":
        await _answer(console, client, metadata)
        return False
    mine = message["role"] == "user"
    console.print("you  " if mine else "host ", style="bold green" if mine else "bold cyan", end="")
    _print(console, str(message["content"]))
    return "booked" in str(message["content"]) and not mine


async def _answer(console: Console, client: Client, call: JSONObject) -> None:
    """Answer the confirmation: with the terminal user's answer, or with yes if there is no terminal."""
    args = cast("JSONObject", call["args"])
    console.print("host ", style="bold cyan", end="")
    question = f"confirm_booking(hotel={args['hotel']!r}): shall I? [Y/n] "
    console.print(question, end="", markup=False, highlight=False, soft_wrap=True)
    line = await _line() if sys.stdin.isatty() else ""
    confirmed = (line or "y").strip().lower()[:1] != "n"
    if not sys.stdin.isatty():
        _print(console, "y (no terminal)")
    await client.calls.submit(str(call["runId"]), str(call["toolCallId"]), {"confirmed": confirmed})


async def _line() -> str:
    lines = Lines()
    lines.start()
    try:
        return await lines.next() or ""
    finally:
        lines.stop()


@contextmanager
def _worker(url: str, key: str) -> Generator[None]:
    """Run the external worker in a separate process within the block."""
    command = [sys.executable, "-m", "toolwright.cli.demo.worker", url]
    with subprocess.Popen(command, env={**os.environ, KEY: key}) as process:  # noqa: S603 - our own module
        try:
            yield
        finally:
            process.terminate()


def _print(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


class _Weather(BaseHTTPRequestHandler):
    """Answers `GET /current?city=…`."""

    def do_GET(self) -> None:
        """Write the weather as JSON."""
        [city] = parse_qs(urlsplit(self.path).query).get("city", [""])[:1]
        degrees, sky = FORECAST.get(city.lower(), (12, "cloudy"))
        body = json.dumps({"city": city, "degrees": degrees, "sky": sky}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the demo's output shows only the agents."""


@contextmanager
def weather_service() -> Generator[str]:
    """Run the weather service within the block, and yield its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Weather) as server:
        Thread(target=server.serve_forever, daemon=True, name="weather").start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/current"
        finally:
            server.shutdown()
