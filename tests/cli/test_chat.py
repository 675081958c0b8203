"""`toolwright chat`, with a scripted model."""

import os
import pty
import subprocess

from tests.cli.shell import COMMAND, PATIENCE, Shell


def test_lines_are_answered_one_after_another_and_calls_are_shown(shell: Shell) -> None:
    done = shell.run("chat", "helper", typed="hello\n\nplease add\nplease fail\n")
    shown = done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert shown.count("you  ") == 4
    in_order = [
        "you  hello", "helper  Good day to you.", "you  please add", "→ add(a=2, b=3)", "✓ 5  ",
        "helper  The sum is five.", "→ fail()", "✗ it is closed", "helper  The shop is closed.",
    ]  # fmt: skip
    places = [shown.index(text) for text in in_order]
    assert places == sorted(places)


def test_quit_ends_the_conversation(shell: Shell) -> None:
    done = shell.run("chat", "helper", typed="/quit\nhello\n")
    assert done.returncode == 0
    assert "Good day" not in done.stdout


def test_a_failed_run_is_said_and_the_exit_code_is_1(shell: Shell) -> None:
    done = shell.run("chat", "helper", typed="refuse\n")
    assert (done.returncode, done.stderr) == (1, "")
    assert "failed: The key is wrong." in done.stdout


def test_model_takes_the_place_of_the_agents_own(shell: Shell) -> None:
    shell.write(
        "app.py",
        (shell.folder / "app.py").read_text().replace('"Help."', '"Help.", model="openai:gpt-6.1-terra"'),
    )
    shell.write("other.yaml", "- text: Another voice.\n")
    done = shell.run("chat", "helper", "--model", "scripted:other.yaml", typed="hello\n")
    assert "helper  Another voice." in done.stdout


def test_input_may_be_a_file_or_nothing_at_all(shell: Shell) -> None:
    shell.write("lines.txt", "hello")
    with (shell.folder / "lines.txt").open() as lines:
        done = subprocess.run(
            [*COMMAND, "chat", "helper"],
            cwd=shell.folder,
            env=os.environ | shell.env,
            stdin=lines,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert "Good day" in done.stdout


def test_ctrl_c_cancels_the_run_and_the_conversation_goes_on(shell: Shell) -> None:
    with shell.start_anew("chat", "helper") as chat:
        chat.say("stop")
        chat.until("→ wait_for_stop()")
        chat.ctrl_c()
        chat.until("· cancelled")
        chat.say("hello")
        chat.until("Good day to you.")
        chat.say("/quit")
        assert chat.end() == 0


def test_a_second_ctrl_c_quits_even_while_a_tool_hangs(shell: Shell) -> None:
    with shell.start("chat", "helper") as chat:
        chat.say("hang")
        chat.until("→ hang()")
        chat.ctrl_c()
        chat.until("Ctrl-C again quits")
        chat.ctrl_c()
        chat.process.wait(PATIENCE)  # before `end` closes its input
        assert chat.end() == 130
    assert "Traceback" not in chat.shown


def test_ctrl_c_while_nothing_runs_quits(shell: Shell) -> None:
    with shell.start("chat", "helper") as chat:
        chat.until("helper · scripted:script.yaml · thr_")
        chat.ctrl_c()
        chat.process.wait(PATIENCE)  # before `end` closes its input
        assert chat.end() == 130


def test_another_process_can_execute_the_runs(shell: Shell) -> None:
    with shell.start("serve", "app:app", "--port", "0") as server:
        server.until("Toolwright serves app:app at http://127.0.0.1:")
        done = shell.run("chat", "helper", typed="please add\n")
        assert done.returncode == 0
        assert "Another process executes the runs of this database" in done.stderr
        assert "→ add(a=2, b=3)" in done.stdout
        assert "helper  The sum is five." in done.stdout
        server.ctrl_c()
        assert server.end() == 0


def test_at_a_terminal_text_is_typed_behind_a_prompt(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    env = os.environ | shell.env | {"TERM": "dumb"}
    with subprocess.Popen(
        [*COMMAND, "chat", "helper"], cwd=shell.folder, stdin=theirs, stdout=theirs, env=env
    ) as process:
        os.close(theirs)
        shown = ""
        while "you  " not in shown:
            shown += os.read(ours, 65_536).decode()
        os.write(ours, b"hello\n")
        while "Good day to you." not in shown:
            shown += os.read(ours, 65_536).decode()
        os.write(ours, b"\x04")
        assert process.wait(PATIENCE) == 0
    os.close(ours)


def test_deps_are_those_of_each_run_and_invalid_ones_are_refused(shell: Shell) -> None:
    shell.write("app.py", DEPS_APP)
    done = shell.run("chat", "desk", "--deps", '{"id": 7}', typed="hello\n")
    assert (done.returncode, "desk  Customer 7." in done.stdout) == (0, True)
    for given, error in (("[7]", "--deps must be a JSON object."), ('{"id": "x"}', "deps.id")):
        done = shell.run("chat", "desk", "--deps", given, typed="hello\n")
        assert (done.returncode != 0, error in done.stdout + done.stderr) == (True, True)


DEPS_APP = """
from pydantic import BaseModel

import toolwright as tw
from toolwright.testing import FunctionModel


class Customer(BaseModel):
    id: int


READ = []


def brief(state: tw.ThreadState[Customer]) -> str:
    READ.append(f"Customer {state.deps.id}.")
    return READ[-1]


model = FunctionModel(lambda messages: {"text": READ[-1]})
app = tw.App(agents=[tw.Agent("desk", instructions=brief, model=model, deps=Customer)])
"""
