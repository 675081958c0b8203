"""What waits for somebody: calls that need an answer or an approval, and runs that need values."""
