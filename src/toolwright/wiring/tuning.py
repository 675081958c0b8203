"""Settings of the interpreter for a process that does nothing but run an app."""

import gc


def settle_memory() -> None:
    """Take what was loaded at start-up out of the garbage collector's sight, and let it look less often.

    A step of a run makes many short-lived values; with the default thresholds a third of its time went into
    walking modules that never become garbage. For processes of our own (`serve`, `chat`), not for a program that
    embeds a runtime: it is the program's decision there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
