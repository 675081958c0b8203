"""The Chromium of this machine."""

from collections.abc import Mapping
from pathlib import Path

from tests.prerequisites import missing

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def found(path: Path, environ: Mapping[str, str]) -> str:
    """Return the path of Chromium. Without it the test is skipped, or fails under `CI=true`."""
    if not path.exists():
        missing(f"There is no Chromium at {str(path)!r}: `apt-get install chromium` brings it.", environ)
    return str(path)
