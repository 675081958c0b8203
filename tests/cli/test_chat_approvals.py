"""`toolwright chat` with a call that needs an approval: the terminal user grants or refuses it."""

import pytest

from tests.cli.shell import Shell

APP = """
import toolwright as tw


@tw.tool(requires_approval=True)
async def pay(to: str, amount: int) -> str:
    '''Pay.'''
    return f"Paid {amount} to {to}"


@tw.tool(requires_approval=tw.Approval(edit=False, reason=False))
async def drop(table: str) -> str:
    '''Drop.'''
    return f"Dropped {table}"


prompt = tw.Prompt("p", "Act.", model="scripted:script.yaml", tools=[pay, drop])
app = tw.App(agents=[tw.Agent("clerk", prompt)])
"""
SCRIPT = """
- {when: pay, calls: [{name: pay, args: {to: Ann, amount: 5}}]}
- {when: drop, calls: [{name: drop, args: {table: users}}]}
- text: Well.
"""
ASKED = ' ? May pay(to="Ann", amount=5) be called?'


@pytest.fixture
def clerk(empty: Shell) -> Shell:
    empty.write("app.py", APP)
    empty.write("script.yaml", SCRIPT)
    empty.env["TOOLWRIGHT_DATABASE_URL"] = "memory://"
    return empty


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        ("y\n", "✓ Paid 5 to Ann  "),
        ("YES\n", "✓ Paid 5 to Ann  "),
        ("perhaps\n\ny\n", "✓ Paid 5 to Ann  "),
        ("n\n", "✗ The call was not approved.  "),
        ("no too much\n", "✗ The call was not approved: too much  "),
        ('e\n{"to": "Bob", "amount": 1}\n', ' → pay(to="Bob", amount=1)\n   ✓ Paid 1 to Bob  '),
        ('e\n{"to": "Bob"\ny\n', "✓ Paid 5 to Ann  "),
        ('e\n{"to": "Bob", "amount": "1"}\nn\n', "✗ The call was not approved.  "),
        ("", "✗ The call was not approved.  "),
    ],
)
def test_a_line_approves_refuses_or_edits_the_call(clerk: Shell, typed: str, result: str) -> None:
    done = clerk.run("chat", "clerk", typed=f"pay\n{typed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert ASKED in done.stdout
    assert "   [y]es / [n]o (and why) / [e]dit: " in done.stdout
    assert "waiting for" not in done.stdout
    assert result in done.stdout
    assert "clerk  Well." in done.stdout


def test_only_what_its_terms_allow_is_offered(clerk: Shell) -> None:
    shown = clerk.run("chat", "clerk", typed="drop\ne\nn never\ny\n").stdout
    assert "   [y]es / [n]o: " in shown
    assert "reason is not taken for this call" in shown
    assert "✓ Dropped users" in shown
