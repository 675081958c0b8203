"""`toolwright runs`: with a running server and without one."""

import asyncio
import json
import re
import signal

from tests.cli.shell import Shell
from tests.cli.test_serve import url_of
from toolwright.client import Client
from toolwright.core.threads.run import RunStatus

APP = """
from pathlib import Path

import toolwright as tw
from toolwright.testing import FunctionModel, ScriptedModel

@tw.tool(requires_approval=True)
async def pay(to: str) -> str:
    '''Pay.'''
    return f"Paid {to}"

def answer(request):
    if not Path("mended").exists():
        raise tw.errors.ModelError("The provider\\nsays no.")
    return {"text": "Mended."}

def agent(name, model, *tools):
    return tw.Agent(name, tw.Prompt("p", "Help.", model=model, tools=list(tools)))

paying = ScriptedModel([{"calls": [{"name": "pay", "args": {"to": "Ann"}}]}, {"text": "Done."}])
app = tw.App(agents=[agent("clerk", paying, pay), agent("broken", FunctionModel(answer))])
"""
SPAN = re.compile(r"[\d.]+ m?s|\d+ min \d+ s")
SERVE = ("serve", "runs_app:app", "--port", "0")


async def begin(url: str, agent: str, status: RunStatus, text: str = "Go.") -> str:
    """Start a run of the agent and wait until it has that status."""
    async with Client(url) as client:
        thread = await client.threads.create(agent)
        sent = await client.threads.send(thread.id, text)
        async with asyncio.timeout(30):
            async for _ in client.runs.follow(sent.run_id, after=0):
                if (await client.runs.get(sent.run_id)).status == status:
                    break
    return sent.run_id


async def ended(url: str, run_id: str) -> str:
    async with Client(url) as client:
        return (await client.runs.wait(run_id, 30)).status


