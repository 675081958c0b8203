"""Programs that type checkers read, and the test that compares what they report."""
