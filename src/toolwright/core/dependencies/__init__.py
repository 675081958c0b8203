"""Dependencies: values that functions of the user's own are given, opened once and cleaned up."""
