"""Project rules that no other tool checks."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

import toolwright as tw
import toolwright.client

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "toolwright").rglob("*.py"))
WITHOUT_IO = ("sqlalchemy", "fastapi", "uvicorn", "httpx2", "typer", "rich", "yaml", "pydantic_ai")
PUBLIC = [
    "AfterCall",
    "AfterModel",
    "AfterRun",
    "Agent",
    "AgentStream",
    "App",
    "Approval",
    "Ask",
    "Attachment",
    "AttachmentRef",
    "BeforeCall",
    "BeforeModel",
    "BeforeRun",
    "Call",
    "CallDone",
    "CallProgress",
    "CallStarted",
    "CallWaiting",
    "Context",
    "Deny",
    "Depends",
    "Dynamic",
    "Elicited",
    "Hooks",
    "ImageContent",
    "Message",
    "ModelRetry",
    "OpenAPITools",
    "Prompt",
    "ReasoningDelta",
    "Registry",
    "Reject",
    "Replace",
    "Run",
    "RunDone",
    "RunEvent",
    "RunResult",
    "Runtime",
    "Secret",
    "Settings",
    "ShownCall",
    "Side",
    "Solution",
    "StepDone",
    "SubagentToolConfig",
    "Submit",
    "SubpromptConfig",
    "TextContent",
    "TextDelta",
    "TextReset",
    "Thread",
    "ThreadState",
    "Tool",
    "ToolContent",
    "ToolResult",
    "ToolUI",
    "Toolset",
    "ToolwrightError",
    "Topic",
    "Variable",
    "compose",
    "gateway",
    "openapi",
    "run",
    "run_sync",
    "stream",
    "tool",
    "tool_ui",
]
PUBLIC_CLIENT = [
    "Agent",
    "Block",
    "Call",
    "Client",
    "Compaction",
    "Decision",
    "Entity",
    "Event",
    "File",
    "FrontEnd",
    "Goal",
    "GoalChange",
    "Health",
    "InboxEvent",
    "Items",
    "Memory",
    "MemoryChange",
    "Message",
    "MessageCall",
    "Offer",
    "Passage",
    "Plan",
    "PlanChange",
    "Run",
    "Sent",
    "SentPrompt",
    "Step",
    "StepEntry",
    "StreamToken",
    "Thread",
    "Token",
    "Worker",
]
MAX_LINES = 600
MAX_DISTRIBUTIONS = 60
DIALECT = re.compile(
    r"\b(lack(s|ing)?|anew|once more|again and again|is led|at work|in hand|at hand|whoever|somebody|anybody|everybody"
    r"|word (of|that)|(is|are|was|were) told|tells? of|faulty|judge[sd]?|carr(y|ies|ied) (it |them )?out|for ever"
    r"|how .{1,20} stands|(given|giv(es?|ing)) back|tak(en?|es|ing) (away|back)|None (for|if there is) none"
    r"|is over|are over|(what|that|which) (is|are) to)\b",
    re.IGNORECASE,
)
"""Terms with a standard equivalent: missing, again, executed, running, current, caller, notified, invalid, finished."""
BEGINNINGS = re.compile(r'^\s*r?"""(What|Those|One that|How|Have|Let)\b', re.MULTILINE)
"""First words of docstrings that hide the verb or the noun that a reader would search for."""
MAX_DIALECT, MAX_BEGINNINGS = 4, 0  # they only fall
SERVER_ONLY = ("sqlalchemy", "alembic", "fastapi", "starlette", "uvicorn", "typer", "yaml", "pydantic_ai")


def test_every_module_says_in_one_sentence_what_it_is_for() -> None:
    docstrings = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES}
    assert [path for path, docstring in docstrings.items() if not docstring] == []
    assert [
        path for path, docstring in docstrings.items() if len((docstring or "").split("\n")[0]) > 120
    ] == []


def is_literal(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=left, right=right):
            return is_literal(left) and is_literal(right)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in ("TypeVar", "ParamSpec", "getLogger")
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return all(map(is_literal, parts))
        case ast.Dict(keys=keys, values=values):
            return all(key is None or is_literal(key) for key in keys) and all(map(is_literal, values))
        case _:
            return isinstance(node, ast.Constant)


