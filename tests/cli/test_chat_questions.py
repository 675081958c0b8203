"""`toolwright chat` with a handler that asks a question: the terminal user answers."""

import pytest

from tests.cli.shell import Shell

APP = """
from typing import Literal

import toolwright as tw
from pydantic import BaseModel


class Trip(BaseModel):
    city: str
    days: int = 3
    kind: Literal["train", "plane"] = "train"


@tw.tool(timeout=5.0)
async def plan(state: tw.ThreadState) -> str:
    '''Plan a trip.'''
    answer = await state.elicit("Where to?", Trip)
    return f"{answer.action} {answer.content}"


@tw.tool(timeout=5.0)
async def pay(state: tw.ThreadState) -> str:
    '''Pay.'''
    return (await state.elicit("Please pay.", url="https://shop.example/pay")).action


prompt = tw.Prompt("p", "Plan.", model="scripted:script.yaml", tools=[plan, pay])
app = tw.App(agents=[tw.Agent("planner", prompt)])
"""
SCRIPT = """
- {when: trip, calls: [{name: plan, args: {}}]}
- {when: pay, calls: [{name: pay, args: {}}]}
- text: Good day.
- text: Well.
"""


@pytest.fixture
def planner(empty: Shell) -> Shell:
    empty.write("app.py", APP)
    empty.write("script.yaml", SCRIPT)
    empty.env["TOOLWRIGHT_DATABASE_URL"] = "memory://"
    return empty


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        ("Rome\n\n\n", "accept {'days': 3, 'kind': 'train', 'city': 'Rome'}"),
        ("Rome\n5\nplane\n", "accept {'city': 'Rome', 'days': 5, 'kind': 'plane'}"),
        ("42\n1\n\n", "accept {'kind': 'train', 'city': '42', 'days': 1}"),
        ("Rome\nmany\n\nRome\n2\n\n", "accept {'kind': 'train', 'city': 'Rome', 'days': 2}"),
        ("Rome\n/no\n", "decline None"),
        ("Rome\n", "cancel None"),
        ("", "cancel None"),
    ],
)
def test_each_line_is_a_field_of_the_answer(planner: Shell, typed: str, result: str) -> None:
    done = planner.run("chat", "planner", typed=f"trip\n{typed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert " ? Where to? (/no declines)" in done.stdout
    assert "   days (integer; 3 unless given): " in done.stdout or not typed
    assert f"✓ {result}  " in done.stdout


def test_an_answer_that_does_not_fit_is_reported_and_asked_for_again(planner: Shell) -> None:
    shown = planner.run("chat", "planner", typed="trip\nRome\nmany\n\nRome\n2\n\n").stdout
    assert "days: must be an integer" in shown
    assert shown.count("   city (text): Rome") == 2


@pytest.mark.parametrize(("typed", "action"), [("\n", "accept"), ("/no\n", "decline")])
def test_a_question_without_fields_is_agreed_to_or_declined(planner: Shell, typed: str, action: str) -> None:
    shown = planner.run("chat", "planner", typed=f"pay\n{typed}").stdout
    assert "https://shop.example/pay" in shown
    assert f"✓ {action}  " in shown


def test_the_lines_after_an_answer_are_messages_again(planner: Shell) -> None:
    shown = planner.run("chat", "planner", typed="pay\n\nhello\n").stdout
    assert "you  hello" in shown


def test_ctrl_c_takes_the_question_back_and_the_conversation_goes_on(planner: Shell) -> None:
    with planner.start_anew("chat", "planner") as chat:
        chat.say("trip")
        chat.until("Where to?")
        chat.ctrl_c()
        chat.until("· cancelled")
        chat.say("hello")
        chat.until("you  hello")
        chat.until("planner  ")
        chat.say("/quit")
        assert chat.end() == 0
