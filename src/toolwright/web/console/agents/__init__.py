"""Parts of an agent's pages: what it is, what it keeps, and what waits for it."""
