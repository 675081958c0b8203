"""The commands and their options. Each loads what it needs only when it is called: `--help` is quick."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from toolwright.core.errors import DISTRIBUTION

cli = typer.Typer(
    add_completion=False,
    help="Tools for AI agents that never lose a result.",
    epilog="Error codes, their causes and remedies: docs/reference/errors.md.",
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
    typer.Option("--app", envvar="TOOLWRIGHT_APP", metavar="MODULE:APP", help="Default: app in app.py."),
]
ServedApp = Annotated[
    Optional[str],  # noqa: UP045 - typer reads it at run time
    typer.Argument(
        envvar="TOOLWRIGHT_APP", metavar="[MODULE:APP | CONFIG.json]", help="Default: an empty app."
    ),
]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 selects a free one.")]


def _print_version(wanted: bool) -> None:
    if wanted:
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
    """Watch an agent work: offline, in a folder of its own, in a few seconds."""
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
) -> int:
    """Serve an app over HTTP."""
    from toolwright.cli.serve import serve as run  # noqa: PLC0415 - loads the server

    return run(target, host, port, dev=dev, no_work=no_work)


@cli.command()
def work(
    target: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Argument(envvar="TOOLWRIGHT_APP", metavar="MODULE:APP | CONFIG.json", help="The app."),
    ] = None,
) -> int:
    """Execute runs, and serve nothing."""
    from toolwright.cli.serve import work as run  # noqa: PLC0415 - loads the server

    return run(target)


@cli.command()
def nodes() -> None:
    """List the processes of the cluster that execute runs."""
    from toolwright.cli.threads import list_nodes  # noqa: PLC0415 - loads the store

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
    app: AppOption = None,
) -> int:
    """Talk to an agent. Ctrl-C cancels its run, Ctrl-D or /quit ends the conversation."""
    from toolwright.cli.chat.chat import chat as run  # noqa: PLC0415 - loads the runtime

    return run(agent, model, app)


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
            metavar="AGENT", help="An agent that has the tool: its values and its prompt's are used."
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

        raise Refusal("--header is for an MCP server: name it with --mcp URL.")
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
        typer.Option(metavar="FILE", help="Copy the journal there first, as `toolwright backup` does."),
    ] = None,
) -> None:
    """Upgrade the database to the newest revision; create it if it does not exist.

    Says what is changed. Older versions cannot open the database afterwards: make a copy first, with --backup.
    """
    from toolwright.cli.database import upgrade as run  # noqa: PLC0415 - loads the store

    run(backup)


@keys.command("new")
def new_keys(
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="One more secret key, with this name.")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Its rights: metrics, read or all (the default).")] = None,
) -> None:
    """Print new keys, ready for a .env file."""
    if name is None and scope is not None:
        raise typer.BadParameter("a key with a scope needs a name: give --name.", param_hint="'--scope'")
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
    """Copy the journal with its files and its key, also while it is being served."""
    from toolwright.cli.database import write_backup as run  # noqa: PLC0415 - loads the store

    run(file, force=force)


@threads.command("delete")
def delete_thread(
    thread_id: Annotated[str, typer.Argument(metavar="ID", help="The thread's id.")],
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel its runs in progress first.")] = False,
) -> None:
    """Delete a thread with its messages, files, values, events and children, permanently."""
    from toolwright.cli.threads import delete as run  # noqa: PLC0415 - loads the store

    run(thread_id, cancel=cancel)


@threads.command("summary")
def show_summary(
    thread_id: Annotated[str, typer.Argument(metavar="ID", help="The thread's id.")],
    *,
    edit: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it at run time
        typer.Option(metavar="TEXT", help="Put this text in its place."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the summary and show all messages again.")
    ] = False,
    side: Annotated[
        Literal["side_a", "side_b"] | None, typer.Option(help="Whose summary, of an agent with two sides.")
    ] = None,
    app: AppOption = None,
) -> None:
    """Show what is left out of a thread's conversation and the summary in its place; edit or remove it."""
    from toolwright.cli.threads import summary as run  # noqa: PLC0415 - loads the store

    if edit is not None and remove:
        raise typer.BadParameter("A summary is edited or removed, not both.", param_hint="--remove")
    run(thread_id, side, edit, app, remove=remove)


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
    from toolwright.cli.threads import list_runs as run  # noqa: PLC0415 - loads the store

    run(status, agent, thread, limit, app)


@cli.command("show")
@runs.command("show")
def show_run(
    run_id: RunId,
    *,
    prompt: Annotated[
        bool,
        typer.Option("--prompt", help="Show what the model was sent at each step, and what was left out."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Show prompts as JSON.")] = False,
    app: AppOption = None,
) -> None:
    """Show a run with its steps and messages as JSON; with --prompt, the prompts its models were sent."""
    from toolwright.cli import threads as cli_threads  # noqa: PLC0415 - loads the store

    if prompt:
        cli_threads.show_prompts(run_id, app, as_json=as_json)
    else:
        cli_threads.show_run(run_id)


@runs.command("cancel")
def cancel_run(run_id: RunId) -> None:
    """Cancel a run, whichever process executes it."""
    from toolwright.cli.threads import cancel_run as run  # noqa: PLC0415 - loads the store

    run(run_id)


@runs.command("retry")
def retry_run(run_id: RunId) -> None:
    """Continue a failed run from its last commit."""
    from toolwright.cli.threads import retry_run as run  # noqa: PLC0415 - loads the store

    run(run_id)


@cli.command()
def doctor(
    app: AppOption = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    *,
    reach: Annotated[
        bool, typer.Option(help="Send a short request to each model, which its provider may charge for.")
    ] = False,
) -> int:
    """Check everything a server needs. The exit code is 1 if something is broken."""
    from toolwright.cli.doctor import doctor as run  # noqa: PLC0415 - loads the store

    return run(app, host, port, reach=reach)
