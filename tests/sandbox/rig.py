"""Sandboxes for tests, and the same small programs in every language."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from toolwright.core.state.sandbox import CodeLimits, CodeResult, Language, read_options
from toolwright.wiring.executors import CodeSandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs that the tests need, in one language."""

    language: Language
    value: str  # {"answer": 42, "list": [1, null, true, "ü"]}
    add: str  # a function `add` of two numbers
    default: str  # a function `default` that returns its argument
    raises: str  # a function that raises on its second line
    broken: str  # invalid syntax
    logs: str  # writes a, then b
    ask: str  # the value of `await weather("Rome")`
    caught: str  # the message of what `refuse()` raises
    uncaught: str  # calls `refuse()`
    gather: str  # a list of `await weather(n)` for 50 numbers, all at once
    read_global: str  # the value of `given`
    leave: str  # writes a global `left`
    find: str  # whether there is a global `left`
    forever: str
    waits: str  # awaits `never()`
    greedy: str  # allocates memory without end
    noisy: str  # logs without end
    large: str  # a text of three million characters
    no_json: tuple[str, ...]
    cyclic: tuple[str, ...]  # the error of `weather` for a value that contains itself


JAVASCRIPT = Programs(
    language="javascript",
    value='export default { answer: 42, list: [1, null, true, "ü"] }',
    add="export function add(a, b) { return a + b }",
    default="export default async (given) => given",
    raises='\nfunction inner() { throw new TypeError("boom") }\nexport default () => inner()',
    broken="let x = ;",
    logs='console.log("a", { n: 1 }); console.error("b")',
    ask='import weather from "weather"; export default await weather("Rome")',
    caught='import refuse from "refuse";'
    "export default await refuse().catch((e) => `${e.constructor.name} ${e.message}`)",
    uncaught='import refuse from "refuse"; export default () => refuse()',
    gather='import weather from "weather";'
    "export default () => Promise.all([...Array(50).keys()].map((n) => weather(n)))",
    read_global="export default given",
    leave="globalThis.left = 1; Array.prototype.left = 1; export default 1",
    find='export default "left" in globalThis || "left" in []',
    forever="for (;;);",
    waits='import never from "never"; export default await never()',
    greedy="const all = []; for (;;) all.push(new Array(1000).fill(1.5))",
    noisy='for (;;) console.log("x".repeat(1000))',
    large='export default "x".repeat(3_000_000)',
    no_json=(
        "export default NaN",
        "export default { deep: [1 / 0] }",
        "export default 10n",
        "const a = []; a.push(a); export default a",
        "const a = {}; a.b = { a }; export default a",
        "export default new Map([[1, 2]])",
        "export default () => () => 1",
        "export default Symbol('x')",
        "let a = []; for (let i = 0; i < 100; i++) a = [a]; export default a",
        "export default new Uint8Array(3)",
    ),
    cyclic=tuple(
        'import weather from "weather"; let said = "";'
        f"{made}; try {{ await weather({given}) }} catch (e) {{ said = e.message }} export default said"
        for made, given in (
            ("const a = [1]; a.push(a)", "a"),
            ("const a = {}; a.b = a", "1, { c: a }"),
        )
    ),
)
TYPESCRIPT = Programs(
    language="typescript",
    value="interface A { answer: number; list: unknown[] }\n"
    'const found: A = { answer: 42, list: [1, null, true, "ü"] }; export default found',
    add="export function add(a: number, b: number): number { return a + b }",
    default="export default async <T>(given: T): Promise<T> => given",
    raises='\nfunction inner(): never { throw new TypeError("boom") }\nexport default (): void => inner()',
    broken="let x: = 1",
    logs='enum Which { A = "a" }\nconsole.log(Which.A, { n: 1 }); console.error("b")',
    ask='import weather from "weather"; export default (await weather("Rome")) as object',
    caught='import refuse from "refuse";'
    "export default await refuse().catch((e: Error) => `${e.constructor.name} ${e.message}`)",
    uncaught='import refuse from "refuse"; export default (): unknown => refuse()',
    gather='import weather from "weather";'
    "export default () => Promise.all([...Array(50).keys()].map((n: number) => weather(n)))",
    read_global="declare const given: unknown; export default given",
    leave="(globalThis as any).left = 1; export default 1",
    find='export default "left" in globalThis',
    forever="for (;;);",
    waits='import never from "never"; export default await never()',
    greedy="const all: number[][] = []; for (;;) all.push(new Array(1000).fill(1.5))",
    noisy='for (;;) console.log("x".repeat(1000) as string)',
    large='export default "x".repeat(3_000_000) as string',
    no_json=("export default NaN as number", "const a: unknown[] = []; a.push(a); export default a"),
    cyclic=tuple(
        'import weather from "weather"; let said = "";'
        f"{made}; try {{ await weather({given}) }} catch (e) {{ said = (e as Error).message }} export default said"
        for made, given in (
            ("const a: any = [1]; a.push(a)", "a"),
            ("const a: any = {}; a.b = a", "1, { c: a }"),
        )
    ),
)
PYTHON = Programs(
    language="python",
    value='{"answer": 42, "list": (1, None, True, "ü")}',
    add="def add(a, b):\n    return a + b",
    default="async def default(given):\n    return given",
    raises='def inner():\n    raise TypeError("boom")\n\ndef default():\n    inner()',
    broken="def x(:",
    logs='print("a", {"n": 1})\nimport sys\nprint("b", file=sys.stderr)',
    ask='await weather("Rome")',
    caught='try:\n    await refuse()\nexcept Exception as e:\n    caught = f"Error {e}"\ncaught',
    uncaught="async def default():\n    await refuse()",
    gather="import asyncio\nawait asyncio.gather(*[weather(n) for n in range(50)])",
    read_global="given",
    leave="left = 1",
    find="try:\n    found = left == 1\nexcept NameError:\n    found = False\nfound",
    forever="while True: pass",
    waits="await never()",
    greedy="all = []\nwhile True: all.append('x' * 1000)",
    noisy="while True: print('x' * 1000)",
    large="'x' * 3_000_000",
    no_json=(
        "float('nan')",
        "[float('inf')]",
        "b'x'",
        "10 ** 5000",
        "{(1, 2): 3}",
        "class A: pass\nA()",
        "a = []\na.append(a)\na",
        "a = {}\na['b'] = [a]\n{'c': a}",
    ),
    cyclic=tuple(
        f"{made}\ntry:\n    caught = await weather({given})\nexcept Exception as e:\n    caught = str(e)\ncaught"
        for made, given in (
            ("a = [1]\na.append(a)", "a"),
            ("a = {}\na['b'] = a", "1, {'c': a}"),
            ("a = {}\na['b'] = [(a, 2)]", "place=a"),
        )
    ),
)
LANGUAGES = (TYPESCRIPT, JAVASCRIPT, PYTHON)


