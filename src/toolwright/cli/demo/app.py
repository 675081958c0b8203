"""The demo's app. From this file's folder: `toolwright chat analyst --model openai:gpt-5-mini`."""

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

from toolwright.cli.chat.view import Lines
from toolwright.cli.demo.desk import demo_app
from toolwright.cli.demo.worker import KEY
from toolwright.client import Client, Event
from toolwright.core.json_value import JSONObject

app = demo_app(Path(__file__).parent)


SPACE = "desk"
CARRIERS = {
    "current_weather": "over HTTP",
    "find_hotels": "by a worker, which is another process",
    "confirm_booking": "by you",
}
WISH = "Book a hotel in Tokyo, please."


async def book(console: Console, url: str, key: str) -> None:
    """Play the demo: a person asks in a space, the agent searches, asks back and continues with the answer."""
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
    """Prints the calls and their carriers."""
    say = ["", "None of host's tools is a function:"]
    for call in await client.calls.list(status=["done", "resolved"]):
        if call.name in CARRIERS:
            result = json.dumps(call.result, ensure_ascii=False)
            say.append(f" → {call.name}  {CARRIERS[call.name]}: {result}")
    _print(console, "\n".join(say))


async def _show(console: Console, client: Client, event: Event) -> bool:
    """Show what happens in the space, and answer what it asks; true at the end."""
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


async def _answer(console: Console, client: Client, shown: JSONObject) -> None:
    """Answer the confirmation: by the terminal user, or by the demo itself."""
    args = cast("JSONObject", shown["args"])
    console.print("host ", style="bold cyan", end="")
    question = f"confirm_booking(hotel={args['hotel']!r}): shall I? [Y/n] "
    console.print(question, end="", markup=False, highlight=False, soft_wrap=True)
    said = await _line() if sys.stdin.isatty() else ""
    confirmed = (said or "y").strip().lower()[:1] != "n"
    if not sys.stdin.isatty():
        _print(console, "y (nobody sits here)")
    await client.calls.submit(str(shown["runId"]), str(shown["toolCallId"]), {"confirmed": confirmed})


async def _line() -> str:
    lines = Lines()
    lines.start()
    try:
        return await lines.next() or ""
    finally:
        lines.stop()


@contextmanager
def _worker(url: str, key: str) -> Generator[None]:
    """Yield the external worker, in a process of its own."""
    command = [sys.executable, "-m", "toolwright.cli.demo.worker", url]
    with subprocess.Popen(command, env={**os.environ, KEY: key}) as process:  # noqa: S603 - our own module
        try:
            yield
        finally:
            process.terminate()


def _print(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


FORECAST = {"tokyo": (18, "clear")}


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
        """Say nothing."""


@contextmanager
def weather_service() -> Generator[str]:
    """Yield the service, and its URL, until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Weather) as server:
        Thread(target=server.serve_forever, daemon=True, name="weather").start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/current"
        finally:
            server.shutdown()
