"""Words that calls read whose run, or whose call, ends before them."""

from dataclasses import dataclass

from toolwright.core.results.result import ToolResult

INTERRUPTED = "Interrupted: the process stopped while this call was running; its effect is unknown."
CANCELLED = "Run cancelled while this call was running; its effect is unknown."


@dataclass(frozen=True, slots=True)
class LastWords:
    """The result of a call whose run ends before it: `what` happened, and the text and code if it was `running`.

    `stops_children`: children at work are stopped with it, so that no late result of theirs can come.
    """

    what: str
    running: str
    code: str
    stops_children: bool = False

    @property
    def still_open(self) -> str:
        """The text that a call reads whose result may still come."""
        return f"{self.what} while this call was waiting; a late result arrives in the inbox."

    @property
    def unapproved(self) -> ToolResult:
        """The result of a call that waited for an approval, which nobody can give any more."""
        return ToolResult.fail(f"{self.what} before this call was approved.", error_code="not_begun")
