"""`toolwright backup`, `restore`, `db upgrade`, `threads`, `runs`, `calls`, `approve`, `reject` and `nodes`."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from typer import confirm

from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, one_line, print_table, read_arguments, shown_url
from toolwright.cli.settings import operator, read_settings, the_app
from toolwright.core.errors import ThreadBusy
from toolwright.core.journal.units import IDLE
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import ALL_ROWS
from toolwright.core.text import brief, clean_text, quantity, spelled_out, time_span
from toolwright.core.threads import compaction
from toolwright.core.threads.approval import terms_from_json
from toolwright.core.threads.call import BEGUN, Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, RunStatus, Side
from toolwright.runtime.health import seconds_since
from toolwright.runtime.runtime import Runtime
from toolwright.wire.run import PARTS, SentPrompt, run_with_steps
from toolwright.wiring import upkeep
from toolwright.wiring.app import App
from toolwright.wiring.backups import back_up, restore
from toolwright.wiring.config import DEFAULT_FILE
from toolwright.wiring.settings import Settings
from toolwright.wiring.upkeep import delete_thread, opened_runtime

COLUMNS = ("run", "status", "agent", "thread", "created", "duration", "call", "error")
CALL_COLUMNS = ("call", "waits for", "tool", "arguments", "thread", "run", "waiting", "expires")
NODE_COLUMNS = ("node", "version", "busy", "slots", "clock", "last heartbeat", "state", "address")
MAX_ERROR = MAX_ARGUMENTS = 200  # characters


def write_backup(file: Path, *, force: bool) -> None:
    """Copy the journal with its files and its key, and print what was copied."""
    settings = read_settings()
    copy = run(back_up(settings, file, force=force))
    for digest in copy.damaged:
        print(f"toolwright: The file {digest} is damaged and is not in the backup.", file=sys.stderr)
    parts = [f"the database ({copy.size} bytes)", quantity(copy.files, "file")]
    parts += ["the key of its secrets"] if copy.has_key else []
    print(f"{shown_url(settings.database_url)} is backed up to {file}: {', '.join(parts)}.")
    if settings.encryption_keys:
        print(
            "Its secrets are encrypted with TOOLWRIGHT_ENCRYPTION_KEYS. Keep a copy of these keys in another place."
        )
    print(f"To serve it: TOOLWRIGHT_DATABASE_URL=sqlite:///{file} toolwright serve")


def restore_backup(file: Path) -> None:
    """Replace the journal with a backup, and print what was restored and where the previous journal is."""
    settings = read_settings()
    restored = run(restore(settings, file))
    for digest in restored.damaged:
        print(
            f"toolwright: The file {digest} is damaged in the backup and was not restored.", file=sys.stderr
        )
    if restored.missing:
        where = (
            "its folder of files belongs beside it"
            if settings.files_url is None
            else "copy them to the file store"
        )
        lost = quantity(restored.missing, "file")
        print(f"toolwright: The content of {lost} is missing in the backup: {where}.", file=sys.stderr)
    if restored.key == "previous":
        print(
            "toolwright: The backup has no key file. The key file of the previous database is used.",
            file=sys.stderr,
        )
    parts = [f"the database ({restored.size} bytes)", quantity(restored.files, "file")]
    parts += ["the key of its secrets"] if restored.key == "backup" else []
    print(f"{file} is restored to {shown_url(settings.database_url)}: {', '.join(parts)}.")
    if restored.aside is not None:
        print(f"The previous database is in {restored.aside}.")
    print(
        "Runs that were in progress continue when a server starts: see `toolwright runs list --status running`."
    )


def upgrade(backup: Path | None) -> None:
    """Migrate the database and print what changes, before and after. At a terminal, ask for confirmation first."""
    settings = read_settings()
    before = run(upkeep.revision(settings))
    place = shown_url(settings.database_url)
    steps = upkeep.steps(before)
    if backup is not None and before is None:
        raise Refusal(f"There is no database at {place} to back up. Leave out --backup.")
    if before is not None and steps:
        _announce(settings, place, before, steps, copies=backup is not None)
    if backup is not None and backup.is_file():
        raise Refusal(f"{str(backup)!r} already exists. Name another file for the copy.")
    if backup is not None:
        write_backup(backup, force=False)
    elif before is not None and steps and sys.stdin.isatty() and sys.stdout.isatty():
        confirm("Upgrade without a copy?", abort=True)
    after = run(upkeep.upgrade(settings))
    if after > upkeep.HEAD:
        print(f"{place} is at revision {after} of a newer version, which this version can use.")
    elif before == after:
        print(f"{place} is at the newest revision, {after}.")
    elif before is None:
        print(f"{place} was created at revision {after}.")
    else:
        print(f"{place} was upgraded from revision {before} to revision {after}.")
    note = run(upkeep.shrinkable(settings))
    if note is not None:
        print(note)


def _announce(
    settings: Settings, place: str, before: str, steps: list[tuple[str, str]], *, copies: bool
) -> None:
    """Print the steps of the upgrade, and how to make a copy that allows a rollback."""
    print(f"{place} is at revision {before}. The upgrade executes all of these steps, or none:")
    for revision, change in steps:
        print(f"  {revision}  {change}")
    if upkeep.remains_usable(before):
        print("Processes of the previous version can continue to use it.", flush=True)
    else:
        print("Older versions of Toolwright cannot open it afterwards.", flush=True)
    if copies:
        return
    how = "with --backup FILE" if settings.sqlite_path is not None else "with pg_dump"
    print(f"Only a copy allows a rollback: make one {how}.", flush=True)


def delete(thread_id: str, *, cancel: bool) -> None:
    """Delete a thread of the journal, also while a server uses the journal."""
    try:
        run(delete_thread(read_settings(), thread_id, cancel=cancel))
    except ThreadBusy as error:
        if cancel:
            raise
        raise ThreadBusy(
            f"A run is in progress in the thread {thread_id!r} or in a child thread. Cancel it with --cancel."
        ) from error
    print(f"The thread {thread_id} was deleted, with everything that belonged to it.")


def summary(thread_id: str, side: Side | None, text: str | None, target: str | None, *, remove: bool) -> None:
    """Edit or remove the summary if requested, then print which messages are omitted, and the summaries.

    A run in progress uses the change from its next step on.
    """
    app = _app_or_empty(target)

    async def read() -> Sequence[compaction.Compaction]:
        async with _runtime(app) as rt:
            if text is not None:
                await rt.threads.edit_summary(thread_id, text, side, by="service:cli")
            elif remove:
                await rt.threads.remove_summary(thread_id, side, by="service:cli")
            return compaction.in_force(await rt.threads.compactions(thread_id, ALL_ROWS))

    rows = [each for each in run(read()) if side is None or each.side == side]
    if not any(each.cut or each.cleared or each.bare for each in rows):
        print("No message of the thread's conversation is omitted.", file=sys.stderr)
    for row in rows:
        of_conversation = " of ".join(
            ["", *[each for each in (row.side, row.within and f"the call {row.within}") if each]]
        )
        print(
            "\n".join(
                [
                    f"── Conversation{of_conversation} " + "─" * 40,
                    *compaction.left_out(row),
                    *_printable_lines(row.text),
                ]
            )
        )


def hide_message(thread_id: str, message_id: str, target: str | None, *, hidden: bool) -> None:
    """Hide a message from models, or send it again, and print which messages were changed."""
    app = _app_or_empty(target)

    async def change() -> Sequence[Message]:
        async with _runtime(app) as rt:
            return await rt.threads.hide_message(thread_id, message_id, hidden, by="service:cli")

    for message in run(change()):
        print(f"{'Hidden' if hidden else 'Sent again'}: {message.role} {message.id}")


def list_runs(
    status: RunStatus | None, agent: str | None, thread_id: str | None, limit: int, target: str | None
) -> None:
    """Print runs of the journal, newest first, as a table; on a pipe, one line of tab-separated values for each."""
    app = _app_for(target, agent)

    names = {each.id: each.name for each in app.catalog.agents}

    async def read() -> list[tuple[str, ...]]:
        async with opened_runtime(read_settings(), app) as rt:
            runs = await rt.runs.list(status=status, agent=agent, thread_id=thread_id, limit=limit)
            now = datetime.now(UTC)
            return [
                _row(each, names.get(each.agent, each.agent), await _open_call(rt, each), now)
                for each in runs
            ]

    rows = run(read())
    if not rows:
        print("There are no such runs.", file=sys.stderr)
        return
    print_table(COLUMNS, rows)


def list_nodes() -> None:
    """Print the nodes of the cluster as a table; on a pipe, a header and a line of tab-separated values for each.

    Notes about the cluster are printed on stderr.
    """
    settings = read_settings()
    cluster = run(upkeep.cluster(settings))
    if cluster.nodes:
        rows = [
            (
                each.id,
                each.version,
                str(each.busy),
                str(each.slots),
                f"{each.skew / 1e6:+.3f} s",
                _ago(cluster.now - each.seen),
                "living" if each.is_alive(cluster.now) else f"dead since {each.seen:%Y-%m-%d %H:%M:%S} UTC",
                each.address,
            )
            for each in cluster.nodes
        ]
        print_table(NODE_COLUMNS, rows, has_header=True)
        overdue = seconds_since(cluster.depths.oldest_wake, cluster.now)
        print(f"The oldest unclaimed wake-up has been due for {overdue:.1f} s.", file=sys.stderr)
    elif settings.database_url.startswith("postgres"):
        print("There is no cluster on this database.", file=sys.stderr)
    else:
        print(
            "There is no cluster. A cluster needs a Postgres database: set TOOLWRIGHT_DATABASE_URL.",
            file=sys.stderr,
        )
        return
    if cluster.is_locked:
        print(f"{upkeep.ALONE[:1].upper()}{upkeep.ALONE[1:]}.", file=sys.stderr)
    elif not cluster.living:
        print(IDLE, file=sys.stderr)


def _ago(since: timedelta) -> str:
    return f"{max(since.total_seconds(), 0.0):.1f} s ago"


def show_run(run_id: str) -> None:
    """Print a run with its steps, as `GET /api/runs/:id` answers."""

    async def read() -> str:
        async with _runtime() as rt:
            stored = await rt.runs.get(run_id)
            document = run_with_steps(
                stored,
                await rt.runs.steps(run_id),
                await rt.runs.messages(run_id),
                await rt.runs.verdicts(run_id),
                for_service=True,
            )
            return json.dumps(document, indent=2)

    print(run(read()))


def show_prompts(run_id: str, target: str | None, *, as_json: bool) -> None:
    """Print the request to the model at each step of a run, with the tokens of its parts; as JSON if requested."""
    app = _app_or_empty(target)

    async def read() -> Sequence[compaction.SentPrompt]:
        async with _runtime(app) as rt:
            return await rt.sent_prompts.of_run(run_id, ALL_ROWS)

    prompts = run(read())
    if as_json:
        listed = [SentPrompt.of(each) for each in prompts]
        print(json.dumps({"prompts": listed}, indent=2))
        return
    if not prompts:
        print("No model has answered in this run yet.", file=sys.stderr)
    for each in prompts:
        print("\n".join(_prompt_lines(each)))


def _prompt_lines(prompt: compaction.SentPrompt) -> Iterator[str]:
    """Yield the lines of a prompt: its heading, its tokens, the omitted messages, and everything that was sent."""
    where = "" if prompt.within is None else f" within {prompt.within}"
    by = "".join(f", {each}" for each in (prompt.by, prompt.side) if each is not None)
    yield f"── Step {prompt.step}{where}{by} " + "─" * 40
    sent = prompt.sent
    if sent is None:
        yield compaction.NO_RECORD
        yield ""
        return
    counts = {"estimated": sent.tokens, "counted by the provider": sent.counted, "the most": sent.budget}
    counted = [f"{each:,} {name}" for name, each in counts.items() if each is not None]
    yield f"Tokens: {', '.join(counted) or 'not counted'}."
    parts = [f"{name} {prompt.parts.get(name, 0):,}" for name in PARTS if prompt.parts.get(name)]
    yield f"Parts: {', '.join(parts)}."
    yield from compaction.left_out(prompt.compaction)
    for title, text in (("System", prompt.system), ("State", prompt.changing)):
        if text:
            yield f"\n[{title}]"
            yield from _printable_lines(text)
    if prompt.tools:
        yield f"\n[Tools] {', '.join(str(each['name']) for each in prompt.tools)}"
    for each in prompt.messages:
        yield f"\n[{_heading(each)}]"
        yield from _printable_lines(each.content)
        for call in each.calls:
            yield from _printable_lines(f"→ {call.name}({call.arguments})")
        for file in each.attachments:
            yield from _printable_lines(f"File: {file.path}")
    yield ""


def _heading(message: Message) -> str:
    if message.role == "tool":
        return f"Result of {message.tool_name}, {message.call_id}"
    pinned = ", pinned" if message.pinned else ""
    hidden = "" if message.hidden_by is None else f", hidden by {message.hidden_by}"
    return f"{message.role.capitalize()}{pinned}{hidden}"


def _printable_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text without terminal control characters."""
    return (spelled_out(line) for line in text.splitlines())


