"""Adapters of the core's ports to the outside; they import only the core and the wire."""
