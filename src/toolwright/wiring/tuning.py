"""Settings of the interpreter for a process that does nothing but run an app."""

import ctypes
import gc
import sys

_MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD
_LARGE = 1024 * 1024  # bytes


def settle_memory() -> None:
    """Take what was loaded at start-up out of the garbage collector's sight, and let it look less often.

    A step of a run makes many short-lived values; with the default thresholds a third of its time went into
    walking modules that never become garbage. For processes of our own (`serve`, `chat`), not for a program that
    embeds a runtime: it is the program's decision there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    _give_back()


def _give_back() -> None:
    """Large blocks go back to the system when they are freed. glibc would keep those of up to 32 MB after the first
    large body: a process stays as large as the largest bodies that it ever had at once.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and gives back by itself
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _LARGE)
