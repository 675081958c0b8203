"""Code execution in a sandbox: source, options, result and limits."""

import asyncio
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import fields
from math import inf
from typing import Any, Literal, Protocol, TypeAlias, cast

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.json_value import JSON, NOT_WRITABLE, JSONObject, dumps, plain, unwritable
from toolwright.core.text import quantity
from toolwright.core.value import Value, changed, field

Language: TypeAlias = Literal["typescript", "javascript", "python"]
CodeStatus: TypeAlias = Literal["success", "error", "terminated"]
LogLevel: TypeAlias = Literal["debug", "log", "info", "warn", "error"]
HostFunction: TypeAlias = Callable[..., object]
"""A function of the host that the code can call. It returns JSON, or an awaitable of JSON."""
_OWN_FAULTS = ("error", "result", "exited")
LANGUAGES: Mapping[Language, str] = {"typescript": "main.ts", "javascript": "main.js", "python": "main.py"}
"""The languages, with the default file name of the code."""
_HUMPS = {"memoryLimitBytes": "memory_limit_bytes"}


class Execute(Value):
    """The call made after the code is loaded: an export, or in Python a function, by name."""

    fn: str = "default"
    args: tuple[JSON, ...] = ()


class CodeOptions(Value, gc=True):
    """Options of running code. The sandbox replaces each None by a default.

    `filename` is the name of the code in stack traces. `imports` are functions of the host and `modules` sources of the
    same language; the code imports both by name. `globals` are JSON values. `timeout` is in seconds and includes the
    time of the host's functions.
    """

    language: Language = "typescript"
    filename: str | None = None
    execute: Execute | None = None
    imports: Mapping[str, HostFunction] = field(default_factory=dict[str, HostFunction])
    globals: JSONObject = field(default_factory=dict[str, JSON])
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    memory_limit_bytes: int | None = None
    timeout: float | None = None


class CodeLog(Value):
    """One line written by the code with `console` or `print`."""

    level: LogLevel
    text: str


class CodeError(Value):
    """An error in place of a result. `code` is stable.

    `error`: the code raised it. `result`: its result cannot be serialized. `exited`: its process exited by itself.
    `timeout`, `memory`: it exceeded a limit. `terminated`: it was ended from outside.
    """

    code: Literal["error", "result", "exited", "timeout", "memory", "terminated"]
    message: str
    stack: str = ""

    def __str__(self) -> str:
        return self.message


class CodeResult(Value):
    """The outcome of running code: `result` if `success`, otherwise `error`. `logs` are all lines that it wrote."""

    status: CodeStatus
    result: JSON = None
    error: CodeError | None = None
    logs: tuple[CodeLog, ...] = ()
    duration_ms: float = 0.0


class CodeLimits(Value):
    """Limits of running code: seconds, and bytes.

    `timeout` and `memory` are defaults, `longest` and `most_memory` the maximum that the options can set. `source`
    limits the size of all input. `result` limits each returned value and each argument list of a host's function. The
    first `logs` bytes of the logs are kept.
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
    """Return the outcome of code without a result."""
    return CodeResult(status="error" if error.code in _OWN_FAULTS else "terminated", error=error)


class CodeHandle(Protocol):
    """Code in execution. Await it for the outcome.

    Cancelling the awaiting task, or dropping the handle, ends the code.
    """

    def __await__(self) -> Generator[Any, None, CodeResult]:  # yields values of the event loop
        """Wait for the result of the code. Errors of the code itself are not raised."""
        ...

    def terminate(self, reason: str = "Terminated.") -> None:
        """End the code. Its outcome is `terminated` with that reason, unless it has ended before."""
        ...


def on_a_loop() -> None:
    """Raise `InvalidRequest` in a thread without an event loop, which could not await the code."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise InvalidRequest(
            "Code can only be run from an async handler, and this one is a plain function."
        ) from None


