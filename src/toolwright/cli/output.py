"""What the command line says when it cannot do what was asked: one line, and an exit code."""

USAGE, FAILED, INTERRUPTED = 2, 1, 130


class Refusal(Exception):
    """A sentence for the user; `code` is the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def one_line(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())
