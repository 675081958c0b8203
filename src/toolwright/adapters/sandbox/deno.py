"""JavaScript and TypeScript sandbox: one Deno process per execution, with no permissions."""

import asyncio
import json
import logging
import re
import signal
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from deno import find_deno_bin  # type: ignore[import-untyped]  # the wheel has no types

from toolwright.adapters.sandbox.handle import CodeExecutions, Handle, Log
from toolwright.adapters.sandbox.process import (
    THREADS,
    HostFunctions,
    MemoryWatch,
    Talk,
    limit,
    longest_line,
    opened,
    out_of_memory_kills,
    sweep,
)
from toolwright.core.concurrency import DaemonThreads
from toolwright.core.state.sandbox import CodeError, CodeLimits, CodeOptions, CodeResult, admit, ended
from toolwright.core.text import brief
from toolwright.core.value import changed

FLAGS = (
    "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--no-code-cache", "--cached-only", "--quiet",
)  # fmt: skip
_NODE_MODULES = """_http_agent _http_common _http_outgoing _http_server _stream_duplex _stream_passthrough
_stream_readable _stream_transform _stream_writable _tls_common _tls_wrap assert assert/strict async_hooks buffer
child_process cluster console constants crypto dgram diagnostics_channel dns dns/promises domain events fs fs/promises
http http2 https inspector inspector/promises module net os path path/posix path/win32 perf_hooks process punycode
querystring readline readline/promises repl sqlite stream stream/consumers stream/promises stream/web string_decoder sys
test test/reporters timers timers/promises tls trace_events tty url util util/types v8 vm wasi worker_threads zlib"""
NODE_MODULES = tuple(_NODE_MODULES.split())
_TYPES = {"typescript": "application/typescript", "javascript": "text/javascript"}
_DATA = 800 * 1000 * 1000  # bytes, most of them reserved by V8; enough for the default heap
_SOURCE = re.compile(r"data:[\w/.+-]+;source=(\w+);base64,[A-Za-z0-9+/=.]*")
_INTERNAL_FRAME = re.compile(r"\n {1,9}at [^\n]*(?:;source=runner;|\(?(?:ext|node|file):)[^\n]*")
_CLOSED = re.compile(r'Unsupported scheme "none" for module "none:[^"]*"\. Supported schemes:(?:\n - "\w+")*')
_RUNNER = Path(__file__).with_name("runner.mjs")
_STDERR = 16 * 1024  # bytes kept of V8's output on a crash
_NO_MEMORY = re.compile(rb"out of memory|memory allocation of \d+ bytes failed", re.IGNORECASE)
_log = logging.getLogger(__name__)


class DenoSandbox:
    """The `Sandbox` port for JavaScript and TypeScript. It needs Linux, and the extra `sandbox`.

    Limits of the code are enforced by the kernel and by this process. The Deno process has no permissions, and of its
    output only calls of the functions named in the options have an effect. `deno` is the path of another program to
    use.
    """

    def __init__(self, limits: CodeLimits | None = None, deno: str | None = None) -> None:
        self._limits = limits or CodeLimits()
        self._deno = deno or str(find_deno_bin())
        self._runner = _data_url(_RUNNER.read_text(encoding="utf-8"), "text/javascript", "runner")
        self._threads = DaemonThreads(THREADS, "toolwright-code")
        self._runs = CodeExecutions()
        sweep()

    def start(self, source: str, options: CodeOptions) -> Handle:
        """Run the code. Raises `InvalidRequest` if it exceeds the limits."""
        source, options = admit(source, options, self._limits)
        names = SourceNames(options)
        log = Log(self._limits.logs, names.put_into)
        assert options.timeout is not None
        return self._runs.start(partial(self._carry_out, source, options, names), log, options.timeout)

    async def close(self) -> None:
        """End all executions."""
        await self._runs.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _carry_out(
        self, source: str, options: CodeOptions, names: "SourceNames", log: Log
    ) -> CodeResult:
        try:
            return await self._run(source, options, names, log)
        except OSError as error:
            _log.warning("A sandbox process could not be started: %s", error)
            return ended(
                CodeError(
                    code="exited", message="The code was not executed: no sandbox process could be started."
                )
            )

    async def _run(self, source: str, options: CodeOptions, names: "SourceNames", log: Log) -> CodeResult:
        memory = options.memory_limit_bytes
        assert memory is not None
        files = {"imports.json": json.dumps({"imports": names.import_map(source)})}
        hosted = HostFunctions(options.imports, self._threads, self._limits.result)
        longest, kills = longest_line(self._limits.result), out_of_memory_kills()
        async with opened(partial(self._command, memory), _environment, files, longest) as process:
            self._bound(process.pid, options)
            watched = MemoryWatch(process.pid, memory)
            talk = Talk(process, hosted, log, self._limits.result)
            async with asyncio.TaskGroup() as helpers:
                last_words = helpers.create_task(_stderr_text(process))
                watch = helpers.create_task(watched.watch())
                await talk.begin(options, self._limits.logs)
                outcome = await talk.outcome()
                watch.cancel()
                if outcome is None:
                    outcome = exit_result(
                        await process.wait(),
                        await last_words,
                        memory,
                        exceeded=watched.exceeded,
                        system_short=out_of_memory_kills() > kills,
                    )
                last_words.cancel()
            return _with_source_names(outcome, names)

    def _command(self, memory: int, folder: Path) -> Sequence[str]:
        heap = f"--v8-flags=--max-heap-size={memory >> 20},--single-threaded-gc"
        return [self._deno, "run", *FLAGS, heap, f"--import-map={folder / 'imports.json'}", self._runner]

    def _bound(self, pid: int, options: CodeOptions) -> None:
        """Limit the process before it receives the code."""
        assert options.timeout is not None and options.memory_limit_bytes is not None
        more = max(0, options.memory_limit_bytes - CodeLimits().memory)
        limit(pid, _DATA + more, int(2 * options.timeout) + 5)


