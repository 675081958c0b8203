"""`toolwright backup`."""

import sys
from pathlib import Path

from toolwright.cli.loop import run
from toolwright.cli.output import shown_url
from toolwright.cli.settings import read_settings
from toolwright.core.text import quantity
from toolwright.wiring.upkeep import back_up


def backup(file: Path, *, force: bool) -> None:
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
