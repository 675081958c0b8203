"""`toolwright db upgrade`."""

from toolwright.cli.loop import run
from toolwright.cli.output import shown_url
from toolwright.cli.settings import read_settings
from toolwright.wiring import database
from toolwright.wiring.settings import Settings


def upgrade() -> None:
    """Migrate the database, and say from where to where."""
    settings = read_settings()
    before, after = run(_upgrade(settings))
    place = shown_url(settings.database_url)
    if before == after:
        print(f"{place} is at the newest revision, {after}.")
    else:
        print(f"{place} went from {before or 'nothing'} to the revision {after}.")


async def _upgrade(settings: Settings) -> tuple[str | None, str]:
    return await database.revision(settings), await database.upgrade(settings)
