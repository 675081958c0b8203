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
    """Copy the journal with its files and its key, and say what was copied."""
    settings = read_settings()
    made = run(back_up(settings, file, force=force))
    for digest in made.damaged:
        print(
            f"toolwright: the bytes of the file {digest} are damaged, and not in the backup.", file=sys.stderr
        )
    parts = [f"the database ({made.size} bytes)", quantity(made.files, "file")]
    parts += ["the key of its secrets"] if made.has_key else []
    print(f"{shown_url(settings.database_url)} is backed up to {file}: {', '.join(parts)}.")
    if settings.encryption_keys:
        print(
            "Its secrets are sealed with TOOLWRIGHT_ENCRYPTION_KEYS: keep these keys too, in another place."
        )
    print(f"To serve it: TOOLWRIGHT_DATABASE_URL=sqlite:///{file} toolwright serve")


def upgrade(backup: Path | None) -> None:
    """Migrate the database, and say what that changes, before and after; at a terminal only once that is confirmed."""
    settings = read_settings()
    before = run(database.revision(settings))
    place = shown_url(settings.database_url)
    steps = database.steps(before)
    if backup is not None and before is None:
        raise Refusal(f"There is no database at {place} to be backed up.")
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
        print(f"{place} is at the revision {after} of a newer version, which this one can use.")
    elif before == after:
        print(f"{place} is at the newest revision, {after}.")
    else:
        print(f"{place} went from {before or 'nothing'} to the revision {after}.")
    said = run(database.shrinkable(settings))
    if said is not None:
        print(said)


def _announce(
    settings: Settings, place: str, before: str, steps: list[tuple[str, str]], *, copies: bool
) -> None:
    """Say what will be done, and how to keep a way back."""
    print(f"{place} is at the revision {before}. The upgrade does this, all of it or nothing:")
    for revision, what in steps:
        print(f"  {revision}  {what}")
    if database.remains_usable(before):
        print("Processes of the version before can go on with it afterwards.", flush=True)
    else:
        print("Older versions of toolwright cannot open it afterwards.", flush=True)
    if copies:
        return
    how = "with --backup FILE" if settings.sqlite_path is not None else "with pg_dump"
    print(f"A copy is the only way back: make one {how}.", flush=True)
