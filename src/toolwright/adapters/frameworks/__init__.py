"""Tools of other agent frameworks: ours as theirs, theirs as ours."""
