"""SQL text to a question, or an error that points into the text."""
