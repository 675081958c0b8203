"""Files of threads: stored, named, and used for results that are too long for a model."""
