"""Escape attempts in JavaScript: no files, network, environment, processes, and no forged messages of ours."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from deno import find_deno_bin  # type: ignore[import-untyped]  # the wheel has no types

from tests.behaviour.marks import requirement
from tests.sandbox.rig import children, folders, reason, run, sandbox, until_tidy
from toolwright.adapters.sandbox.deno import FLAGS
from toolwright.core.state.sandbox import CodeLimits, read_options
from toolwright.wiring.executors import CodeSandbox

pytestmark = pytest.mark.anyio
HOME = os.path.expanduser("~")  # noqa: PTH111 - text to look for, not a path to open
SECRET = "a secret of the host"


@pytest.fixture
async def box() -> AsyncGenerator[CodeSandbox]:
    async with sandbox() as made:
        yield made


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file and an environment variable that hold a secret."""
    monkeypatch.setenv("TOOLWRIGHT_TEST_SECRET", SECRET)
    path = tmp_path / "secret.json"
    path.write_text(f'"{SECRET}"', encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "Deno", "process", "fetch", "WebSocket", "EventSource", "Worker", "SharedWorker", "localStorage", "caches",
        "sessionStorage", "BroadcastChannel", "navigator", "location", "prompt", "close", "require", "global", "window",
        "indexedDB", "WebSocketStream", "name", "nodeBootstrap", "XMLHttpRequest", "Storage", "Request",
    ],
)  # fmt: skip
async def test_what_reaches_outside_is_not_even_there(box: CodeSandbox, name: str) -> None:
    outcome = await run(box, f"export default [typeof {name}, {name!r} in globalThis]")
    assert outcome.result == ["undefined", False]


@pytest.mark.parametrize(
    "specifier",
    [
        "https://example.com/x.js", "http://127.0.0.1:1/x.js", "npm:cowsay", "jsr:@std/fs", "node:fs", "node:process",
        "node:os", "node:net", "node:child_process", "node:worker_threads", "node:dns/promises", "node:module",
        "node:sqlite", "node:v8", "node:vm", "ext:core/mod.js", "fs", "./x.js", "/etc/passwd", "blob:null/1",
    ],
)  # fmt: skip
async def test_nothing_can_be_imported_but_what_the_options_name(box: CodeSandbox, specifier: str) -> None:
    for source in (
        f"import * as all from {specifier!r}; export default Object.keys(all)",
        f"export default await import({specifier!r})",
        f"const at = 3; export default await import({specifier[:3]!r} + {specifier[3:]!r})",
    ):
        outcome = await run(box, source, language="javascript")
        assert reason(outcome) == ("error", "error"), source


async def test_files_are_not_read_by_any_kind_of_import(box: CodeSandbox, kept: Path) -> None:
    url = kept.as_uri()
    for kind in ("json", "text", "bytes"):
        for source in (
            f'import all from "{url}" with {{ type: "{kind}" }}; export default all',
            f'export default await import("{url}", {{ with: {{ type: "{kind}" }} }})',
            f'export default await import("data:text/javascript,import a from %22{url}%22 with {{type: %22{kind}%22}};'
            'export default a")',
            f'const all = new Blob([`export {{ default }} from "{url}"`], {{ type: "text/javascript" }});'
            "export default await import(URL.createObjectURL(all))",
            f'export default await import("FILE:" + "{url}".substring(5), {{ with: {{ type: "{kind}" }} }})',
            f'export default await import("file://localhost{kept}", {{ with: {{ type: "{kind}" }} }})',
        ):
            outcome = await run(box, source, language="javascript")
            assert outcome.status == "error", source
            assert SECRET not in str(outcome)


async def test_the_existence_of_a_file_is_not_revealed(box: CodeSandbox, kept: Path) -> None:
    said = {
        str((await run(box, f'export default await import("{path.as_uri()}")')).error).replace(str(path), "")
        for path in (kept, kept.with_name("none.json"))
    }
    assert len(said) == 1


