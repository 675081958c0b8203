"""Tools that are JSON Schemas (S1): their meta-properties, and paths into state and input."""
