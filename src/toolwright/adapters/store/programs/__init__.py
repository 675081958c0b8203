"""The programs that commit a unit, by noun."""
