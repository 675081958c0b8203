"""Tools over HTTP: what a call sends where, and which addresses it may reach."""