class Sandbox(Protocol):
    """Runs untrusted code, without files, network or environment and isolated from other runs."""

    def start(self, source: str, options: CodeOptions) -> CodeHandle:
        """Start to run the code. Raises `InvalidRequest` for invalid options, `MissingExtra` without the library."""
        ...

    async def close(self) -> None:
        """End all running code."""
        ...


_NAME = re.compile(r"[A-Za-z_$@][\w$@.-]{0,99}(/[\w$@.-]{1,100})?", re.ASCII)
_GLOBAL = re.compile(r"[A-Za-z_$][\w$]{0,99}", re.ASCII)
_FILENAME = re.compile(r"[^\x00-\x1f\x7f:\"<>|?*\\]{1,200}")
_Reader: TypeAlias = Callable[[object], object]


def read_options(options: object = None, **more: object) -> CodeOptions:
    """Return the options from a `CodeOptions`, a mapping in snake_case or camelCase, keywords, or both.

    Raises `InvalidRequest` for the first error.
    """
    read: dict[str, Any] = {}  # the readers return values that fit the fields
    for name, option in {**_option_values(options), **more}.items():
        field = _HUMPS.get(name, name)
        reader = _READERS.get(field)
        if reader is None:
            raise InvalidRequest(f"run_code has no option {name!r}. Options: {', '.join(_READERS)}.")
        if option is not None:
            read[field] = reader(option)
    validated = CodeOptions(**read)
    _agree(validated)
    return validated


def admit(source: object, options: CodeOptions, limits: CodeLimits) -> tuple[str, CodeOptions]:
    """Return the source and its options with all defaults, within the limits. Raises `InvalidRequest`."""
    if not isinstance(source, str) or unwritable(source):
        raise InvalidRequest(f"The code {NOT_WRITABLE}, not {brief_value(source)}.")
    options = read_options(options)
    timeout = min(limits.timeout, limits.longest) if options.timeout is None else options.timeout
    memory = limits.memory if options.memory_limit_bytes is None else options.memory_limit_bytes
    if timeout > limits.longest:
        raise InvalidRequest(
            f"Code may run for {quantity(limits.longest, 'second')} at most, not for {timeout!r}."
        )
    if not limits.least_memory <= memory <= limits.most_memory:
        raise InvalidRequest(
            f"Code may have from {limits.least_memory} to {limits.most_memory} bytes of memory, not {memory!r}."
        )
    size = _size(source, options)
    if size > limits.source:
        raise InvalidRequest(
            f"The code with its modules, globals and arguments has {quantity(size, 'byte')}, "
            f"and {limits.source} are allowed."
        )
    filename = options.filename or LANGUAGES[options.language]
    return source, changed(options, timeout=float(timeout), memory_limit_bytes=memory, filename=filename)


def _option_values(options: object) -> Mapping[str, object]:
    if options is None:
        return {}
    if isinstance(options, CodeOptions):
        return {each.name: getattr(options, each.name) for each in fields(options)}
    if isinstance(options, Mapping):
        return cast("Mapping[str, object]", options)  # names that are not text are rejected as unknown
    raise InvalidRequest(
        f"The options of run_code must be a mapping or CodeOptions, not {brief_value(options)}."
    )


def _agree(options: CodeOptions) -> None:
    """Raise `InvalidRequest` for options that contradict each other."""
    both = sorted(options.imports.keys() & options.modules.keys())
    if both:
        raise InvalidRequest(f"The name {both[0]!r} is both an import and a module. Rename one of them.")
    if options.language != "python":
        return
    if options.modules:
        raise InvalidRequest(
            "The option 'modules' is not supported for Python: put all code into the source."
        )
    for name in (*options.imports, *options.globals):
        if not name.isidentifier():
            raise InvalidRequest(f"A name for Python code must be an identifier, not {name!r}.")


