"""Entry point of the command line: execute a command, print an error as one line on stderr, set the exit code."""

import re
import sys
from collections.abc import Sequence

from typer.exceptions import Abort, TyperException
from typer.main import get_command

from toolwright.cli.commands import cli
from toolwright.cli.loop import force_exit
from toolwright.cli.output import FAILED, INTERRUPTED, Refusal, one_line
from toolwright.core.errors import ToolwrightError
from toolwright.core.text import sentence

_PLAIN = {
    r"Input should be a valid integer.*": "must be a whole number",
    r"Input should be greater than or equal to": "must be at least",
    r"Input should be less than or equal to": "must be at most",
    r"Value error, ": "",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Execute the command, by default that of the process's arguments, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal without these characters shows question marks
    code = FAILED
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    finally:
        force_exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Execute a command and return its exit code.

    An error is printed as one line on stderr. An error with a code names that code's entry in the reference.
    """
    try:
        answer = get_command(cli).main(
            args=list(arguments) or ["--help"], prog_name="toolwright", standalone_mode=False
        )
    except Refusal as refusal:
        return _print_error(str(refusal) + _pointer(refusal.__cause__), refusal.code)
    except TyperException as error:
        return _print_error(f"{_plain(error.format_message())} {_help(error)}".strip(), error.exit_code)
    except ToolwrightError as error:
        return _print_error(error.message + _pointer(error), FAILED)
    except OSError as error:
        return _print_error(str(error), FAILED)
    except (KeyboardInterrupt, Abort):
        return _print_error("interrupted", INTERRUPTED)
    return answer if isinstance(answer, int) else 0


def _print_error(message: str, code: int) -> int:
    if code == INTERRUPTED:
        return code
    print(f"toolwright: {one_line(message)}", file=sys.stderr)
    return code


def _pointer(error: BaseException | None) -> str:
    """Return the command that explains the error's code, or an empty text for an error without its own code."""
    if not isinstance(error, ToolwrightError) or error.code == ToolwrightError.code:
        return ""
    return f" (toolwright errors {error.code})"


def _plain(message: str) -> str:
    """Rewrite a library's message as a sentence without pydantic's terms."""
    for pattern, plain in _PLAIN.items():
        message = re.sub(pattern, plain, message)
    return sentence(message)


def _help(error: TyperException) -> str:
    context = getattr(error, "ctx", None)  # only usage errors have a context
    return f"See {context.command_path} --help." if context is not None else ""
