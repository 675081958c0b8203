"""Commands of the command line, with their arguments and options.

A command imports its implementation when it is executed, so that `--help` and shell scripts start quickly.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from toolwright.core.errors import DISTRIBUTION

cli = typer.Typer(
    add_completion=False,
    help="Tools for AI agents that never lose a result.",
    epilog="Error codes, their causes and remedies: toolwright errors.",
)
tools = typer.Typer(help="The app's tools.")
database = typer.Typer(help="The database.")
keys = typer.Typer(help="Keys of the server.")
threads = typer.Typer(help="Threads of the journal.")
runs = typer.Typer(help="Runs of the journal.")
cli.add_typer(tools, name="tools")
cli.add_typer(database, name="db")
cli.add_typer(keys, name="keys")
cli.add_typer(threads, name="threads")
cli.add_typer(runs, name="runs")

AppOption = Annotated[
    Optional[str],  # noqa: UP045 - typer reads it at run time
    typer.Option(
        "--app", envvar="TOOLWRIGHT_APP", metavar="[MODULE:APP | CONFIG.json]", help="Default: app in app.py."
    ),
]
ServedApp = Annotated[
    Optional[str],  # noqa: UP045 - typer reads it at run time
    typer.Argument(
        envvar="TOOLWRIGHT_APP", metavar="[MODULE:APP | CONFIG.json]", help="Default: an empty app."
    ),
]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 selects a free one.")]


def _print_version(requested: bool) -> None:
    if requested:
        print(f"toolwright {version(DISTRIBUTION)}")
        raise typer.Exit


@cli.callback()
def root(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
) -> None:
    """Tools for AI agents that never lose a result."""


@cli.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the server running until Ctrl-C.")] = False,
) -> int:
    """Run a demo agent offline, in a temporary folder, in a few seconds."""
    from toolwright.cli.demo.play import play  # noqa: PLC0415 - loads the server

    return play(keep=keep)


@cli.command()
def serve(
    target: ServedApp = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    dev: Annotated[
        bool, typer.Option("--dev", help="Restart when a Python file or the configuration file changes.")
    ] = False,
    no_work: Annotated[
        bool, typer.Option("--no-work", help="Execute no runs: other processes on the database do.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Without keys, give all rights to every caller on any machine.")
    ] = False,
) -> int:
    """Serve an app over HTTP."""
    from toolwright.cli.serve import serve as run  # noqa: PLC0415 - loads the server

    return run(target, host, port, dev=dev, no_work=no_work, insecure=insecure)


@cli.command()
def work(
    target: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Argument(envvar="TOOLWRIGHT_APP", metavar="MODULE:APP | CONFIG.json", help="The app."),
    ] = None,
) -> int:
    """Execute the runs of a database that other processes serve."""
    from toolwright.cli.serve import work as run  # noqa: PLC0415 - loads the server

    return run(target)


@cli.command()
def nodes() -> None:
    """List the nodes of the cluster: the processes that execute its runs."""
    from toolwright.cli.journal import list_nodes  # noqa: PLC0415 - loads the store

    list_nodes()


@cli.command("mcp")
def mcp_server(
    target: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Argument(
            envvar="TOOLWRIGHT_APP", metavar="[MODULE:APP | CONFIG.json]", help="Default: app in app.py."
        ),
    ] = None,
) -> int:
    """Offer the app's tools to an MCP host, on stdin and stdout."""
    from toolwright.cli.mcp import serve_tools  # noqa: PLC0415 - loads the runtime

    return serve_tools(target)


@cli.command()
def chat(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="An agent of the app, by name or id.")],
    model: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(help="The model to use instead of the agent's."),
    ] = None,
    deps: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="JSON", help="The deps of its runs, as the agent declares them."),
    ] = None,
    app: AppOption = None,
) -> int:
    """Talk to an agent. Ctrl-C cancels its run, Ctrl-D or /quit ends the conversation."""
    from toolwright.cli.chat import chat as run  # noqa: PLC0415 - loads the runtime

    return run(agent, model, app, deps)


@cli.command()
def call(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")],
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="Its arguments as JSON; - reads stdin.")
    ] = "{}",
    tenv: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads it at run time
        typer.Option(
            metavar="NAME=VALUE", help="A tenv that the tool needs; NAME alone reads the environment."
        ),
    ] = None,
    env: Annotated[
        Optional[list[str]],  # noqa: UP045 - as above
        typer.Option(
            metavar="NAME=VALUE", help="A variable that the tool needs; NAME alone reads the environment."
        ),
    ] = None,
    agent: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option(
            metavar="AGENT", help="An agent that has the tool; its values and its prompt's values apply."
        ),
    ] = None,
    files: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads it at run time
        typer.Option(
            metavar="FOLDER",
            help="The folder for the result's files; without it only their names are printed.",
        ),
    ] = None,
    app: AppOption = None,
) -> int:
    """Call one tool and print its result. The exit code is 1 if it is an error."""
    from toolwright.cli.tools import call as run  # noqa: PLC0415 - loads the app

    return run(tool, arguments, (tenv or [], env or []), agent, app, files)


