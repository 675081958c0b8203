"""Parts of an agent's pages: configuration, stored data and inbox."""
