"""Code that runs in a sandbox: what is asked for, what comes of it, and how far it may go."""

import asyncio
from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.value import value

Language: TypeAlias = Literal["typescript", "javascript", "python"]
CodeStatus: TypeAlias = Literal["success", "error", "terminated"]
LogLevel: TypeAlias = Literal["debug", "log", "info", "warn", "error"]
HostFunction: TypeAlias = Callable[..., object]
"""A function of ours that the code may call; what it returns, or what that is awaited to, is JSON."""


@value
class Execute:
    """What is called once the code is loaded: an export, or in Python a function, by its name."""

    fn: str = "default"
    args: tuple[JSON, ...] = ()


@value
class CodeOptions:
    """How code is run. What is None is decided by the sandbox.

    `filename` is what stacks call the code. `imports` are functions of the host, `modules` sources of the same
    language, both imported by their names; `globals` are JSON values. `timeout` is in seconds and counts all, also
    the time that functions of the host take.
    """

    language: Language = "typescript"
    filename: str | None = None
    execute: Execute | None = None
    imports: Mapping[str, HostFunction] = field(default_factory=dict[str, HostFunction])
    globals: JSONObject = field(default_factory=dict[str, JSON])
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    memory_limit_bytes: int | None = None
    timeout: float | None = None


@value
class CodeLog:
    """One line that the code has written, by `console` or `print`."""

    level: LogLevel
    text: str


@value
class CodeError:
    """Why there is no result. `code` is one of the words below and stays the same.

    `error` the code has raised it, `result` its result is none that can be carried, `exited` its process has ended by
    itself; `timeout`, `memory`, and `terminated` for what somebody has ended.
    """

    code: Literal["error", "result", "exited", "timeout", "memory", "terminated"]
    message: str
    stack: str = ""

    def __str__(self) -> str:
        return self.message


@value
class CodeResult:
    """What came of the code: `result` for `success`, else `error`. `logs` are those until then."""

    status: CodeStatus
    result: JSON = None
    error: CodeError | None = None
    logs: tuple[CodeLog, ...] = ()
    duration_ms: float = 0.0


@value
class CodeLimits:
    """How far code may go: seconds, and bytes.

    `timeout` and `memory` hold where the options name none, and these may name no more than `longest` and
    `most_memory`. `source` counts everything that goes in, `result` each value that comes out, also one argument list
    of a host's function; of what is logged the first `logs` bytes are kept.
    """

    timeout: float = 30.0
    longest: float = 600.0
    memory: int = 64 * 1024 * 1024
    least_memory: int = 16 * 1024 * 1024
    most_memory: int = 512 * 1024 * 1024
    source: int = 1024 * 1024
    result: int = 1024 * 1024
    logs: int = 256 * 1024


def ended(error: CodeError) -> CodeResult:
    """The outcome of code that has no result."""
    return CodeResult(status="error" if error.code in _OWN_FAULTS else "terminated", error=error)


_OWN_FAULTS = ("error", "result", "exited")


class CodeHandle(Protocol):
    """Code that runs. Awaited, it gives the outcome; to cancel who awaits it, or to forget it, ends the code."""

    def __await__(self) -> Generator[Any, None, CodeResult]:  # what it yields is the event loop's own
        """What came of the code. Never raises for the code's own faults."""
        ...

    def terminate(self, reason: str = "Terminated.") -> None:
        """End the code: its outcome is `terminated` for that reason, unless it has one already."""
        ...


def on_a_loop() -> None:
    """Raise `InvalidRequest` in a thread: nobody could await there what is begun."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise InvalidRequest("Code is run from an async handler, and this one is a plain function.") from None


class Sandbox(Protocol):
    """Runs code that nobody trusts: without files, network, environment, or anything of another run."""

    def start(self, source: str, options: CodeOptions) -> CodeHandle:
        """Run the code, from now on. Raises `InvalidRequest` for options, `MissingExtra` without the library."""
        ...

    async def close(self) -> None:
        """End all that runs."""
        ...
