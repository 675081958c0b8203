"""HTTP tools: the request of a call, and the addresses that it can reach."""
