"""Engine that runs programs of statements on any database: operations, outcome, codecs."""
