"""Dependencies: values from the user's functions, opened once and cleaned up."""
