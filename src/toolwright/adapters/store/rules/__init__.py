"""Rules of the journal: units and effects as row operations, written once for all stores."""