@asynccontextmanager
async def sandbox(limits: CodeLimits | None = None) -> AsyncGenerator[CodeSandbox]:
    """A sandbox for all languages, with at least the default timeout."""
    made = CodeSandbox(limits)
    try:
        yield made
    finally:
        await made.close()


async def run(where: CodeSandbox, source: str, options: object = None, **more: object) -> CodeResult:
    """Return the outcome of that code."""
    return await where.start(source, read_options(options, **more))


def reason(outcome: CodeResult) -> tuple[str, str]:
    """Return the status of the outcome and its error code."""
    return outcome.status, outcome.error.code if outcome.error else ""


def children() -> set[int]:
    """Return this process's current child processes, including zombies."""
    return {child.pid for child in psutil.Process().children()}


def descriptors() -> int:
    """Return the number of open files."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as the kernel lists them


def folders(owner: int | None = None) -> set[str]:
    """Return the folders of runs, of this process or of another."""
    pid = os.getpid() if owner is None else owner
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"toolwright-code-{pid}-*")}


async def until_tidy() -> None:
    """Wait until no folder of a run is left; the clean-up of an earlier test can still be in progress."""
    async with asyncio.timeout(20):
        while folders():  # noqa: ASYNC110 - the removal of a folder sets no event
            await asyncio.sleep(0.05)
