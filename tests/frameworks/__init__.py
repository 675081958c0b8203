"""Tools of other frameworks, tested with the real libraries."""
