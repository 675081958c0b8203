"""What is logged goes to stderr: in one line for a person, with its traceback for a server."""

import logging

from toolwright.core.env.logs import WithoutSecrets

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _OneLine(logging.Formatter):
    """What happened, without the frames it happened in."""

    def formatException(self, ei: object) -> str:  # noqa: N802 - named by the standard library
        return ""


def log_briefly() -> None:
    """Show warnings, each in one line."""
    _log(_OneLine("toolwright: %(message)s"))


def log_fully() -> None:
    """Show warnings with time, place and traceback."""
    _log(logging.Formatter(FORMAT))


def _log(formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    handler.addFilter(WithoutSecrets())  # lines of tools too, not only ours
    logging.getLogger().addHandler(handler)
