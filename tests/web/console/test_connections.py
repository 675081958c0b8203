"""Connections of browsers to the console."""

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.websockets import WebSocket
from uvicorn.server import ServerState
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from toolwright.web.console.console import WebSocketConnection

pytestmark = pytest.mark.anyio


class Wire(asyncio.Transport):
    """The server's end of a connection that is held in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.is_closed = False

    def write(self, data: Any) -> None:  # bytes-like
        self.sent += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


async def test_a_server_shuts_down_although_a_browser_is_closing_its_connection() -> None:
    accepted = asyncio.Event()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await WebSocket(scope, receive, send).accept()
        accepted.set()
        await asyncio.Event().wait()

    state, wire = ServerState(), Wire()
    connection = WebSocketConnection(uvicorn.Config(serve, log_config=None), state, {})
    browser = ClientProtocol(parse_uri("ws://127.0.0.1/console"))
    connection.connection_made(wire)
    browser.send_request(browser.connect())
    connection.data_received(b"".join(browser.data_to_send()))
    async with asyncio.timeout(10):
        await accepted.wait()
    browser.receive_data(wire.sent)
    browser.send_close()
    connection.data_received(b"".join(browser.data_to_send()))
    connection.shutdown()
    assert wire.is_closed
    for task in state.tasks:
        task.cancel()
