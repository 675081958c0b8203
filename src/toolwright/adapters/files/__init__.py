"""Where the bytes of files lie: an object store, or memory."""
