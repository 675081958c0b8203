"""Values as the client reads them from JSON."""
