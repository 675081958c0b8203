"""Invalid declarations are rejected at declaration, with one sentence."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from toolwright import testing
from toolwright.client import Client
from toolwright.core.agents.config import Identity, read_agent
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.files import checked_path
from toolwright.core.schemas.output import Output
from toolwright.core.state.memory import MemoryState
from toolwright.core.state.state import form_of
from toolwright.core.text import quantity, sentence

WRONG: Any = 5  # a value that no parameter accepts
LIST: Any = []
TEXT: Any = "x"


@tw.tool
def greet(name: str) -> str:
    """Greet."""
    return name


def plain(name: str) -> str:
    """Greet."""
    return name


TOOLS = tw.Toolset([greet])
AGENT = tw.Agent("a", "p")
URL = "http://127.0.0.1:1"


def keyed(key: Any) -> str:
    """Ask."""
    return ""


keyed.__annotations__["key"] = tw.Secret


def misnamed(query: str, limit: int = 3) -> str:
    """Ask.

    Args:
        qury: What for.
        limit: How many.
    """
    return query


def stale(query: str) -> str:
    """Ask.

    Args:
        query: What for.
        colour: Of what.
    """
    return query


def method(self: Any, query: str) -> str:
    """Ask."""
    return query


del method.__annotations__["self"]
SIDE: Any = tw.Agent("sage", "p")
LOOSE: Any = tw.Prompt("loose")
MODEL: Any = {"model": "openai:gpt-6.1-terra"}
VARIABLES: Any = {"variables": []}
FIRST: Any = ("sqlite:///journal.db",)

DECLARED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: tw.tool(tenvs=BaseModel)(plain),
        "Tool 'plain': tenvs= must be a model of your own, not BaseModel itself.",
    ),
    (
        lambda: tw.tool(args=BaseModel)(plain),
        "Tool 'plain': args= must be a model of your own, not BaseModel itself.",
    ),
    (lambda: tw.tool(tenvs=WRONG)(plain), "Tool 'plain': tenvs= must be a pydantic model, not 5."),
    (
        lambda: tw.Tool(name="x", description="y", kind=LIST),
        "The tool kind a value of the type list is unknown. Choose one of function, prompt, agent, gateway, external, "
        "space, internal, mcp, latent, delegate.",
    ),
    (
        lambda: tw.Tool(name="x", description="y", handler=WRONG),
        "Tool 'x': its handler must be a function, not 5.",
    ),
    (lambda: tw.Agent("a", "p", user_env=WRONG), "Agent 'a': user_env must be a list of names, not 5."),
    (lambda: tw.Agent("a", "p", user_env=TEXT), "Agent 'a': user_env must be a list of names, not 'x'."),
    (lambda: tw.Agent(WRONG, "p"), "An agent needs a name, not 5."),
    (lambda: tw.Agent(" ", "p"), "An agent needs a name."),
    (lambda: tw.Agent("a", WRONG), "Agent 'a': side_a must be a side, a prompt or the name of one, not 5."),
    (lambda: tw.Agent("a", "p", type=TEXT), "Agent 'a': type must be 'ai_human' or 'dual_ai', not 'x'."),
    (lambda: tw.Agent("a", "p", description=WRONG), "Agent 'a': description must be text, not 5."),
    (lambda: tw.Side(WRONG), "The prompt of a side must be a prompt or the name of one, not 5."),
    (lambda: tw.Side("p", label=WRONG), "The label of a side must be text, not 5."),
    (lambda: tw.Side("p", max_steps=TEXT), "max_steps must be 1 or more, not 'x'."),
    (lambda: tw.Prompt(WRONG), "A prompt needs a name, not 5."),
    (lambda: tw.Prompt("p", WRONG), "Prompt 'p': prompt must be text, not 5."),
    (
        lambda: tw.Prompt("p", tools=WRONG),
        "Prompt 'p': tools must be a list of tools, names of the app's tools, prompts and agents, "
        "and how these are called, not 5.",
    ),
    (
        lambda: tw.Prompt("p", tools=["there", WRONG]),
        "Prompt 'p': tools must be a list of tools, names of the app's tools, prompts and agents, "
        "and how these are called, not one with 5.",
    ),
    (
        lambda: tw.Prompt("p", tools=[SIDE]),
        "Prompt 'p': tools: the agent 'sage' is not a tool. Use agent.as_tool('What it does.') to call it. To hand the "
        "conversation over to it, use its name and add the agent to the app with expose_as_tool=True.",
    ),
    (
        lambda: tw.Prompt("p", tools=[LOOSE]),
        "Prompt 'p': tools: the prompt 'loose' is not a tool. Use its name or tw.SubpromptConfig(name='loose'), and "
        "add the prompt to the app with expose_as_tool=True.",
    ),
    (
        lambda: tw.Agent("a", "p", **MODEL),
        "Agent 'a' names the prompt 'p': its model= belongs there. To write the prompt here, give instructions=.",
    ),
    (
        lambda: tw.Agent("a", **VARIABLES),
        "An agent has no variables=: its prompt has. Write tw.Agent('name', tw.Prompt('name', variables=…)).",
    ),
    (
        lambda: tw.tool(keyed),
        "Tool 'keyed': parameter 'key' has the type Secret, which only marks a tenv: make it a field of the tenvs= "
        "model, annotated Annotated[str, tw.Secret].",
    ),
    (
        lambda: tw.tool(method),
        "Tool 'method' is a method of no object yet: make the tool of a bound method, as in tw.tool(thing.method), or "
        "of a function.",
    ),
    (
        lambda: tw.tool(misnamed),
        "Tool 'misnamed': its docstring describes the argument 'qury', which it does not have; did you mean 'query'?",
    ),
    (
        lambda: tw.tool(stale),
        "Tool 'stale': its docstring describes the argument 'colour', which it does not have; it has: query.",
    ),
    (
        lambda: tw.Settings(*FIRST),
        "Settings must be given by name, as in tw.Settings(database_url='sqlite:///journal.db').",
    ),
    (
        lambda: tw.Prompt("p", tenvs={"": 1}),
        "Prompt 'p': tenvs has the name '': a name is printable, of 1 to 200 characters.",
    ),
    (
        lambda: tw.Agent("a", "p", tenvs={" ": 1}),
        "Agent 'a': tenvs has the name ' ': a name is printable, of 1 to 200 characters.",
    ),
    (lambda: tw.App(agents=WRONG), "App: agents must be a list of agents, not 5."),
    (lambda: tw.App(agents=[WRONG]), "App: agents must be a list of agents, not one with 5."),
    (lambda: tw.App(agents=AGENT), "App: agents must be a list of agents, not a value of the type Agent."),  # type: ignore[arg-type]  # misuse
    (lambda: tw.App(prompts=[WRONG]), "App: prompts must be a list of prompts, not one with 5."),
    (lambda: tw.App(tools=WRONG), "The tools of a toolset must be a list, not 5."),
    (lambda: tw.App(env=LIST), "App: env must be an object of names and values."),
    (lambda: TOOLS.filtered(WRONG), "Tools must be filtered by a function of a tool, not by 5."),
    (lambda: TOOLS.prefixed(WRONG), "What tools are prefixed with must be text, not 5."),
    (
        lambda: TOOLS.definitions(LIST),
        "The format [] is unknown. Choose one of 'openai', 'anthropic', 'mcp'.",
    ),
    (lambda: MemoryState(tenvs=WRONG), "The tenvs of a state must be a dict of names and values, not 5."),
    (
        lambda: tw.Settings(max_steps=TEXT),
        "The setting TOOLWRIGHT_MAX_STEPS is not valid: must be a whole number.",
    ),
    (
        lambda: tw.Settings(secret_keys=WRONG),
        "The setting TOOLWRIGHT_SECRET_KEYS is not valid: must be a list.",
    ),
    (lambda: tw.Settings(max_step=1), "There is no setting 'max_step' (did you mean max_steps?)."),  # type: ignore[call-arg]  # misuse
]

CLIENTS: list[tuple[Callable[[], object], str]] = [
    (lambda: Client(WRONG), "The base URL must be text, not 5."),
    (lambda: Client(URL, timeout=TEXT), "timeout must be a number of seconds above 0, not 'x'."),
    (lambda: Client(URL, silence=0), "silence must be a number of seconds above 0, not 0."),
]


@pytest.mark.parametrize(("declare", "sentence"), DECLARED, ids=[sentence[:60] for _, sentence in DECLARED])
def test_a_wrong_declaration_is_refused_in_one_sentence(declare: Callable[[], object], sentence: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        declare()
    assert refused.value.message == sentence


@pytest.mark.parametrize(("make", "sentence"), CLIENTS)
def test_a_client_of_nowhere_is_refused_in_one_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        make()
    assert refused.value.message == sentence


@pytest.mark.anyio
@pytest.mark.parametrize("name", [WRONG, LIST])
async def test_a_tool_that_is_called_by_no_name_answers_with_an_error(name: Any) -> None:
    result = await TOOLS.call(name, {})
    assert (result.status, result.error_code) == ("error", "unknown_tool")
    assert "A tool's name must be text" in (result.error or "")


@pytest.mark.anyio
async def test_files_in_memory_are_asked_for_by_text() -> None:
    state = MemoryState()
    for asked, message in (
        (state.list_files(WRONG), "A folder must be text, not 5."),
        (state.find_files(WRONG), "A pattern must be text, not 5."),
        (state.write_file("a", "b", WRONG), "A MIME type must be text, not 5."),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await asked
        assert refused.value.message == message
    assert await state.list_files() == []


@pytest.mark.anyio
async def test_a_runtime_takes_settings_only() -> None:
    app = tw.App()
    for opening in (app.runtime(WRONG), testing.runtime(app, WRONG)):
        with pytest.raises(DefinitionError, match="The settings of a runtime must be"):
            async with opening:
                pass


def test_what_is_declared_is_a_copy_of_what_was_given() -> None:
    env: dict[str, Any] = {"KEY": {"value": "k", "type": "text"}}
    tenvs: dict[str, Any] = {"place": {"city": ["Rome"]}}
    tools, names = [greet], ["KEY"]
    prompt = tw.Prompt("p", tools=tools, env=env, tenvs=tenvs)
    agent = tw.Agent("a", prompt, env=env, tenvs=tenvs, user_env=names)
    app = tw.App(agents=[agent], env=env)
    env["KEY"]["value"] = env["MORE"] = "changed"
    tenvs["place"]["city"].append("Oslo")
    tools.clear()
    names.clear()
    kept = {"KEY": {"value": "k", "type": "text"}}
    assert (prompt.env, agent.env, app.catalog.env) == (kept, kept, kept)
    assert prompt.tenvs == agent.tenvs == {"place": {"city": ["Rome"]}}
    assert (list(prompt.tools), list(agent.user_env)) == ([greet], ["KEY"])


def test_a_docstring_may_tell_of_the_state_and_of_what_a_partial_has_given() -> None:
    def act(prefix: str, state: tw.ThreadState, query: str) -> str:
        """Act.

        Args:
            prefix: What comes first.
            state: The thread.
            query: What for.
        """
        return prefix + query

    made = tw.tool(name="act")(functools.partial(act, "x"))
    assert list(made.parameters["properties"]) == ["query"]  # type: ignore[call-overload]  # it is an object


class Strange:
    def __class_getitem__(cls, _: object) -> Any:
        raise TypeError("There is none of this kind.")


def strange(thing: "Strange[int]") -> str:  # pyright: ignore[reportInvalidTypeArguments]  # resolving it raises
    """Ask."""
    return str(thing)


def unknown_prompt() -> tw.App:
    return tw.App(agents=[tw.Agent("a", "none")], prompts=[tw.Prompt("Dr.", "Be a doctor.")])


def configured() -> object:
    who = Identity(name="a")
    return read_agent({"agent": {"system": "Be."}, "tools": ["a..b"]}, who, {}, trusted=False)


@pytest.mark.parametrize(
    ("declare", "end"),
    [
        (lambda: tw.tool(strange), "its annotations cannot be read: There is none of this kind."),
        (unknown_prompt, "It has: Dr."),
        (lambda: checked_path("/a/../b"), "neither '.' nor '..'."),
        (
            lambda: tw.Prompt("p", tenvs={"a": float("nan")}),  # type: ignore[dict-item]  # invalid
            "tenvs must be JSON: a is nan, which JSON cannot represent.",
        ),
        (configured, "names the tool 'a..b'"),
    ],
)
def test_foreign_words_at_the_end_of_an_error_bring_no_second_full_stop(
    declare: Callable[[], object], end: str
) -> None:
    with pytest.raises(tw.ToolwrightError) as caught:
        declare()
    assert end in caught.value.message
    assert not caught.value.message.endswith("..")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It is so", "It is so."),
        ("It is so. ", "It is so."),
        ("Is it so?", "Is it so?"),
        ("And so on...", "And so on..."),
        ("The path is '..'", "The path is '..'."),
    ],
)
def test_a_sentence_has_one_full_stop(text: str, said: str) -> None:
    assert sentence(text) == said
    assert tw.ToolwrightError(said).message == said


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (KeyError("ZZ"), "KeyError: 'ZZ'"),
        (KeyError(5), "KeyError: 5"),
        (KeyError(), "KeyError"),
        (KeyError("no such", "shop"), "('no such', 'shop')"),
        (ValueError("'ZZ'"), "'ZZ'"),
        (IndexError("list index out of range"), "list index out of range"),
    ],
)
async def test_an_error_that_only_names_its_key_says_that_it_was_one(raised: Exception, said: str) -> None:
    @tw.tool(description="Fail.")
    async def fail() -> str:
        raise raised

    assert (await tw.Toolset([fail]).call("fail", {})).error == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 bytes"), (1, "1 byte"), (2, "2 bytes"), (1.5, "1.5 bytes")]
)
def test_one_is_no_plural(number: float, said: str) -> None:
    assert quantity(number, "byte") == said
    assert quantity(1, "property") == "1 property"
    assert quantity(3, "property") == "3 properties"


@pytest.mark.parametrize("wrong", ["false", 0, None, []])
@pytest.mark.parametrize("name", ["visible", "is_async", "read_only", "idempotent", "destructive", "lenient"])
def test_a_flag_of_a_tool_that_is_not_true_or_false_is_refused(name: str, wrong: Any) -> None:
    options: Any = {name: wrong}
    doors: list[Callable[[], object]] = [
        lambda: tw.Tool(name="greet", description="Greet.", kind="external", **options)
    ]
    if name != "is_async":
        doors.append(lambda: tw.tool(**options)(plain))
    for door in doors:
        with pytest.raises(DefinitionError, match=f"{name} must be true or false, not"):
            door()


@pytest.mark.parametrize("name", ["inbox_preview", "expose_as_tool", "shared_memory"])
def test_a_flag_of_an_agent_that_is_not_true_or_false_is_refused(name: str) -> None:
    options: Any = {name: "no"}
    with pytest.raises(DefinitionError, match=f"{name} must be true or false, not 'no'"):
        tw.Agent("a", "p", **options)


class WithFunction(BaseModel):
    """JSON Schema cannot describe its field."""

    rule: Callable[[int], int]


class Unfinished(BaseModel):
    """A class that its field names is never defined."""

    next: "Undefined"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


@pytest.mark.parametrize("declared", [WithFunction, Unfinished])
def test_a_class_that_pydantic_cannot_describe_is_an_error_of_its_declaration(declared: Any) -> None:
    doors: list[Callable[[], object]] = [
        lambda: tw.Agent("a", instructions="I.", output=declared),
        lambda: tw.Agent("a", instructions="I.", output=list[declared]),
        lambda: tw.Prompt("a", "p", output=declared),
        lambda: Output(declared),
        lambda: form_of(declared),
    ]
    for door in doors:
        with pytest.raises((DefinitionError, InvalidRequest), match=r"cannot be used: .*\.$") as caught:
            door()
        assert "\n" not in caught.value.message
        assert "http" not in caught.value.message


ODD_SCHEMA: Any = {
    "type": "object",
    "properties": {"a": {"type": "object", "required": "x" * 60_000}},
}
LOST_SCHEMA: Any = {
    "type": "object",
    "properties": {"a": {"$ref": f"https://a.example/{'x' * 60_000}"}},
}


@pytest.mark.parametrize("schema", [ODD_SCHEMA, LOST_SCHEMA], ids=["odd", "lost"])
@pytest.mark.parametrize("name", ["t", "t" * 190])
def test_an_invalid_schema_is_named_with_its_place_in_few_words(schema: Any, name: str) -> None:
    said: list[str] = []
    written = {"name": name, "description": "T.", "executionType": "external"}
    doors: list[Callable[[], object]] = [
        lambda: tw.Tool(name=name, description="T.", kind="internal", parameters=schema),
        lambda: tw.Tool.from_config({**written, "inputSchema": schema}),
        lambda: tw.Tool.from_schema(name, schema),
        lambda: Output(schema),
        lambda: read_agent(
            {"agent": {"system": "S."}, "tools": [{**written, "inputSchema": schema}]},
            Identity(name="a"),
            {},
            trusted=False,
        ),
    ]
    for door in doors:
        with pytest.raises(DefinitionError) as caught:
            door()
        said.append(caught.value.message)
    for each in said:
        assert ("a.required" in each or "a.$ref" in each, len(each) < 1_000) == (True, True), each[:2_000]
