"""Reports: one self-contained HTML file, its JSON twin, and the charts as files."""

from .comparison import write_comparison
from .reproduction import write_reproduction

__all__ = ["write_comparison", "write_reproduction"]
