"""The journal: units of work, and the port of the store that commits and reads them."""
