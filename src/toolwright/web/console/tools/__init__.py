"""Parts of a tool's page: its parameters, a form to call it, and what comes of the call."""
