"""The terminal as a place to ask somebody: a line of words out, a line back."""

import sys

from rich.console import Console

from toolwright.cli.chat.view import Lines
from toolwright.core.text import clean_text


class Terminal:
    """Asks whoever sits at the terminal; what they type is shown where they do not see it themselves."""

    def __init__(self, console: Console, lines: Lines) -> None:
        self._console = console
        self._lines = lines

    async def read(self, label: str) -> str | None:
        """The line that is typed behind the label; None at the end of the lines."""
        if sys.stdin.isatty():
            self.say(f"   {label}: ", end="")
        line = await self._lines.next()
        if not sys.stdin.isatty():
            self.say(f"   {label}: {line or ''}")
        return None if line is None else line.strip()

    def say(self, text: str, end: str = "\n") -> None:
        """Show the text."""
        self._console.print(clean_text(text), end=end, markup=False, highlight=False, soft_wrap=True)