def _size(source: str, options: CodeOptions) -> int:
    execute = options.execute or Execute()
    parts = [
        source,
        *options.modules,
        *options.modules.values(),
        dumps(options.globals),
        dumps([*execute.args]),
    ]
    return sum(len(part.encode()) for part in parts)


def _language(value: object) -> object:
    if not isinstance(value, str) or value not in LANGUAGES:
        raise InvalidRequest(
            f"The option 'language' must be one of {', '.join(LANGUAGES)}, not {brief_value(value)}."
        )
    return value


def _filename(value: object) -> object:
    if not isinstance(value, str) or not _FILENAME.fullmatch(value) or unwritable(value):
        raise InvalidRequest(
            f"The option 'filename' must be a short name such as 'main.ts', not {brief_value(value)}."
        )
    return value


def _execute(value: object) -> object:
    if isinstance(value, Execute):
        value = {"fn": value.fn, "args": value.args}
    if not isinstance(value, Mapping):
        raise InvalidRequest(
            f"The option 'execute' must be a mapping with 'fn' and 'args', not {brief_value(value)}."
        )
    fields = cast("Mapping[object, object]", value)
    for name in fields:
        if name not in ("fn", "args"):
            raise InvalidRequest(
                f"The option 'execute' has only the fields 'fn' and 'args', and no {name!r}."
            )
    name, args = fields.get("fn", "default"), fields.get("args", ())
    if not isinstance(name, str) or not _GLOBAL.fullmatch(name):
        raise InvalidRequest(
            f"The option 'execute.fn' must be the name of an export, not {brief_value(name)}."
        )
    if not isinstance(args, list | tuple):
        raise InvalidRequest(
            f"The option 'execute.args' must be a list of JSON values, not {brief_value(args)}."
        )
    listed = list(cast("Sequence[object]", args))  # isinstance does not check the items
    return Execute(fn=name, args=tuple(cast("list[JSON]", _json("execute.args", listed))))


def _imports(value: object) -> object:
    functions = _mapping("imports", value, "of functions by name", _NAME)
    for name, function in functions.items():
        if not callable(function):
            raise InvalidRequest(
                f"The import {name!r} must be a function, async or not, not {brief_value(function)}."
            )
    return cast("dict[str, HostFunction]", functions)


def _globals(value: object) -> object:
    values = _mapping("globals", value, "of JSON values by name", _GLOBAL)
    return cast("JSONObject", _json("globals", values))


def _modules(value: object) -> object:
    sources = _mapping("modules", value, "of sources by name", _NAME)
    for name, source in sources.items():
        if not isinstance(source, str) or unwritable(source):
            raise InvalidRequest(f"The module {name!r} {NOT_WRITABLE}, not {brief_value(source)}.")
    return sources


def _memory(value: object) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(
            f"The option 'memory_limit_bytes' must be a whole number, not {brief_value(value)}."
        )
    return value


def _timeout(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf:
        return value
    raise InvalidRequest(
        f"The option 'timeout' must be a number of seconds above 0, not {brief_value(value)}."
    )


def _mapping(option: str, value: object, expected: str, name: re.Pattern[str]) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"The option {option!r} must be a mapping {expected}, not {brief_value(value)}.")
    entries = cast("Mapping[object, object]", value)
    for each in entries:
        if not isinstance(each, str) or not name.fullmatch(each) or each == "__proto__":
            raise InvalidRequest(
                f"A name in the option {option!r} must be like 'weather', not {brief_value(each)}."
            )
    return {str(each): item for each, item in entries.items()}


def _json(option: str, value: object) -> JSON:
    try:
        return plain(value)
    except InvalidJSON as error:
        raise InvalidRequest(f"The option {option!r} must be JSON: {error}") from error


_READERS: Mapping[str, _Reader] = {
    "language": _language,
    "filename": _filename,
    "execute": _execute,
    "imports": _imports,
    "globals": _globals,
    "modules": _modules,
    "memory_limit_bytes": _memory,
    "timeout": _timeout,
}
