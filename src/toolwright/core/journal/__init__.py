"""What one commit holds, and the port of the store that commits and reads it."""