def late_names(module: ast.Module) -> list[str]:
    """Return the names of literals, loggers and type variables after the module's first class or function."""
    found: list[str] = []
    is_head = True
    for node in module.body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                is_head = False
            case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
                pass
            case (
                ast.Assign(targets=[ast.Name() as target], value=value)
                | ast.AnnAssign(target=target, value=value)
            ):
                if not is_head and value is not None and is_literal(value):
                    found.append(ast.unparse(target))
            case _:
                pass
    return found


def test_the_names_of_literals_are_at_the_head_of_a_module() -> None:
    late = {str(path): late_names(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES}
    assert {path: names for path, names in late.items() if names} == {}


@pytest.mark.parametrize(
    "line", ["X = 1", "X = 2 * 1024", "X = ('a', {'b': [1]})", "T = TypeVar('T')", "X: int = 1"]
)
def test_a_late_name_is_found(line: str) -> None:
    assert late_names(ast.parse(f"Y = 0\ndef f() -> None: ...\n{line}")) == [line[0]]


def test_no_module_is_long() -> None:
    assert not [path for path in SOURCES if len(path.read_text(encoding="utf-8").splitlines()) > MAX_LINES]


def test_limits_are_called_max_and_min() -> None:
    other = re.compile(r"\b_?(MOST|LONGEST|LARGEST|DEEPEST|LEAST|SHORTEST|FEWEST)(_[A-Z]+)*\b")
    paths = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]
    named = {
        str(path): other.findall(path.read_text(encoding="utf-8"))
        for path in paths
        if path.name != "test_house.py"
    }
    assert {path: names for path, names in named.items() if names} == {}


def test_a_class_name_has_one_meaning() -> None:
    """Shapes on the wire and groups of the client are called like what they show."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        place = path.relative_to(ROOT / "src" / "toolwright")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and place.parts[0] not in ("wire", "client"):
                places[node.name].append(str(place))
    twice = {name for name, where in places.items() if len(where) > 1}
    assert twice == {"Call", "McpServers", "OperationFault", "TaskParams"}  # they only become fewer


def test_docstrings_and_guides_use_the_terms_of_the_field() -> None:
    texts = [path.read_text(encoding="utf-8") for path in [*SOURCES, *sorted((ROOT / "docs").rglob("*.md"))]]
    texts = [re.sub(r"\bJudge\b", "", text) for text in texts]  # the name of a class, written as such
    assert sum(len(DIALECT.findall(text)) for text in texts) <= MAX_DIALECT
    assert sum(len(BEGINNINGS.findall(text)) for text in texts) <= MAX_BEGINNINGS


@pytest.mark.parametrize("document", ["AGENTS.md", "docs/architecture.md"])
def test_the_places_that_a_document_names_are_there(document: str) -> None:
    layers = "core|wire|runtime|web|client|cli|wiring|adapters"
    places = re.findall(rf"`((?:{layers})/[\w/.]*)`", (ROOT / document).read_text())
    assert len(places) > 20
    assert not [place for place in places if not (ROOT / "src" / "toolwright" / place).exists()]


def test_importing_the_package_loads_no_library_that_does_io() -> None:
    script = "import sys, toolwright; print(' '.join(sorted(m for m in sys.modules if '.' not in m)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(WITHOUT_IO)


def test_importing_the_package_loads_nothing_until_a_name_is_asked_for() -> None:
    script = "import sys, toolwright; print(*[m for m in sys.modules if m.startswith(('toolwright.', 'pydantic'))])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_names_that_declare_an_app_load_no_module_that_executes_it() -> None:
    script = "import sys, toolwright as tw; tw.App, tw.Agent, tw.tool, tw.Settings; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    layers = {".".join(name.split(".")[:2]) for name in done.stdout.split() if name.startswith("toolwright.")}
    assert layers == {"toolwright.core", "toolwright.wiring"}


def test_a_name_of_the_package_is_the_same_each_time_and_shown_before_it_is_asked_for() -> None:
    script = "import toolwright as tw; print(*dir(tw)); assert tw.Tool is tw.Tool is vars(tw)['Tool']"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {*PUBLIC, "errors", "model", "ports", "testing"} <= set(done.stdout.split())
    with pytest.raises(AttributeError, match="module 'toolwright' has no attribute 'Tol'"):
        _ = tw.Tol  # type: ignore[attr-defined]  # the error under test


def test_a_gateway_without_people_loads_nothing_that_only_their_tokens_need() -> None:
    script = "import sys, toolwright.wiring.gateway; print(*sorted(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"httpx2", "jwt", "rich", "cryptography"}


IN_MEMORY = """
import asyncio, sys
import toolwright as tw
from toolwright import testing

