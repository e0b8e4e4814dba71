"""Reports: one self-contained HTML file, its JSON twin, and the charts as files."""

from .comparison import write_comparison

__all__ = ["write_comparison"]
