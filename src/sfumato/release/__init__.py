"""The folder format: write, read, check its version and its digests."""
