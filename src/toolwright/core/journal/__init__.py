"""The journal: units of commit, and the port of the store that commits and reads it."""
