"""Modules of the code itself, and features of JavaScript and TypeScript."""

from collections.abc import AsyncGenerator

import pytest

from tests.sandbox.rig import reason, run, sandbox
from toolwright.wiring.executors import CodeSandbox

pytestmark = pytest.mark.anyio


@pytest.fixture
async def box() -> AsyncGenerator[CodeSandbox]:
    async with sandbox() as made:
        yield made


async def test_modules_import_each_other_and_the_host(box: CodeSandbox) -> None:
    async def rate(currency: str) -> float:
        return {"eur": 2.0}[currency]

    modules = {
        "money": 'import rate from "rate"; import { round } from "@our/math.ts";'
        "export const price = async (n: number) => round(n * (await rate('eur')))",
        "@our/math.ts": "export const round = (n: number): number => Math.round(n)",
    }
    source = 'import { price } from "money"; export default price'
    outcome = await run(box, source, modules=modules, imports={"rate": rate}, execute={"args": [1.2]})
    assert outcome.result == 2


async def test_an_error_in_a_module_names_it(box: CodeSandbox) -> None:
    modules = {"lib": "\n\nexport const f = () => { throw new Error('in lib') }"}
    outcome = await run(box, 'import { f } from "lib"; export default f', modules=modules, filename="app.ts")
    assert outcome.error is not None
    assert "lib:3:" in outcome.error.stack and "base64" not in outcome.error.stack


async def test_globals_are_there_in_modules_too(box: CodeSandbox) -> None:
    modules = {"lib": "export const twice = 2 * (globalThis as any).n"}
    outcome = await run(
        box, 'import { twice } from "lib"; export default twice', modules=modules, globals={"n": 4}
    )
    assert outcome.result == 8


async def test_a_global_that_cannot_be_set_is_an_error(box: CodeSandbox) -> None:
    outcome = await run(box, "export default 1", globals={"undefined": 1})
    assert reason(outcome) == ("error", "error")


async def test_a_value_is_the_result_where_nothing_is_to_be_called(box: CodeSandbox) -> None:
    assert (await run(box, "export default Promise.resolve({ a: [1] })")).result == {"a": [1]}
    assert (await run(box, "export default new Date(0)")).result == "1970-01-01T00:00:00.000Z"
    assert (await run(box, "export default { a: undefined, b: [undefined] }")).result == {"b": [None]}
    named = await run(box, "export const a = 1", execute={"fn": "a"})
    assert str(named.error) == 'The export "a" is not a function.'
    lacking = await run(box, "export const a = 1, b = 2", execute={"fn": "c"})
    assert str(lacking.error) == 'The code has no export "c": it exports a, b.'
    nothing = await run(box, "1", execute={"fn": "c"})
    assert str(nothing.error) == 'The code has no export "c": it exports nothing.'


async def test_types_are_not_for_javascript(box: CodeSandbox) -> None:
    outcome = await run(box, "export const a: number = 1", language="javascript")
    assert reason(outcome) == ("error", "error")


async def test_the_web_that_needs_no_network_is_there(box: CodeSandbox) -> None:
    source = """
        const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode("x"));
        const later = await new Promise((done) => setTimeout(() => done("later"), 1));
        const url = new URL("https://example.com/a?b=1");
        export default [new Uint8Array(digest).length, later, url.searchParams.get("b"), structuredClone({ a: 1 }),
          atob(btoa("x")), typeof performance.now(), new Intl.NumberFormat("en").format(1e6)]"""
    outcome = await run(box, source, language="javascript")
    assert outcome.result == [32, "later", "1", {"a": 1}, "x", "number", "1,000,000"]


async def test_more_memory_may_be_asked_for(box: CodeSandbox) -> None:
    source = """export default () => {
        const all = [];
        for (let n = 0; n < 110; n++) all.push(new Array(131072).fill(n + 0.5));
        return all.length }"""
    assert reason(await run(box, source, language="javascript")) == ("terminated", "memory")
    more = await run(box, source, language="javascript", memory_limit_bytes=400 * 2**20)
    assert more.result == 110