def cancel_run(run_id: str) -> None:
    """Request the cancellation of a run."""

    async def ask() -> None:
        async with _runtime() as rt:
            await rt.runs.cancel(run_id, by=operator())

    run(ask())
    print(
        f"The cancellation of the run {run_id} was requested. The process that executes the run cancels it."
    )


def retry_run(run_id: str) -> None:
    """Continue a failed run from its last commit."""

    async def ask() -> None:
        async with _runtime() as rt:
            await rt.runs.retry(run_id, by=operator())

    run(ask())
    print(f"The run {run_id} was queued again. A process that executes runs continues it.")


def list_calls(run_id: str | None, limit: int) -> None:
    """Print the calls that wait, oldest first, as a table; on a pipe, one line of tab-separated values for each."""

    async def read() -> Sequence[Call]:
        async with _runtime() as rt:
            return await rt.calls.list(run_id=run_id, limit=limit)

    calls, now = run(read()), datetime.now(UTC)
    if not calls:
        print("No call waits.", file=sys.stderr)
        return
    print_table(CALL_COLUMNS, [_call_row(each, now) for each in calls])


def answer_call(
    call_id: str, arguments: str | None, reason: str | None, target: str | None, *, approved: bool
) -> None:
    """Approve or reject a call that waits for an approval, and print what becomes of it."""
    answer: JSONObject = {"approved": approved}
    if reason is not None:
        answer["reason"] = reason
    if arguments is not None:
        answer["args"] = read_arguments(arguments)
    app = _app_or_empty(target)  # its types validate the arguments

    async def submit() -> Call:
        async with _runtime(app) as rt:
            call = await rt.calls.row(call_id)
            if call.approval is None:
                raise Refusal(f"The call {call_id} of {call.name!r} needs no approval.")
            await rt.calls.submit(call.run_id, call_id, answer, by=operator())
            return call

    call = run(submit())
    print(
        f"The call {call_id} of {call.name!r} is {'approved' if approved else 'rejected'}. "
        f"A process that executes runs continues the run {call.run_id}."
    )


