"""Databases as tables: one open transaction each, read as often as asked, so that all passes see one moment."""
