"""Components that the browser renders: one element each, regardless of their content."""
