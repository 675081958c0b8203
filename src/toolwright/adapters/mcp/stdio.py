"""MCP over the standard input and output of a process of ours: lines of JSON, none of them too long."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from toolwright.adapters.mcp.peer import MAX_MESSAGE, Refused, check_values
from toolwright.core.env.logs import logger
from toolwright.core.mcp.servers import McpUnavailable
from toolwright.core.text import first_error

log = logger("toolwright.mcp.stdio")

PIECE = 64 * 1024
END_GRACE = 2.0
"""Seconds that a process has to end after its input was closed, and again after a SIGTERM."""
REAPED = 30.0  # seconds after a SIGKILL until the process is seen to have ended, on a busy machine
MOST_JUNK = 20  # lines that are no JSON, logged of one process
LONGEST_SHOWN = 500  # characters of a line in the log


@asynccontextmanager
async def stdio_streams(
    name: str, command: list[str], env: Mapping[str, str], clean: Callable[[str], str]
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """Streams of a process in a session of its own, which is ended with all that it has begun.

    Its standard error goes to the log, `clean`, and what it writes that is no message. Raises `OSError` where it cannot
    be started, `McpUnavailable` where it has ended before the block has.
    """
    process = await _started(command, env)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(name, process, incoming, clean), name=f"mcp-stdout-{name}"),
        asyncio.create_task(_write(process, outgoing, incoming), name=f"mcp-stdin-{name}"),
        asyncio.create_task(_log_errors(name, process, clean), name=f"mcp-stderr-{name}"),
    ]
    try:
        yield received, sent
    except (MCPError, BaseExceptionGroup) as error:
        if _is_closed(error) and await _ended(process, END_GRACE):
            raise McpUnavailable(f"its process has ended, with the exit code {process.returncode}") from error
        raise
    finally:
        ending = asyncio.ensure_future(_end(process, tasks))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise
        finally:
            for stream in (incoming, received, sent, outgoing):
                stream.close()


def _is_closed(error: BaseException) -> bool:
    cause = first_error(error)
    return isinstance(cause, MCPError) and cause.error.code == types.CONNECTION_CLOSED


async def _started(command: list[str], env: Mapping[str, str]) -> asyncio.subprocess.Process:
    """The process. One that is cancelled while it starts is killed once it has: asyncio would leave its pipes open."""
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**get_default_environment(), **env},
            start_new_session=True,
            limit=PIECE,
        ),
        name="mcp-process-start",
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            process = await starting
            _signal(process, signal.SIGKILL)
            await _ended(process, REAPED)
            process._transport.close()  # type: ignore[attr-defined]  # as below
        raise


async def _read(
    name: str,
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    clean: Callable[[str], str],
) -> None:
    """Hand on the messages that the process writes, until it closes its output or writes one that is too large."""
    assert process.stdout is not None, "it was started with pipes"
    buffer, junk = bytearray(), 0
    async with incoming:
        while piece := await process.stdout.read(PIECE):
            *lines, rest = piece.split(b"\n")
            for line in lines:
                buffer += line
                try:
                    message = await _message(bytes(buffer))
                except Refused as refused:
                    log.warning("The MCP server %r is left: %s", name, refused)
                    return
                buffer.clear()
                if isinstance(message, SessionMessage):
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await incoming.send(message)
                elif message is not None and junk < MOST_JUNK:
                    junk += 1
                    log.warning("The MCP server %r wrote what is no message: %s", name, clean(message))
            buffer += rest
            if len(buffer) > MAX_MESSAGE:
                log.warning("The MCP server %r wrote a line of more than %d bytes.", name, MAX_MESSAGE)
                return


async def _message(line: bytes) -> SessionMessage | str | None:
    """The message of a line; the beginning of a line that holds none; None for an empty one. Raises `Refused`."""
    if not line.strip():
        return None
    try:
        await check_values(line)
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return line[:LONGEST_SHOWN].decode("utf-8", "replace")


async def _write(
    process: asyncio.subprocess.Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None, "it was started with pipes"
    try:
        async with outgoing:
            async for each in outgoing:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:
        incoming.close()  # nobody answers any more


async def _log_errors(name: str, process: asyncio.subprocess.Process, clean: Callable[[str], str]) -> None:
    """Lines of its standard error, for whoever looks for a fault; more than a line's worth at once is cut."""
    assert process.stderr is not None, "it was started with pipes"
    while piece := await process.stderr.read(PIECE):
        said = clean(piece[:LONGEST_SHOWN].decode("utf-8", "replace").rstrip())
        log.debug("MCP server %r: %s", name, said)


async def _end(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]]) -> None:
    """Close its input, wait, ask it to end, wait, kill it; and whatever it has left of its session."""
    tasks[1].cancel()
    if process.stdin is not None:
        process.stdin.close()
    drain = asyncio.create_task(_drain(process, tasks[0]))  # one that cannot write does not end
    try:
        if not await _ended(process, END_GRACE):
            _signal(process, signal.SIGTERM)
            await _ended(process, END_GRACE)
        _signal(process, signal.SIGKILL)
        await _ended(process, REAPED)
    finally:
        for task in (*tasks, drain):
            task.cancel()
        await asyncio.wait([*tasks, drain])
        process._transport.close()  # type: ignore[attr-defined]  # a child of it may hold its pipes


async def _drain(process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    reading.cancel()
    await asyncio.wait([reading])
    assert process.stdout is not None, "it was started with pipes"
    while await process.stdout.read(PIECE):
        pass


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Return whether it ends in time. `wait` alone would also wait for children that hold its pipes."""
    until = asyncio.get_running_loop().time() + seconds
    while process.returncode is None and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
