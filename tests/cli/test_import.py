"""`toolwright threads import`: each line is a thread once, errors name the line, and an interrupted import goes on."""

import asyncio
import json
import signal
from collections.abc import Sequence

from tests.cli.shell import Shell
from toolwright.core.json_value import JSON
from toolwright.core.threads.message import Message
from toolwright.core.threads.thread import Thread
from toolwright.wiring.app import App
from toolwright.wiring.settings import Settings
from toolwright.wiring.upkeep import opened_runtime

APP = """
import toolwright as tw

app = tw.App(agents=[tw.Agent(name, instructions="Help.", model="test") for name in ("clerk", "other")])
"""
HI: JSON = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def written(shell: Shell, *lines: JSON) -> None:
    shell.write("app.py", APP)
    shell.write(
        "old.jsonl", "\n".join([each if isinstance(each, str) else json.dumps(each) for each in lines])
    )


def stored(shell: Shell) -> list[tuple[Thread, Sequence[Message]]]:
    """Return the threads of the journal with their messages, oldest first."""

    async def read() -> list[tuple[Thread, Sequence[Message]]]:
        settings = Settings(database_url=f"sqlite:///{shell.folder / 'toolwright.db'}")
        async with opened_runtime(settings, App()) as rt:
            return [
                (each, await rt.threads.messages(each.id)) for each in await rt.threads.list(limit=10_000)
            ]

    return asyncio.run(read())


def test_each_conversation_of_a_file_becomes_a_thread_once(shell: Shell) -> None:
    picture: JSON = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    line: JSON = {
        "messages": [{"role": "user", "content": [picture]}],
        "key": "ticket 7",
        "user": "ada",
        "tags": ["old"],
        "agent": "other",
        "tools": [],
    }
    written(shell, HI, "", line)
    imported = ("threads", "import", "old.jsonl", "--agent", "clerk", "--user", "bob")
    done = shell.run(*imported)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Conversations: 2 imported. Database: sqlite:///toolwright.db.\n"
    first, second = sorted(stored(shell), key=lambda each: str(each[0].user_id), reverse=True)
    assert (first[0].user_id, [each.content for each in first[1]]) == ("bob", ["Hi", "Hello"])
    assert (second[0].user_id, second[0].key, second[0].tags) == ("ada", "ticket 7", ("old",))
    assert [each.path for each in second[1][0].attachments] == ["/attachments/image.png"]
    again = shell.run(*imported)
    assert again.stdout.startswith("Conversations: 0 imported, 2 already there.")
    assert len(stored(shell)) == 2


def test_an_error_names_its_line_and_the_others_are_imported(shell: Shell) -> None:
    lines: list[JSON] = [
        HI,
        "{no",
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": ""}]},
        {"messages": HI, "usr": "ada"},
        {"key": "k"},
        7,
        {"messages": HI, "agent": "nobody"},
        {"messages": HI, "format": "gemini"},
    ]
    written(shell, *lines)
    done = shell.run("threads", "import", "old.jsonl", "--agent", "clerk")
    assert (done.returncode, done.stdout.partition(" Database")[0]) == (
        1,
        "Conversations: 1 imported, 7 failed.",
    )
    errors = done.stderr.splitlines()
    beginnings = (
        "toolwright: line 2: This is not JSON: ",
        "toolwright: line 3: messages.0 answers the call 'c', which no earlier message makes.",
        "toolwright: line 4: A line has no field 'usr'. Did you mean 'user'?",
        "toolwright: line 5: messages is missing.",
        "toolwright: line 6: A line must be a list of messages or an object, not 7.",
        "toolwright: line 7: There is no agent 'nobody'.",
        "toolwright: line 8: format must be 'toolwright', ",
    )
    for error, beginning in zip(sorted(errors), beginnings, strict=True):
        assert error.startswith(beginning)


def test_a_missing_file_or_agent_is_one_line(shell: Shell) -> None:
    written(shell, HI)
    code, line = shell.refused("threads", "import", "new.jsonl", "--agent", "clerk")
    assert (code, line) == (2, "toolwright: The file 'new.jsonl' cannot be read: No such file or directory.")
    code, line = shell.refused("threads", "import", "old.jsonl", "--agent", "nobody")
    assert code == 1 and "There is no agent 'nobody'." in line
    done = shell.run("threads", "import", "-", typed=json.dumps(HI))
    assert "line 1: agent is missing: name it in the line, or with --agent." in done.stderr


def test_an_interrupted_import_goes_on_where_it_was(shell: Shell) -> None:
    count = 3_000
    lines: list[JSON] = [[{"role": "user", "content": f"Hi {n}"}] for n in range(count)]
    written(shell, *lines)
    arguments = ("threads", "import", "old.jsonl", "--agent", "clerk")
    with shell.start(*arguments) as importing:
        importing.until("Conversations: ")  # the progress after a thousand lines
        importing.process.send_signal(signal.SIGKILL)
        importing.process.wait(60)
    before = {thread.id for thread, _ in stored(shell)}
    assert before
    done = shell.run(*arguments)
    assert done.returncode == 0
    after = stored(shell)
    assert before <= {thread.id for thread, _ in after}
    assert sorted(messages[0].content for _, messages in after) == sorted(f"Hi {n}" for n in range(count))
