"""Values, units of work and rules: no I/O, and no imports from the layers above."""
