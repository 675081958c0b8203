"""A server on this machine that implements the services of the documents, and an executor that calls their tools.

The documents are OAI's examples, with repetitions removed, and one with every style.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.executors.rig import Names, Received, Server, Wires, serving
from toolwright.adapters.executors.http import HttpExecutor
from toolwright.core.env.env import EnvVar
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.toolset import Toolset

DOCUMENTS = Path(__file__).parent / "documents"
PETSTORE = DOCUMENTS / "petstore.yaml"
PETSTORE_EXPANDED = DOCUMENTS / "petstore-expanded.yaml"
USPTO = DOCUMENTS / "uspto.yaml"
CALLBACK = DOCUMENTS / "callback-example.yaml"
LINKS = DOCUMENTS / "link-example.yaml"
STYLES = DOCUMENTS / "every-style.yaml"


@dataclass
class Service:
    """The server, and the executor that reaches it under any name."""

    server: Server
    executor: HttpExecutor

    async def call(
        self,
        tools: tw.OpenAPITools,
        name: str,
        arguments: Mapping[str, Any],  # arguments as a model can write them
        env: Mapping[str, str] | None = None,
        state: MemoryState | None = None,
    ) -> Any:  # the result
        values = {each: EnvVar(value=text) for each, text in (env or {}).items()}
        state = state or MemoryState(env=values)
        toolset = Toolset(tools, executors={"gateway": self.executor})
        result = await toolset.call(name, dict(arguments), state)
        assert result.status == "success", result.error
        return result.result

    @property
    def last(self) -> Received:
        return self.server.received[-1]


class Everywhere(Names):
    """Resolves every name to this machine."""

    async def __call__(self, host: str, port: int) -> list[str]:
        return ["127.0.0.1"]


class Ports(Wires):
    """Connects every port to the server's."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    async def connect_tcp(
        self, host: str, port: int, timeout: Any = None, local_address: Any = None, socket_options: Any = None
    ) -> Any:  # a stream
        return await super().connect_tcp(host, self._server.port, timeout, local_address, socket_options)


@asynccontextmanager
async def service() -> AsyncGenerator[Service]:
    async with serving() as server:
        executor = HttpExecutor(resolve=Everywhere({}), network=Ports(server))
        try:
            yield Service(server, executor)
        finally:
            await executor.aclose()
