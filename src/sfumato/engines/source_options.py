"""Which ways of reading a source has: what people may be asked for when they name it."""

from __future__ import annotations

from ..errors import SfumatoError
from .addresses import address_of
from .duckdb.files import files_of, kind_of

OPTIONS = ("delimiter", "encoding", "null", "decimal", "dates", "table", "query", "types")  # fields of a Source
_OF_FILES = {
    "csv": ("delimiter", "encoding", "null", "decimal", "dates", "types"),
    "excel": ("table", "types"),
    "statistics": ("encoding", "types"),
}


def options_of(given: str) -> tuple[str, ...]:
    """The fields of a `Source` that a path or an address takes; none where it is none."""
    try:
        address = address_of(given)
        if address is not None:
            return ("types",) if address.table is not None else ("table", "query", "types")
        return _OF_FILES.get(kind_of(files_of(given)[0]), ("types",))
    except SfumatoError:
        return ()
