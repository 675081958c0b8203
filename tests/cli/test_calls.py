"""`toolwright calls`, `approve` and `reject`: the calls that wait, answered from another process."""

import asyncio
import json
import os
import pwd

from tests.cli.shell import Shell
from tests.cli.test_runs import SERVE, begin, ended
from tests.cli.test_serve import url_of
from toolwright.client import Client

APP = """
from pathlib import Path

import toolwright as tw
from toolwright.testing import FunctionModel

@tw.tool(requires_approval=True)
async def pay(to: str, amount: int) -> str:
    '''Pay.'''
    with Path("paid").open("a") as file:
        print(to, amount, file=file)
    return f"Paid {to}."

ask = tw.Tool(name="ask", description="Ask elsewhere.", kind="external", parameters={"type": "object"})

def answer(messages):
    if messages[-1].role == "tool":
        return {"text": messages[-1].content}
    name, args = ("pay", {"to": "Ann", "amount": 5}) if "Pay" in messages[-1].content else ("ask", {"text": "?"})
    return {"calls": [{"name": name, "args": args}]}

app = tw.App(agents=[tw.Agent("clerk", model=FunctionModel(answer), tools=[pay, ask])])
"""


def listed(shell: Shell, *options: str) -> list[list[str]]:
    done = shell.run("calls", *options)
    assert done.returncode == 0
    return [line.split("\t") for line in done.stdout.splitlines()]


async def decisions(url: str, run_id: str) -> list[tuple[str, str, dict[str, str]]]:
    async with Client(url) as client:
        calls = await client.calls.list(status=["done", "resolved"], run_id=run_id)
    decided = [each.decision for each in calls if each.decision is not None]
    return [(each.action, each.door, each.by.model_dump()) for each in decided]


def paid(shell: Shell) -> list[str]:
    file = shell.folder / "paid"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_a_call_that_waits_over_a_kill_is_approved_by_another_process_and_executed_once(shell: Shell) -> None:
    shell.write("runs_app.py", APP)
    with shell.start(*SERVE) as server:
        run_id = asyncio.run(begin(url_of(server), "clerk", "waiting", "Pay Ann."))
        server.process.kill()
    [[call_id, awaited, tool, arguments, _, run, *_]] = listed(shell)
    assert (awaited, tool, json.loads(arguments), run) == (
        "approval",
        "pay",
        {"to": "Ann", "amount": 5},
        run_id,
    )
    done = shell.run("approve", call_id)
    assert (done.stdout, done.stderr) == (
        f"The call {call_id} of 'pay' is approved. A process that executes runs continues the run {run_id}.\n",
        "",
    )
    assert shell.run("calls").stderr == "No call waits.\n"
    code, line = shell.refused("approve", call_id)
    assert (code, line) == (
        1,
        "toolwright: Tool call already approved (toolwright errors call_resolved)",
    )
    with shell.start(*SERVE) as server:
        assert asyncio.run(ended(url_of(server), run_id)) == "completed"
    assert paid(shell) == ["Ann 5"]


def test_calls_are_answered_beside_a_server(shell: Shell) -> None:
    shell.write("runs_app.py", APP)
    with shell.start(*SERVE) as server:
        url = url_of(server)
        edited, rejected, asked = [
            asyncio.run(begin(url, "clerk", "waiting", text)) for text in ("Pay Ann.", "Pay Ann.", "Ask.")
        ]
        [[call_id, *_]] = listed(shell, "--run", edited)
        for wrong, words in (
            ("{", "The arguments are not JSON"),
            ("[]", "must be a JSON object"),
            ('{"to": "Ann"}', "The tool does not take these arguments: amount: is missing"),
        ):
            _, line = shell.refused("approve", call_id, "--args", wrong)
            assert words in line
        shell.run("approve", call_id, "--args", '{"to": "Ann", "amount": 3}', "--app", "runs_app:app")
        assert asyncio.run(ended(url, edited)) == "completed"

        [[call_id, *_]] = listed(shell, "--run", rejected)
        assert "is rejected." in shell.run("reject", call_id, "--reason", "Too much.").stdout
        assert asyncio.run(ended(url, rejected)) == "completed"
        assert "not approved: Too much." in shell.run("runs", "show", rejected).stdout

        [[call_id, awaited, *_]] = listed(shell)
        assert awaited == "result"
        code, line = shell.refused("approve", call_id)
        assert (code, line) == (2, f"toolwright: The call {call_id} of 'ask' needs no approval.")
        decided = asyncio.run(decisions(url, rejected))
        user = pwd.getpwuid(os.getuid()).pw_name
        assert decided == [("rejected", "cli", {"kind": "host", "id": user, "name": user})]
        assert listed(shell, "--run", asked) != []
    assert paid(shell) == ["Ann 3"]


def test_without_a_database_or_with_an_unknown_call_nothing_is_changed(shell: Shell) -> None:
    code, line = shell.refused("calls")
    assert (code, "toolwright.db" in line, (shell.folder / "toolwright.db").exists()) == (1, True, False)
    shell.write("runs_app.py", APP)
    with shell.start(*SERVE) as server:
        url_of(server)
        code, line = shell.refused("reject", "call_none")
    assert (code, "Pending tool call not found" in line) == (1, True)
