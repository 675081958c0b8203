"""Results of calls: contents, attachments, errors."""
