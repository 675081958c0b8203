"""The bus that carries committed events and live deltas to followers."""
