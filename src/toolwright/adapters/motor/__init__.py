"""Motors: who drains a thread once it has been woken."""
