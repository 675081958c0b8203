"""The console: spaces, pending calls, runs and agents in the browser, at `/console`. Needs the extra `console`."""