def listed(shell: Shell, *options: str) -> list[list[str]]:
    done = shell.run("runs", "list", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_runs_are_listed_shown_cancelled_and_retried_beside_a_server(shell: Shell) -> None:
    shell.write("runs_app.py", APP)
    with shell.start(*SERVE) as server:
        url = url_of(server)
        failed = asyncio.run(begin(url, "broken", "failed"))
        waiting = asyncio.run(begin(url, "clerk", "waiting"))
        assert [row[:2] for row in listed(shell)] == [[waiting, "waiting"], [failed, "failed"]]
        [[_, _, _, _, _, lasts, call, error]] = listed(shell, "--status", "failed")
        assert "says no." in error
        assert (SPAN.fullmatch(lasts) is not None, call) == (True, "")
        [[*_, lasts, call, error]] = listed(shell, "--status", "waiting")
        assert SPAN.fullmatch(lasts)
        assert call.startswith("pay waiting ") and SPAN.fullmatch(call.removeprefix("pay waiting "))
        by_name = ("--app", "runs_app:app", "--agent", "clerk")
        [[run_id, _, name, *_]] = listed(shell, *by_name, "--limit", "1")
        assert (run_id, name) == (waiting, "clerk")

        shown = json.loads(shell.run("runs", "show", waiting).stdout)
        assert (shown["status"], shown["waiting"]["reason"]) == ("waiting", "approval")
        assert shown["steps"][0]["messages"][-1]["toolName"] == "pay"

        prompts = shell.run("runs", "show", waiting, "--prompt", "--app", "runs_app:app").stdout
        assert "── Step 1 " in prompts and "Nothing was left out." in prompts
        for part in ("[System]\nHelp.\n", "[Tools] pay\n", "[User]\nGo.\n", "Parts: system "):
            assert part in prompts
        assert prompts == shell.run("show", waiting, "--prompt", "--app", "runs_app:app").stdout
        [prompt] = json.loads(shell.run("runs", "show", waiting, "--prompt", "--json").stdout)["prompts"]
        assert prompt["system"] == "Help."

        assert "was requested" in shell.run("runs", "cancel", waiting).stdout
        assert asyncio.run(ended(url, waiting)) == "cancelled"
        code, line = shell.refused("runs", "cancel", waiting)
        assert (code, line) == (
            1,
            f"toolwright: The run '{waiting}' has already finished. (toolwright errors run_over)",
        )

        shell.write("mended", "")
        assert "was queued again" in shell.run("runs", "retry", failed).stdout
        assert asyncio.run(ended(url, failed)) == "completed"
        code, line = shell.refused("runs", "retry", failed)
        assert (code, "only a failed run can be retried" in line) == (1, True)


TALKER = """
import toolwright as tw
from toolwright.testing import FunctionModel

def answer(messages):
    return {"text": "SUMMARY" if "End of the transcript" in messages[-1].content else f"{len(messages)} messages."}

context = tw.Context(max_tokens=2_000)
app = tw.App(agents=[tw.Agent("talker", tw.Prompt("p", "Talk.", model=FunctionModel(answer), context=context))])
"""


def test_what_is_left_out_of_a_thread_is_shown_edited_and_removed(shell: Shell) -> None:
    shell.write("app.py", TALKER)

    async def talk(url: str, *texts: str) -> tuple[str, str]:
        async with Client(url) as client:
            thread = threads[0] if (threads := await client.threads.list()) else None
            thread = thread or await client.threads.create("talker")
            run_id = ""
            for text in texts:
                run_id = (await client.threads.send(thread.id, text)).run_id
                assert (await client.runs.wait(run_id, 30)).status == "completed"
            return thread.id, run_id

    async def last_message(url: str, thread_id: str) -> str:
        async with Client(url) as client:
            return (await client.threads.messages(thread_id, 1_000))[-1].id

    with shell.start("serve", "app:app", "--port", "0") as server:
        url = url_of(server)
        thread_id, run_id = asyncio.run(talk(url, "Hello."))
        none = shell.run("threads", "summary", thread_id)
        assert (none.stdout, none.stderr) == ("", "No message of the thread's conversation is omitted.\n")
        code, line = shell.refused("threads", "summary", thread_id, "--edit", "Tea.")
        assert (code, "No compaction leaves out messages" in line) == (1, True)
        _, run_id = asyncio.run(talk(url, *[f"{number} " + "word " * 150 for number in range(40)]))
        shown = shell.run("threads", "summary", thread_id).stdout
        assert "Left out: messages up to " in shown and "SUMMARY" in shown
        prompt = shell.run("runs", "show", run_id, "--prompt").stdout
        assert "Summary of messages up to " in prompt and "summary " in prompt and "SUMMARY" in prompt
        message_id = asyncio.run(last_message(url, thread_id))
        hidden = shell.run("threads", "hide", thread_id, message_id).stdout
        assert hidden == f"Hidden: assistant {message_id}\n"
        assert shell.run("threads", "hide", thread_id, message_id, "--undo").stdout == hidden.replace(
            "Hidden", "Sent again"
        )
        edited = shell.run("threads", "summary", thread_id, "--edit", "Ada wants tea.").stdout
        assert "edited by service:cli" in edited and "Ada wants tea." in edited
        _, run_id = asyncio.run(talk(url, "Go on."))
        assert "Ada wants tea." in shell.run("runs", "show", run_id, "--prompt").stdout
        code, line = shell.refused("threads", "summary", thread_id, "--edit", "Tea.", "--remove")
        assert (code, "not both" in line) == (2, True)
        removed = shell.run("threads", "summary", thread_id, "--remove")
        assert (removed.returncode, "Tea" in removed.stdout) == (0, False)


def test_a_run_that_is_cancelled_without_a_server_ends_at_the_next_start(shell: Shell) -> None:
    shell.write("runs_app.py", APP)
    with shell.start(*SERVE) as server:
        waiting = asyncio.run(begin(url_of(server), "clerk", "waiting"))
        server.process.send_signal(signal.SIGTERM)
        server.end()
    assert shell.run("runs", "cancel", waiting).returncode == 0
    with shell.start(*SERVE) as server:
        assert asyncio.run(ended(url_of(server), waiting)) == "cancelled"


def test_what_cannot_be_done_is_one_line(shell: Shell) -> None:
    for command in ("show", "cancel", "retry"):
        code, line = shell.refused("runs", command, "run_1")
        assert (code, "There is no database" in line) == (1, True)
    assert shell.run("db", "upgrade").returncode == 0
    none = shell.run("runs", "list", "--agent", "nobody")
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "There are no such runs.\n")
    for command in ("show", "cancel", "retry"):
        assert shell.refused("runs", command, "run_1") == (
            1,
            "toolwright: There is no run 'run_1'. (toolwright errors not_found)",
        )
    code, line = shell.refused("runs", "list", "--status", "lost")
    assert (code, line.partition("'lost'")[0]) == (2, "toolwright: Invalid value for '--status': ")


def test_an_agent_is_named_as_the_app_of_the_folder_has_it(shell: Shell) -> None:
    shell.write("app.py", APP)
    with shell.start("serve", "app:app", "--port", "0") as server:
        waiting = asyncio.run(begin(url_of(server), "clerk", "waiting"))
        [[run_id, _, name, *_]] = listed(shell, "--agent", "clerk")
        assert (run_id, name) == (waiting, "clerk")
    shell.write("app.py", "1 / 0")
    [[run_id, *_]] = listed(shell)  # this command needs no app
    assert run_id == waiting
    assert "ZeroDivisionError" in shell.refused("runs", "list", "--agent", "clerk")[1]