@tw.tool(description="Answers.")
async def ask() -> str:
    return "42"

model = testing.ScriptedModel([{"calls": [{"name": "ask", "args": {}}]}, {"text": "Done."}])

async def main() -> None:
    async with testing.runtime(tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Ask.", model=model, tools=[ask]))])) as rt:
        thread = await rt.threads.create("a")
        run = await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 30)
        assert run.status == "completed"

asyncio.run(main())
print(*sorted(module for module in sys.modules if "." not in module))
"""


def test_a_run_in_memory_loads_no_library_of_a_database_or_a_server() -> None:
    done = subprocess.run([sys.executable, "-c", IN_MEMORY], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {
        "sqlalchemy", "alembic", "asyncpg", "fastapi", "starlette", "uvicorn", "cryptography", "httpx2", "pydantic_ai",
        "yaml",
    }  # fmt: skip


def test_a_served_app_without_extras_needs_at_most_sixty_distributions() -> None:
    lock = (ROOT / "requirements" / "base.txt").read_text(encoding="utf-8")
    names = re.findall(r"^([a-z0-9][\w.-]*)==", lock, re.MULTILINE)
    assert len(names) == len(set(names))
    assert 20 < len(names) <= MAX_DISTRIBUTIONS


def test_the_public_surface_is_as_agreed() -> None:
    assert tw.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(tw, name) is not None


def test_the_public_surface_of_the_client_is_as_agreed() -> None:
    assert toolwright.client.__all__ == PUBLIC_CLIENT
    for name in PUBLIC_CLIENT:
        assert getattr(toolwright.client, name) is not None


def test_importing_the_client_loads_no_library_of_the_server() -> None:
    script = "import sys, toolwright.client; print(' '.join(sorted(m for m in sys.modules if '.' not in m)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "httpx2" in loaded
    assert not loaded & set(SERVER_ONLY)


def test_every_dependency_of_the_package_is_imported_somewhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    modules = {
        "pyyaml": "yaml",
        "pydantic-settings": "pydantic_settings",
        "jsonschema-rs": "jsonschema_rs",
        "pyjwt": "jwt",
    }
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    text += "\nimport tzdata  # by zoneinfo, where the machine has no time zones of its own"
    for requirement in project["dependencies"]:
        name = requirement.split(">=")[0].split("[")[0].strip()
        module = modules.get(name, name.replace("-", "_"))
        assert f"import {module}" in text or f"from {module}" in text, f"{name} is not used"


def test_the_lock_names_no_registry() -> None:
    locks = [
        *(ROOT / "requirements").glob("*.txt"),
        *(ROOT / "bench" / "kills" / "requirements").glob("*.txt"),
    ]
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        assert "--hash=sha256:" in text
        assert "index-url" not in text
        assert "://" not in text.replace("via https://", "")


def test_no_message_is_cut_but_by_brief() -> None:
    """A truncated secret is found only if a mark shows the cut (decision 8)."""
    cut = re.compile(r"\{[^{}]*![rsa]:[^{}]*\.\d+\}|\[:[^\[\]]*\]![rsa]\}")
    assert [path.name for path in SOURCES if cut.search(path.read_text(encoding="utf-8"))] == []


def test_nothing_names_a_path_of_a_developers_machine() -> None:
    home = os.path.expanduser("~")  # noqa: PTH111 - text to look for, not a path to open
    for path in [*SOURCES, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        assert f"{home}/" not in path.read_text(encoding="utf-8"), path