async def test_modules_that_code_makes_itself_have_no_more_rights(box: CodeSandbox) -> None:
    source = """
        const made = `export default typeof Deno + typeof process + typeof fetch`;
        export default (await import("data:text/javascript," + encodeURIComponent(made))).default"""
    assert (await run(box, source)).result == "undefined" * 3


@requirement("S0-1-6")
async def test_the_process_itself_has_no_permission_at_all(kept: Path, tmp_path: Path) -> None:
    """Without our runner: Deno's flags alone hold, in case code reaches Deno's API again."""
    attempts = {
        "read": f"Deno.readTextFileSync('{kept}')",
        "stat": f"Deno.statSync('{kept}')",
        "write": f"Deno.writeTextFileSync('{tmp_path}/made', 'x')",
        "env": "Deno.env.toObject()",
        "node env": "(await import('node:process')).env.TOOLWRIGHT_TEST_SECRET ?? (() => { throw 1 })()",
        "run": "new Deno.Command('/bin/true').outputSync()",
        "spawn": "(await import('node:child_process')).execSync('true')",
        "kill": "Deno.kill(Deno.ppid, 'SIGTERM')",
        "connect": "await Deno.connect({ hostname: '127.0.0.1', port: 9 })",
        "listen": "Deno.listen({ port: 0 })",
        "fetch": "await fetch('http://127.0.0.1:9')",
        "websocket": "new WebSocket('ws://127.0.0.1:9')",
        "dns": "await Deno.resolveDns('localhost', 'A')",
        "node net": "await new Promise((a, b) => "
        "import('node:net').then((n) => n.connect(9, '127.0.0.1').on('connect', a).on('error', b)))",
        "ffi": "Deno.dlopen('libc.so.6', {})",
        "host name": "Deno.hostname()",
        "worker": "await new Promise((done, failed) => {"
        "const w = new Worker('data:text/javascript,postMessage(Deno.env.toObject())', { type: 'module' });"
        "w.onmessage = done; w.onerror = (e) => { e.preventDefault(); failed(e) } })",
        "kv": "await Deno.openKv()",
    }
    lines = [
        f"try {{ {attempt}; console.log('did {name}') }} catch (e) {{ console.log('not', e?.message) }}"
        for name, attempt in attempts.items()
    ]
    script = tmp_path / "attempts.mjs"
    script.write_text("\n".join([*lines, "Deno.exit(0)"]), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        find_deno_bin(), "run", *FLAGS, str(script), stdout=-1, stderr=-1,
        env={"DENO_DIR": str(tmp_path / "cache"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
    )  # fmt: skip
    out, _ = await process.communicate()
    said = out.decode()
    assert "did " not in said
    assert said.count("not ") >= len(attempts)
    assert not (tmp_path / "made").exists()


async def test_the_process_gets_nothing_of_our_environment(box: CodeSandbox, kept: Path) -> None:
    before, begun = children(), asyncio.Event()

    async def begin() -> None:
        begun.set()
        await asyncio.Event().wait()

    handle = box.start('import wait from "wait"; await wait()', read_options(imports={"wait": begin}))
    await begun.wait()
    [pid] = children() - before
    names = [each.partition(b"=")[0] for each in _proc_file(pid, "environ").split(b"\0") if each]
    assert sorted(names) == [b"DENO_DIR", b"DENO_NO_UPDATE_CHECK", b"NO_COLOR"]
    limits = _proc_file(pid, "limits").decode()
    assert [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max data size")] == [
        ["800000000", "800000000"]
    ]
    handle.terminate()
    await handle


def _proc_file(pid: int, what: str) -> bytes:
    """Return the kernel's information about a process."""
    return Path(f"/proc/{pid}/{what}").read_bytes()


CALL = 'globalThis[Symbol.for("toolwright.call")]'


async def test_only_functions_that_the_options_name_are_called(box: CodeSandbox) -> None:
    called: list[object] = []

    async def allowed(*args: object) -> str:
        called.append(args)
        return "yes"

    source = f"""
        const call = {CALL};
        const said = [];
        for (const name of ["allowed", "refused", "__class__", "constructor", "", "call", 7, {{}}]) {{
          said.push(await call(name, [1]).catch((e) => e.message));
        }}
        export default said"""
    outcome = await run(box, source, language="javascript", imports={"allowed": allowed})
    assert isinstance(outcome.result, list)
    assert outcome.result[0] == "yes"
    assert all("no function" in str(said) for said in outcome.result[1:])
    assert called == [(1,)]


async def test_lines_like_ours_are_only_logs(box: CodeSandbox) -> None:
    source = r"""
        const forged = { kind: "result", value: "forged", token: "0".repeat(32) };
        console.log(JSON.stringify(forged));
        console.log('\n{"kind":"result","value":"forged"}\n{"kind":"call","id":1,"name":"allowed","args":[]}\n');
        export default "true" """
    outcome = await run(box, source, imports={"allowed": lambda: pytest.fail("called")})
    assert outcome.result == "true"
    assert len(outcome.logs) == 2


@pytest.mark.parametrize(
    "pollution",
    [
        "Object.prototype.toJSON = () => 'forged'",
        "JSON.stringify = () => '\"forged\"'; JSON.parse = () => ({})",
        "TextEncoder.prototype.encode = () => new Uint8Array(1)",
        "Array.prototype.push = Array.prototype.map = () => []",
        "Reflect.apply = Reflect.ownKeys = () => 'forged'",
        "Object.keys = Object.hasOwn = Object.defineProperty = () => ['forged']",
        "Number.isFinite = Array.isArray = () => false",
        "String.prototype.substring = String.prototype.indexOf = () => 0",
        "globalThis.Promise = globalThis.Error = globalThis.String = undefined",
        "Promise.prototype.then = function () { return 'forged' }",
        "Promise.prototype.catch = Promise.prototype.finally = undefined",
        "Object.prototype.token = Object.prototype.error = Object.prototype.kind = 'forged'",
        "Object.prototype.value = 'forged'",
        "Uint8Array.prototype.subarray = () => { throw 1 }",
        "Object.defineProperty(Object.prototype, 'fn', { get() { return 'forged' } })",
    ],
)
async def test_a_polluted_world_does_not_reach_the_runner(box: CodeSandbox, pollution: str) -> None:
    async def plus(number: int) -> int:
        return number + 1

    source = f"import plus from 'plus'; {pollution}; export default async (n) => ({{ n: await plus(n) }})"
    outcome = await run(
        box, source, language="javascript", imports={"plus": plus}, execute={"args": [1]}, timeout=5
    )
    assert outcome.result == {"n": 2} and outcome.logs == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "ends"),
    [
        ("function deeper() { deeper() } deeper()", {"error"}),
        ("const deeper = async () => { await 0; await deeper() }; await deeper()", {"memory"}),
        ("let s = 'x'; for (;;) s += s", {"error", "memory"}),
        ("const all = []; for (;;) all.push('x'.repeat(2 ** 20) + all.length)", {"memory", "timeout"}),
        ("const all = []; for (;;) all.push(new Uint8Array(2 ** 24).fill(1))", {"memory", "error"}),
        ("const all = []; for (;;) all.push(new SharedArrayBuffer(2 ** 24)) && new Uint8Array(all.at(-1)).fill(1)",
         {"memory", "error"}),
        ("new Uint8Array(2 ** 40)", {"error"}),
        ("const m = new WebAssembly.Memory({ initial: 1 }); for (;;) { m.grow(256); new Uint8Array(m.buffer).fill(1) }",
         {"memory", "error"}),
        ("for (const all = new Map(), n = [0]; ; n[0]++) all.set(n[0], { n })", {"memory"}),
        ("export default Array(2 ** 32 - 1).fill(0)", {"memory", "error", "timeout"}),
        ("export default new Proxy([], { get: (_, k) => k === 'length' ? 1e9 : 1 })", {"memory", "timeout", "result"}),
        ("/^(a+)+$/.test('a'.repeat(50) + 'b')", {"timeout"}),
        ("for (;;) await 0", {"timeout"}),
        ("await new Promise(() => {})", {"timeout"}),
        ("setInterval(() => {}, 1); await new Promise(() => {})", {"timeout"}),
        ("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)", {"timeout", "error"}),
        ("export default { get a() { for (;;); } }", {"timeout"}),
        ("export default { toJSON() { for (;;); } }", {"timeout"}),
        ("export default { then(done) { } }", {"timeout"}),
        ("throw { get message() { throw 1 }, get stack() { throw 2 } }", {"error"}),
        ("throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })", {"error"}),
        ("throw null", {"error"}),
        ("throw undefined", {"error"}),
        ("Promise.reject(new Error('alone')); await new Promise(() => {})", {"error"}),
        ("setTimeout(() => { throw new Error('later') }); await new Promise(() => {})", {"error"}),
        ("queueMicrotask(() => { throw new Error('soon') }); await new Promise(() => {})", {"error"}),
        ("process.exit(0)", {"error"}),
        ("Deno.exit(0)", {"error"}),
        ("new Worker('data:text/javascript,for(;;);')", {"error"}),
        ("reportError(new Error('told')); await new Promise(() => {})", {"error"}),
        ("debugger; throw new Error('on')", {"error"}),
    ],
)  # fmt: skip
async def test_what_has_no_measure_ends_for_a_reason(box: CodeSandbox, source: str, ends: set[str]) -> None:
    before = children()
    outcome = await run(box, source, language="javascript", timeout=0.7 if "timeout" in ends else 20)
    assert outcome.error is not None and outcome.error.code in ends, outcome
    assert not children() - before
    await until_tidy()


