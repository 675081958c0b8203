"""A weather service of this machine, for a tool that calls it over HTTP."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

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
    """The service, and its URL, until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Weather) as server:
        Thread(target=server.serve_forever, daemon=True, name="weather").start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/current"
        finally:
            server.shutdown()
