"""Documents in, text, HTML and charts out. Nothing here knows how a document was made."""
