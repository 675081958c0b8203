"""A space as a page: its messages as they come, who is there, and where one writes."""
