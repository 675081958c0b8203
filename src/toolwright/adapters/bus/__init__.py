"""Event bus: delivers committed events and live deltas to subscribers."""
