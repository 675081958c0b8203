"""The state that handlers get in a run."""
