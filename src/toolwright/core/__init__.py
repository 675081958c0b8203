"""Values, units of work and rules: no I/O, and nothing imported from the layers above."""
