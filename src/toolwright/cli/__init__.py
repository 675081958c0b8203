"""The command line: `toolwright serve`, `chat`, `call` and so on."""

from toolwright.cli.entry import main

__all__ = ["main"]
