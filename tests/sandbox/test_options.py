"""Options of run_code as users pass them: every error is one sentence."""

from dataclasses import fields

import pytest

from tests.sandbox.rig import sandbox
from toolwright.core.errors import InvalidRequest
from toolwright.core.state.sandbox import CodeLimits, CodeOptions, Execute, admit, read_options

pytestmark = pytest.mark.anyio
HALF = "\ud800"


async def fetch() -> None: ...


def test_options_are_read_from_either_spelling() -> None:
    snake = read_options(
        {
            "language": "javascript",
            "memory_limit_bytes": 20_000_000,
            "timeout": 3,
            "imports": {"fetch": fetch},
        }
    )
    camel = read_options(
        {"language": "javascript", "memoryLimitBytes": 20_000_000, "timeout": 3, "imports": {"fetch": fetch}}
    )
    words = read_options(
        language="javascript", memory_limit_bytes=20_000_000, timeout=3, imports={"fetch": fetch}
    )
    assert snake == camel == words == read_options(snake)
    assert read_options() == read_options({}) == CodeOptions()
    assert read_options({"timeout": None, "execute": None}) == CodeOptions()


def test_keywords_go_before_what_they_are_added_to() -> None:
    assert read_options({"timeout": 3, "filename": "a.ts"}, timeout=4) == CodeOptions(
        timeout=4, filename="a.ts"
    )


def test_execute_has_a_name_and_arguments() -> None:
    assert read_options(execute={}).execute == Execute()
    assert read_options(execute={"fn": "run", "args": (1, (2,))}).execute == Execute(fn="run", args=(1, [2]))


FAULTS: list[tuple[object, str]] = [
    (5, "The options of run_code must be a mapping or CodeOptions, not 5."),
    ({"langauge": "python"}, "run_code has no option 'langauge'. Options: language, "),
    ({5: 1}, "run_code has no option 5. "),
    ({"language": "ruby"}, "The option 'language' must be one of typescript, javascript, python, not 'ruby'."),
    ({"language": []}, "not a value of the type list."),
    ({"filename": "a\nb"}, "The option 'filename' must be a short name"),
    ({"filename": 5}, "not 5."),
    ({"execute": "run"}, "The option 'execute' must be a mapping with 'fn' and 'args', not 'run'."),
    ({"execute": {"name": "run"}}, "The option 'execute' has only the fields 'fn' and 'args', and no 'name'."),
    ({"execute": {"fn": "a b"}}, "The option 'execute.fn' must be the name of an export, not 'a b'."),
    ({"execute": {"fn": 5}}, "not 5."),
    ({"execute": {"args": {"a": 1}}}, "The option 'execute.args' must be a list of JSON values"),
    ({"execute": {"args": [float("nan")]}}, "The option 'execute.args' must be JSON: 0 is nan"),
    ({"imports": [fetch]}, "The option 'imports' must be a mapping of functions by name"),
    ({"imports": {"fetch": 5}}, "The import 'fetch' must be a function, async or not, not 5."),
    ({"imports": {"": fetch}}, "A name in the option 'imports' must be like 'weather', not ''."),
    ({"imports": {"node:fs": fetch}}, "not 'node:fs'."),
    ({"imports": {"./fetch": fetch}}, "not './fetch'."),
    ({"imports": {"lib/": fetch}}, "not 'lib/'."),
    ({"imports": {5: fetch}}, "not 5."),
    ({"imports": {HALF: fetch}}, "A name in the option 'imports'"),
    ({"globals": {"a b": 1}}, "A name in the option 'globals' must be like 'weather', not 'a b'."),
    ({"globals": {"__proto__": 1}}, "not '__proto__'."),
    ({"globals": {"a": 1j}}, "must be JSON: a is of the type complex, which JSON cannot represent."),
    ({"globals": {"a": b"x"}}, "The option 'globals' must be JSON: a is of the type bytes"),
    ({"globals": 5}, "The option 'globals' must be a mapping of JSON values by name, not 5."),
    ({"modules": {"lib": 5}}, "The module 'lib' must be text"),
    ({"modules": {"lib": HALF}}, "The module 'lib' must be text"),
    ({"modules": {"a": ""}, "imports": {"a": fetch}}, "'a' is both an import and a module"),
    ({"memory_limit_bytes": "64"}, "The option 'memory_limit_bytes' must be a whole number, not '64'."),
    ({"memory_limit_bytes": True}, "not True."),
    ({"timeout": "3"}, "The option 'timeout' must be a number of seconds above 0, not '3'."),
    ({"timeout": 0}, "not 0."),
    ({"timeout": -1}, "not -1."),
    ({"timeout": float("nan")}, "not nan."),
    ({"timeout": float("inf")}, "not inf."),
    ({"timeout": True}, "not True."),
    ({"language": "python", "modules": {"lib": ""}}, "The option 'modules' is not supported for Python"),
    (
        {"language": "python", "imports": {"a-b": fetch}},
        "A name for Python code must be an identifier, not 'a-b'.",
    ),
    ({"language": "python", "globals": {"$a": 1}}, "A name for Python code must be an identifier, not '$a'."),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), FAULTS, ids=lambda each: None)
def test_each_error_of_the_options_is_one_sentence(given: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_options(given)
    assert said in raised.value.message
    assert "\n" not in raised.value.message and raised.value.message.endswith((".", "mapping."))


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (5, {}, "The code must be text without NUL or lone surrogates, not 5."),
        ("\0", {}, "The code must be text"),
        (HALF, {}, "The code must be text"),
        ("x" * 1001, {}, "has 1005 bytes, and 1000 are allowed."),
        ("x" * 500, {"modules": {"lib": "ü" * 300}}, "has 1107 bytes"),
        ("", {"globals": {"a": "x" * 1000}}, "and 1000 are allowed."),
        ("", {"execute": {"args": ["x" * 1000]}}, "and 1000 are allowed."),
        ("", {"timeout": 11}, "Code may run for 10 seconds at most, not for 11."),
        ("", {"memory_limit_bytes": 1}, "Code may have from 16777216 to 536870912 bytes of memory, not 1."),
        ("", {"memory_limit_bytes": 2**40}, "not 1099511627776."),
    ],
)
async def test_what_is_over_a_limit_is_refused_before_anything_runs(
    source: object, options: object, said: str
) -> None:
    limits = CodeLimits(source=1000, longest=10.0)
    with pytest.raises(InvalidRequest) as raised:
        admit(source, read_options(options), limits)
    assert said in raised.value.message
    async with sandbox(limits) as box:
        with pytest.raises(InvalidRequest):
            box.start(source, read_options(options))  # type: ignore[arg-type]  # as users pass them


def test_options_made_by_hand_are_validated_too() -> None:
    with pytest.raises(InvalidRequest):
        admit("", CodeOptions(timeout=-1), CodeLimits())


def test_what_is_not_given_is_decided_by_the_limits() -> None:
    _, options = admit("", CodeOptions(language="python"), CodeLimits(timeout=3.0))
    assert (options.timeout, options.memory_limit_bytes, options.filename) == (3.0, 64 * 2**20, "main.py")
    assert {each.name for each in fields(CodeOptions)} == {
        "language", "filename", "execute", "imports", "globals", "modules", "memory_limit_bytes", "timeout",
    }  # fmt: skip
