"""Display of threads: conversation, input field, thread tree, files and values."""
