"""Tools of other frameworks, by the real libraries."""