@tools.command("list")
def list_tools(
    app: AppOption = None,
    mcp: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The tools of an MCP server: its URL, or a command in quotes."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="'NAME: VALUE'", help="A header for the MCP server.")
    ] = None,
) -> int:
    """List the app's tools, or those of an MCP server."""
    if mcp is not None:
        from toolwright.cli.loop import run as on_loop  # noqa: PLC0415 - loads asyncio
        from toolwright.cli.mcp import list_mcp_tools  # noqa: PLC0415 - loads the runtime
        from toolwright.cli.settings import read_settings  # noqa: PLC0415 - the same

        return on_loop(list_mcp_tools(mcp, header or [], read_settings()))
    if header:
        from toolwright.cli.output import Refusal  # noqa: PLC0415 - as all commands here

        raise Refusal("--header is only sent to an MCP server: name the server with --mcp URL.")
    from toolwright.cli.tools import list_tools as run  # noqa: PLC0415 - loads the app

    run(app)
    return 0


@tools.command("show")
def show_tool(
    name: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")], app: AppOption = None
) -> None:
    """Show the definition of a tool that a model reads."""
    from toolwright.cli.tools import show_tool as run  # noqa: PLC0415 - loads the app

    run(name, app)


@database.command()
def upgrade(
    backup: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads it at run time
        typer.Option(
            metavar="FILE", help="First copy the database to this file, as `toolwright backup` does."
        ),
    ] = None,
) -> None:
    """Upgrade the database to the newest revision; create it if it does not exist.

    Prints what changes. Older versions might not open the database afterwards: make a copy first, with --backup.
    """
    from toolwright.cli.journal import upgrade as run  # noqa: PLC0415 - loads the store

    run(backup)


@keys.command("new")
def new_keys(
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print one secret key with this name instead.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option(help="The named key's rights: metrics, read or all (default).")
    ] = None,
) -> None:
    """Print new keys, ready for a .env file."""
    if name is None and scope is not None:
        raise typer.BadParameter("A key with a scope needs a name: add --name NAME.", param_hint="'--scope'")
    from toolwright.cli.keys import print_key, print_keys  # noqa: PLC0415 - as all commands here

    if name is None:
        print_keys()
    else:
        print_key(name, scope or "all")


@cli.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The database file of the copy.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing copy.")] = False,
) -> None:
    """Copy the database with its files and its key file, also while a server uses it."""
    from toolwright.cli.journal import write_backup as run  # noqa: PLC0415 - loads the store

    run(file, force=force)


@cli.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The database file of a backup.")],
) -> None:
    """Replace the database with a backup. The previous one is moved aside with all its parts; nothing is started."""
    from toolwright.cli.journal import restore_backup as run  # noqa: PLC0415 - loads the store

    run(file)


@threads.command("delete")
def delete_thread(
    thread_id: Annotated[str, typer.Argument(metavar="ID", help="The thread's id.")],
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the thread's open runs first.")] = False,
) -> None:
    """Delete a thread with its messages, files, values, events and children, permanently."""
    from toolwright.cli.journal import delete as run  # noqa: PLC0415 - loads the store

    run(thread_id, cancel=cancel)


@threads.command("import")
def import_threads(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl", help="The file: one conversation a line, as JSON. `-` reads stdin."
        ),
    ],
    *,
    agent: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="AGENT", help="The agent of lines that name none, by name or id."),
    ] = None,
    form: Annotated[
        Literal["toolwright", "openai", "openai-responses", "anthropic", "pydantic-ai"] | None,
        typer.Option("--format", help="The form of the messages. Default: it is recognized."),
    ] = None,
    user: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="USER", help="The owner of threads of lines that name none."),
    ] = None,
    app: AppOption = None,
) -> int:
    """Create a thread of each conversation in a file. Interrupted or repeated, it creates none twice."""
    from toolwright.cli.imports import import_file as run  # noqa: PLC0415 - loads the store

    return run(file, agent, form, user, app)


@threads.command("summary")
def show_summary(
    thread_id: Annotated[str, typer.Argument(metavar="ID", help="The thread's id.")],
    *,
    edit: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="TEXT", help="Replace the summary with this text."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the summary and send all messages again.")
    ] = False,
    side: Annotated[
        Literal["side_a", "side_b"] | None,
        typer.Option(help="The side whose summary it is, of an agent with two sides."),
    ] = None,
    app: AppOption = None,
) -> None:
    """Show which messages of a thread are omitted and the summary sent in their place; edit or remove the summary."""
    from toolwright.cli.journal import summary as run  # noqa: PLC0415 - loads the store

    if edit is not None and remove:
        raise typer.BadParameter("Give either --edit or --remove, not both.", param_hint="--remove")
    run(thread_id, side, edit, app, remove=remove)


