"""Whence what a run does in spaces comes."""

from toolwright.core.journal.effects import Source
from toolwright.runtime.hold.hold import Hold


def source_of(hold: Hold) -> Source:
    """The run that is in hand."""
    return Source(thread_id=hold.thread.id, run_id=hold.run.id, agent=hold.run.agent)
