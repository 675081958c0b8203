"""What every request passes: limits, CORS, errors, unknown paths."""
