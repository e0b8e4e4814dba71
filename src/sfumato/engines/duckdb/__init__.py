"""The local engine: DuckDB reads, counts and sorts, pyarrow carries batches; both spill to disk."""
