"""The exit of a process whose work is done, although somebody else's threads do not end."""

import logging
import os
import sys
import threading

PATIENCE = 5.0  # seconds for a normal end: the interpreter's own wait for threads has no limit

log = logging.getLogger("toolwright.cli")


def force_exit(code: int) -> None:
    """From now on the process ends in some seconds, with that exit code, if it does not end by itself.

    A handler may have left a thread behind, by `asyncio.to_thread` for example, for which Python waits for ever.
    """
    last = threading.Timer(PATIENCE, _end, (code,))
    last.daemon = True
    last.start()


def _end(code: int) -> None:
    try:
        log.warning("A thread that somebody has left at work does not end: the process ends without it.")
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also where nobody reads any more
        os._exit(code)
