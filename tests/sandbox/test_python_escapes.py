"""Escape attempts from the Python interpreter."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.sandbox.rig import children, run, sandbox
from toolwright.wiring.executors import CodeSandbox

pytestmark = pytest.mark.anyio
SECRET = "a secret of the host"
WALKS = (
    "().__class__.__bases__[0].__subclasses__()",
    "().__class__.__mro__",
    "type(()).__subclasses__()",
    "getattr((), '__cl' + 'ass__')",
    "getattr(object, '__subclasses__')()",
    "(lambda: 0).__globals__",
    "(lambda: 0).__code__",
    "weather.__globals__",
    "weather.__self__",
    "weather.__code__.co_filename",
    "getattr(weather, '__func__')",
    "print.__self__",
    "__builtins__",
    "__loader__",
    "__spec__",
    "__file__",
    "globals()",
    "vars()",
    "'{0.__class__.__init__.__globals__}'.format(weather)",
    "'{0.__self__}'.format(print)",
    "f'{weather.__globals__}'",
    "(x for x in [1]).gi_frame.f_back",
    "weather(1).cr_frame.f_globals",
    "eval('__builtins__')",
    "exec('import os\\nos.system(\"true\")')",
    "breakpoint()",
    "input()",
    "help()",
    "exit()",
    "quit()",
    "compile('1', '', 'eval')",
    "memoryview(b'x').obj.__class__",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame.f_globals",
    "class A:\n    def __del__(self): open('/etc/passwd')\nA().__class__.__base__.__subclasses__()",
)


@pytest.fixture
async def box() -> AsyncGenerator[CodeSandbox]:
    async with sandbox() as made:
        yield made


async def weather(place: object) -> str:
    return "sun"


@pytest.mark.parametrize("walk", WALKS)
async def test_no_walk_over_names_leads_out(box: CodeSandbox, walk: str) -> None:
    outcome = await run(box, walk, language="python", imports={"weather": weather}, timeout=10)
    told = str(outcome)
    assert outcome.status == "error" or outcome.result in (None, [], {}) or "sandbox" not in told, told
    for ours in ("toolwright", "site-packages", "tests", "asyncio.", "/usr/lib"):
        assert ours not in told.replace(walk, "")


@pytest.mark.parametrize(
    "module",
    ["subprocess", "socket", "ctypes", "multiprocessing", "threading", "importlib", "urllib.request", "http.client",
     "shutil", "tempfile", "inspect", "gc", "pickle", "builtins", "signal", "resource", "fcntl", "mmap", "toolwright"],
)  # fmt: skip
async def test_modules_that_reach_outside_are_not_there(box: CodeSandbox, module: str) -> None:
    outcome = await run(box, f"import {module}\n{module}", language="python")
    assert outcome.error is not None and "ModuleNotFoundError" in outcome.error.message
    outcome = await run(box, f"__import__({module!r})", language="python")
    assert outcome.error is not None and outcome.error.code == "error"


async def test_files_and_environment_are_not_there(
    box: CodeSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWRIGHT_TEST_SECRET", SECRET)
    kept, made = tmp_path / "secret.txt", tmp_path / "made.txt"
    kept.write_text(SECRET, encoding="utf-8")
    for source in (
        f"open({str(kept)!r}).read()",
        f"open({str(made)!r}, 'w').write('x')",
        f"from pathlib import Path\nPath({str(kept)!r}).read_text()",
        f"from pathlib import Path\nPath({str(made)!r}).write_text('x')",
        f"from pathlib import Path\nPath({str(kept)!r}).exists()",
        f"import os\nos.listdir({str(tmp_path)!r})",
        "import os\nos.environ['TOOLWRIGHT_TEST_SECRET']",
        "import os\nos.getenv('TOOLWRIGHT_TEST_SECRET')",
        "import os\nos.system('true')",
        "import os\nos.fork()",
        "import os\nos.kill(os.getppid(), 15)",
        "import sys\nsys.modules",
        "import sys\nsys._getframe()",
        "open('/proc/self/environ').read()",
        "open(1, 'w').write('x')",
    ):
        outcome = await run(box, source, language="python")
        assert outcome.status == "error" or outcome.result in (None, False), source
        assert SECRET not in str(outcome)
    assert not made.exists()


@pytest.mark.parametrize(
    ("source", "ends"),
    [
        ("def deeper(): deeper()\ndeeper()", {"error"}),
        ("x = 'x'\nwhile True: x += x", {"memory"}),
        ("[0] * 10 ** 12", {"memory"}),
        ("'x' * 10 ** 12", {"memory"}),
        ("9 ** 9 ** 9", {"memory", "timeout", "error"}),
        ("x = []\nwhile True: x = [x]", {"memory", "timeout"}),
        ("list(range(10 ** 12))", {"memory", "timeout"}),
        ("'%1000000000d' % 1", {"memory", "error", "result"}),
        ("f'{1:1000000000}'", {"memory", "error", "result"}),
        ("'x'.ljust(10 ** 11)", {"memory", "error"}),
        ("sum(1 for _ in range(10 ** 12))", {"memory", "timeout"}),
        ("import re\nre.match('(a|a)*b', 'a' * 5000)\nwhile True: pass", {"timeout", "error"}),
        ("import time\nwhile True: time.sleep(0.01)", {"timeout", "error"}),
        ("import asyncio\nawait asyncio.sleep(1000)", {"timeout", "error"}),
        ("raise SystemExit(0)", {"error"}),
        ("raise KeyboardInterrupt", {"error"}),
        ("try:\n    while True: pass\nexcept BaseException:\n    while True: pass", {"timeout"}),
        ("(" * 5000 + ")" * 5000, {"error", "exited"}),
        ("-" * 100_000 + "1", {"error", "exited"}),
    ],
)
async def test_what_has_no_measure_ends_for_a_reason(box: CodeSandbox, source: str, ends: set[str]) -> None:
    before = children()
    outcome = await run(box, source, language="python", timeout=0.7 if "timeout" in ends else 20)
    assert outcome.error is not None and outcome.error.code in ends, outcome
    assert (await run(box, "1", language="python")).result == 1, "others go on"
    async with asyncio.timeout(10):
        while len(children() - before) > 1:  # noqa: ASYNC110 - the kernel sends no notification
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise SystemExit(1)", "SystemExit: 1"),
        ("x = 5\nraise  SystemExit( -2 )", "SystemExit: -2"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("raise SystemExit", "SystemExit"),
        ("raise KeyError('ZZ')", "KeyError: ZZ"),
        ("raise ValueError(None)", "ValueError: None"),
    ],
)
async def test_what_is_raised_reads_as_what_it_is(box: CodeSandbox, source: str, message: str) -> None:
    outcome = await run(box, source, language="python")
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("error", message)
    assert outcome.error.stack.endswith(message)


async def test_an_exception_that_cannot_be_made_says_how_one_is_made(box: CodeSandbox) -> None:
    outcome = await run(box, "x = 3\nraise ValueError(x)", language="python")
    assert outcome.error is not None
    assert outcome.error.message == (
        "RuntimeError: An exception takes at most one argument here, a string, as in `raise ValueError('text')`."
    )


@pytest.mark.parametrize(
    "source", ["import time\ntime.sleep(100)", "import asyncio\nawait asyncio.sleep(100)"]
)
async def test_a_sleep_beyond_the_time_is_a_timeout(box: CodeSandbox, source: str) -> None:
    outcome = await run(box, source, language="python", timeout=0.5)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("terminated", "timeout")
    assert outcome.error.message == "The code ran for more than 0.5 s."
