"""HTTP for the client: requests, retries, event streams that resume."""
