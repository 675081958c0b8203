"""Files of threads: kept, named, and results that are too long for a model."""