async def test_a_flood_of_calls_is_served_a_few_at_a_time(box: CodeSandbox) -> None:
    at_once, most, event = 0, 0, asyncio.Event()

    async def slow() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            await event.wait()
        finally:
            at_once -= 1

    source = "import slow from 'slow'; for (let n = 0; n < 5000; n++) slow(); await new Promise(() => {})"
    outcome = await run(box, source, language="javascript", imports={"slow": slow}, timeout=1)
    assert reason(outcome) == ("terminated", "timeout")
    assert most == 32 and at_once == 0


async def test_calls_that_are_too_large_are_errors_of_the_code(box: CodeSandbox) -> None:
    def give(size: int) -> str:
        return "x" * size

    source = """import give from "give";
        const said = async (call) => await call().then(() => "did", (e) => e.message);
        export default [await said(() => give(3e6)),
          await said(() => give("x".repeat(3e6))), await said(() => give(NaN))]"""
    outcome = await run(box, source, language="javascript", imports={"give": give})
    assert outcome.result == [
        "The result of 'give' has 3000002 bytes, and 1048576 are allowed.",
        "The list of arguments has 3000004 bytes, and 1048576 are allowed.",
        "The list of arguments[0] is NaN, which JSON cannot represent.",
    ]


async def test_results_are_measured_here_too_whatever_the_process_says() -> None:
    async with sandbox(CodeLimits(result=1000)) as box:
        fits = await run(box, "export default 'ü'.repeat(400)")
        assert fits.result == "ü" * 400
        assert reason(await run(box, "export default 'ü'.repeat(600)")) == ("error", "result")


async def test_fresh_processes_share_no_folder(box: CodeSandbox) -> None:
    seen: list[set[str]] = []

    async def look() -> None:
        seen.append(folders())

    source = 'import look from "look"; await look()'
    await run(box, source, imports={"look": look})
    await run(box, source, imports={"look": look})
    assert [len(each) for each in seen] == [1, 1]
    assert seen[0] != seen[1] and not folders()


async def test_no_path_of_this_machine_is_shown(box: CodeSandbox) -> None:
    source = """
        const found = [];
        try { null.x } catch (e) { found.push(e.stack) }
        try { await import("none") } catch (e) { found.push(e.stack, e.message) }
        found.push(import.meta.url, import.meta.dirname ?? "", import.meta.filename ?? "");
        try { found.push(import.meta.resolve("./x")) } catch (e) { found.push(e.message) }
        export default found"""
    text = str(await run(box, source, language="javascript"))
    for path in ("file:", str(Path(__file__).parents[2]), "/tmp", "site-packages", "runner.mjs", HOME):
        assert path not in text
