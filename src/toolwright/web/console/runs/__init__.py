"""Display of runs: steps and calls, cost, and pending requests."""
