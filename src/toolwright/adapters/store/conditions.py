"""What several statements ask of a row."""

from toolwright.adapters.store.tables_threads import threads

NOT_TERMINATED = threads.c.state.is_distinct_from("terminated")
"""The thread may be spoken to."""
