"""What a call gives: contents, attachments, results."""
