"""`toolwright chat` with an external call: the terminal user submits the result."""

import pytest

from tests.cli.shell import Shell

APP = """
import toolwright as tw

clerk = tw.Tool(
    name="ask_clerk",
    description="Ask the clerk.",
    kind="external",
    timeout={timeout},
    parameters={{
        "type": "object",
        "properties": {{"city": {{"type": "string"}}, "nights": {{"type": "integer"}}, "late": {{"type": "boolean"}}}},
        "required": ["city"],
    }},
)
plain = tw.Tool(name="ring", description="Ring.", kind="external", timeout={timeout})
prompt = tw.Prompt("p", "Act.", model="scripted:script.yaml", tools=[clerk, plain])
app = tw.App(agents=[tw.Agent("desk", prompt)])
"""
SCRIPT = """
- {when: book, calls: [{name: ask_clerk, args: {city: Rome, nights: 2}}]}
- {when: ring, calls: [{name: ring, args: {}}]}
- {when: both, calls: [{name: ring, args: {}}, {name: ask_clerk, args: {city: Ulm}}]}
- text: Well.
"""


def desk(empty: Shell, timeout: float) -> Shell:
    empty.write("app.py", APP.format(timeout=timeout))
    empty.write("script.yaml", SCRIPT)
    empty.env["TOOLWRIGHT_DATABASE_URL"] = "memory://"
    return empty


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        ("Room 7\n", "✓ Room 7  "),
        ('\n{"room": 7}\n', '✓ {"room": 7}  '),
        ("null\n", "✓ null  "),
        ("/no\n", "✗ Declined.  "),
        ("/no we are full\n", "✗ we are full  "),
        ("/form\n\n3\ntrue\n", '✓ {"city": "Rome", "nights": 3, "late": true}  '),
        ("/form\nBonn\n/no\n", "✗ Declined.  "),
    ],
)
def test_a_line_or_a_form_is_the_result(empty: Shell, typed: str, result: str) -> None:
    done = desk(empty, 30.0).run("chat", "desk", typed=f"book\n{typed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert ' ? ask_clerk(city="Rome", nights=2) waits for its result.' in done.stdout
    assert "   text or JSON (/form asks for its fields, /no declines): " in done.stdout
    if "/form" in typed:
        assert "   city (text; 'Rome' unless given): " in done.stdout
    assert result in done.stdout
    assert "desk  Well." in done.stdout


def test_calls_of_one_answer_are_asked_for_one_after_another(empty: Shell) -> None:
    shown = desk(empty, 30.0).run("chat", "desk", typed="both\nnobody\nfull\n").stdout
    assert "   text or JSON (/no declines): nobody" in shown
    assert "✓ nobody" in shown
    assert "✓ full" in shown


def test_who_types_nothing_leaves_the_call_to_its_time_and_types_the_next_message(empty: Shell) -> None:
    with desk(empty, 0.2).start("chat", "desk") as chat:
        chat.say("ring")
        chat.until("waits for its result.")
        chat.until("Well.")
        assert "Tool timed out after 200ms" in chat.shown
        chat.say("Hello")
        chat.until("you  Hello")
        assert chat.end() == 0


def test_the_end_of_the_lines_leaves_the_call_to_others(empty: Shell) -> None:
    done = desk(empty, 0.2).run("chat", "desk", typed="ring\n")
    assert done.returncode == 0
    assert "Tool timed out after 200ms" in done.stdout