@threads.command("hide")
def hide_message(
    thread_id: Annotated[str, typer.Argument(metavar="ID", help="The thread's id.")],
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id.")],
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Send the message again.")] = False,
    app: AppOption = None,
) -> None:
    """Leave a message out of what models are sent, such as one that a provider refuses; calls with their results."""
    from toolwright.cli.journal import hide_message as run  # noqa: PLC0415 - loads the store

    run(thread_id, message_id, app, hidden=not undo)


RunId = Annotated[str, typer.Argument(metavar="ID", help="The run's id.")]


@runs.command("list")
def list_runs(
    status: Annotated[
        Literal["queued", "running", "waiting", "completed", "failed", "cancelled", "skipped"] | None,
        typer.Option(help="Only runs with this status."),
    ] = None,
    agent: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="AGENT", help="Only runs of this agent: its id, or its name in the app."),
    ] = None,
    thread: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option(metavar="ID", help="Only runs of this thread."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="The maximum number of runs, newest first.")
    ] = 50,
    app: AppOption = None,
) -> None:
    """List runs, newest first, with their status and error."""
    from toolwright.cli.journal import list_runs as run  # noqa: PLC0415 - loads the store

    run(status, agent, thread, limit, app)


@cli.command("show")
@runs.command("show")
def show_run(
    run_id: RunId,
    *,
    prompt: Annotated[
        bool,
        typer.Option("--prompt", help="Show each request to the model, and which messages it omitted."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --prompt: print JSON.")] = False,
    app: AppOption = None,
) -> None:
    """Show a run with its steps and messages as JSON; with --prompt, the requests to its models."""
    from toolwright.cli import journal as journal_commands  # noqa: PLC0415 - loads the store

    if prompt:
        journal_commands.show_prompts(run_id, app, as_json=as_json)
    else:
        journal_commands.show_run(run_id)


@runs.command("cancel")
def cancel_run(run_id: RunId) -> None:
    """Cancel a run, also one that another process executes."""
    from toolwright.cli.journal import cancel_run as run  # noqa: PLC0415 - loads the store

    run(run_id)


@runs.command("retry")
def retry_run(run_id: RunId) -> None:
    """Continue a failed run from its last commit."""
    from toolwright.cli.journal import retry_run as run  # noqa: PLC0415 - loads the store

    run(run_id)


@cli.command("calls")
def list_calls(
    run: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="ID", help="Only calls of this run."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="The maximum number of calls, oldest first.")
    ] = 50,
) -> None:
    """List the calls that wait for an approval or for a result from elsewhere, oldest first."""
    from toolwright.cli.journal import list_calls as list_waiting  # noqa: PLC0415 - loads the store

    list_waiting(run, limit)


CallId = Annotated[str, typer.Argument(metavar="CALL", help="The call's id, as `toolwright calls` lists it.")]
Reason = Annotated[
    Optional[str],  # noqa: UP045 - typer reads it at run time
    typer.Option(metavar="TEXT", help="The reason, which the agent reads."),
]


@cli.command()
def approve(
    call_id: CallId,
    args: Annotated[
        Optional[str],  # noqa: UP045 - as above
        typer.Option(metavar="JSON", help="Other arguments for the call."),
    ] = None,
    reason: Reason = None,
    app: AppOption = None,
) -> None:
    """Approve a call that waits for an approval. It is executed by the process that executes its run."""
    from toolwright.cli.journal import answer_call  # noqa: PLC0415 - loads the store

    answer_call(call_id, args, reason, app, approved=True)


@cli.command()
def reject(call_id: CallId, reason: Reason = None) -> None:
    """Reject a call that waits for an approval. It is not executed, and the agent reads that it was refused."""
    from toolwright.cli.journal import answer_call  # noqa: PLC0415 - loads the store

    answer_call(call_id, None, reason, None, approved=False)


@cli.command()
def errors(
    code: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Argument(
            metavar="CODE", help="The code, as an error names it; without it all codes are listed."
        ),
    ] = None,
) -> None:
    """Explain the code of an error: its cause, and what to do."""
    from toolwright.cli.errors import explain  # noqa: PLC0415 - like the other commands

    explain(code)


@cli.command()
def doctor(
    target: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Argument(metavar="[MODULE:APP | CONFIG.json]", help="The app to check, as for --app."),
    ] = None,
    app: AppOption = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    *,
    reach: Annotated[
        bool, typer.Option(help="Send a short request to each model. Its provider might charge for it.")
    ] = False,
) -> int:
    """Check what a server needs: settings, database, files, models, keys. The exit code is 1 if a check fails."""
    from toolwright.cli.doctor import doctor as run  # noqa: PLC0415 - loads the store

    return run(target or app, host, port, reach=reach)
