"""HTTP routes, by noun: each parses the request, authorizes the caller, calls the runtime and renders the answer."""
