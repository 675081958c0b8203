"""`toolwright backup` and `toolwright db upgrade`."""

import sys
from pathlib import Path

from typer import confirm

from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, shown_url
from toolwright.cli.settings import read_settings
from toolwright.core.text import quantity
from toolwright.wiring import database
from toolwright.wiring.settings import Settings
from toolwright.wiring.upkeep import back_up


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


def upgrade(backup: Path | None) -> None:
    """Migrate the database and print what changes, before and after. At a terminal, ask for confirmation first."""
    settings = read_settings()
    before = run(database.revision(settings))
    place = shown_url(settings.database_url)
    steps = database.steps(before)
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
    after = run(database.upgrade(settings))
    if after > database.HEAD:
        print(f"{place} is at revision {after} of a newer version, which this version can use.")
    elif before == after:
        print(f"{place} is at the newest revision, {after}.")
    elif before is None:
        print(f"{place} was created at revision {after}.")
    else:
        print(f"{place} was upgraded from revision {before} to revision {after}.")
    note = run(database.shrinkable(settings))
    if note is not None:
        print(note)


def _announce(
    settings: Settings, place: str, before: str, steps: list[tuple[str, str]], *, copies: bool
) -> None:
    """Print the steps of the upgrade, and how to make a copy that allows a rollback."""
    print(f"{place} is at revision {before}. The upgrade executes all of these steps, or none:")
    for revision, change in steps:
        print(f"  {revision}  {change}")
    if database.remains_usable(before):
        print("Processes of the previous version can continue to use it.", flush=True)
    else:
        print("Older versions of Toolwright cannot open it afterwards.", flush=True)
    if copies:
        return
    how = "with --backup FILE" if settings.sqlite_path is not None else "with pg_dump"
    print(f"Only a copy allows a rollback: make one {how}.", flush=True)