def _call_row(call: Call, now: datetime) -> tuple[str, ...]:
    why = terms_from_json(call.terms).why if call.awaits_approval else None
    awaited = "approval" if call.awaits_approval else "result"
    awaited = awaited if why is None else f"{awaited}: {brief(one_line(why), MAX_ARGUMENTS)}"
    since = time_span(now - (call.started_at or call.created_at))
    expires = "" if call.expires_at is None else call.expires_at.isoformat(timespec="seconds")
    arguments = brief(one_line(call.arguments), MAX_ARGUMENTS)
    return call.id, awaited, call.name, arguments, call.thread_id, call.run_id, since, expires


def _app_for(target: str | None, agent: str | None) -> App:
    """Return the app of the target, or the app in this folder if an agent is named without a target."""
    is_name = agent is not None and not agent.startswith("agt_")
    return the_app(target) if target is not None or (is_name and DEFAULT_FILE.is_file()) else App()


def _app_or_empty(target: str | None) -> App:
    """Return the app of the target, or the app in this folder, or an empty app.

    The app defines the agents' prompts and secrets, which the output needs.
    """
    return the_app(target) if target is not None or DEFAULT_FILE.is_file() else App()


def _runtime(app: App | None = None) -> AbstractAsyncContextManager[Runtime]:
    return opened_runtime(read_settings(), app or App())


async def _open_call(rt: Runtime, stored: Run) -> Call | None:
    """Return the call of the run that was started last and has not finished, or None."""
    if stored.over:
        return None
    calls = await rt.calls.list(status=tuple(BEGUN), run_id=stored.id)
    return max(calls, key=lambda each: each.started_at or each.created_at, default=None)


def _row(stored: Run, agent: str, call: Call | None, now: datetime) -> tuple[str, ...]:
    error = "" if stored.error is None else brief(clean_text(" ".join(stored.error.split())), MAX_ERROR)
    code = "" if stored.error_code is None else f"[{stored.error_code}] "
    created = stored.created_at.isoformat(timespec="seconds")
    began = stored.started_at
    lasts = "" if began is None else time_span((stored.completed_at or now) - began)
    since = now if call is None else call.started_at or call.created_at
    in_progress = "" if call is None else f"{call.name} {call.status} {time_span(now - since)}"
    return stored.id, stored.status, agent, stored.thread_id, created, lasts, in_progress, code + error
