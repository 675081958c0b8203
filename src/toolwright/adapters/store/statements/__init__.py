"""The SQL statements of programs, by noun."""
