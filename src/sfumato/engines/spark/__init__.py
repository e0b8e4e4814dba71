"""PySpark counts, carries rows to Python and shuffles them; loaded when asked for, never by `import sfumato`."""
