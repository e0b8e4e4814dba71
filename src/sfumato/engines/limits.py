"""What an engine may take of a machine unless somebody says otherwise."""

MEMORY = "2GB"  # before rows are spilled to disk: 100 million rows of nine small columns wait for their order in it