class SourceNames:
    """Names of an execution's sources, as used in the process and as shown to users."""

    def __init__(self, options: CodeOptions) -> None:
        self._options = options
        self._filenames = [options.filename or "", *options.modules]

    def import_map(self, source: str) -> dict[str, str]:
        """Return the import map of all importable modules. It blocks files and Node modules before Deno checks them."""
        options = self._options
        media = _TYPES[options.language]
        closed = {f"node:{name}": "none:node" for name in NODE_MODULES}
        sources = [
            _data_url(text, media, str(n)) for n, text in enumerate([source, *options.modules.values()])
        ]
        return {
            **closed,
            "file:///": "none:///",
            **{name: _data_url(_import(name), "text/javascript", "runner") for name in options.imports},
            **dict(zip(options.modules, sources[1:], strict=True)),
            "code:main": sources[0],
        }

    def put_into(self, text: str) -> str:
        """Rewrite a stack trace with the user's function names and without internal frames."""
        if ":" not in text:
            return text
        ours_gone = _INTERNAL_FRAME.sub("", _CLOSED.sub("No module of that name can be imported.", text))
        return _SOURCE.sub(self._source_name, ours_gone).replace("code:main", self._filenames[0])

    def _source_name(self, match: re.Match[str]) -> str:
        number = match[1]
        is_file = number.isdecimal() and int(number) < len(self._filenames)
        return self._filenames[int(number)] if is_file else "the sandbox"


def _import(name: str) -> str:
    """Return the module source that forwards to a function of the host."""
    call = 'const call = globalThis[Symbol.for("toolwright.call")];'
    return f"{call}export default (...args) => call({json.dumps(name)}, args);"


def _data_url(source: str, media: str, name: str) -> str:
    return f"data:{media};source={name};base64,{b64encode(source.encode()).decode()}"


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of the process: a separate folder, and none of this process's variables."""
    return {"DENO_DIR": str(folder), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"}


async def _stderr_text(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr is not None
    tail = b""
    while chunk := await process.stderr.read(65536):
        tail += chunk[: _STDERR - len(tail)]
    return tail


def exit_result(status: int, stderr: bytes, memory: int, *, exceeded: bool, system_short: bool) -> CodeResult:
    """Return the result of a process that ended without an outcome.

    `exceeded` is true if it was killed for its memory, `system_short` if the kernel killed processes meanwhile because
    the machine or the container had no memory left.
    """
    # An abort without a message had no memory to write one.
    if exceeded or _NO_MEMORY.search(stderr) or (status == -signal.SIGABRT and not stderr.strip()):
        message = f"The code used more than the allowed {memory} bytes of memory."
        return ended(CodeError(code="memory", message=message))
    if status == -signal.SIGKILL and system_short:
        message = "The system ran out of memory and killed the code's process."
        return ended(CodeError(code="memory", message=message))
    last_output = brief(stderr.decode(errors="replace"))
    _log.warning("A sandbox process exited with status %d: %s", status, last_output)
    return ended(CodeError(code="exited", message=f"The code's process exited with status {status}."))


def _with_source_names(outcome: CodeResult, names: SourceNames) -> CodeResult:
    error = outcome.error
    if error is None:
        return outcome
    cleaned = changed(error, message=names.put_into(error.message), stack=names.put_into(error.stack))
    return changed(outcome, error=cleaned)
