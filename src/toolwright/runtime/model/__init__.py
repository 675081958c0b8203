"""What a model is asked, and what becomes of its answer while it streams."""
