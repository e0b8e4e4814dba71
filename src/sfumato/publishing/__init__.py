"""What publishing needs besides the story in publish.py: roles, parameter files, randomness, the pass over batches."""
