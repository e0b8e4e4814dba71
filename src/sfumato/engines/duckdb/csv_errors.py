"""What is said of a CSV file that cannot be read: one line, without any cell of it."""

from __future__ import annotations

import re

from ...errors import DataError

UTF_8 = "utf-8-sig"


def not_text(what: str, encoding: str) -> str:
    """What to say about a file that is not in the encoding."""
    if encoding == UTF_8:
        return f"{what} is not UTF-8 text; say its encoding, for example --encoding latin-1, or utf-16"
    return f"{what} is not text in the encoding {encoding}"


def csv_error(error: Exception) -> DataError:
    """One line without any cell of the file."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    where = f" (line {line.group(1)})" if line else ""
    if "Invalid unicode" in text:
        return DataError(f"the CSV file is not UTF-8 text{where}; say its encoding, for example --encoding latin-1")
    if "Expected Number of Columns" in text:
        return DataError(f"the CSV file is ragged: a line has more or fewer fields than the header{where}")
    if "unterminated quote" in text:
        return DataError(f"the CSV file has an unbalanced quote{where}")
    if "Maximum line size" in text:
        return DataError(f"the CSV file has a line of more than 2 MB{where}; leave its long text out, or write Parquet")
    if "invalid state" in text:
        return DataError(
            f"the CSV file has two kinds of line ends, or quotes where none may stand{where}; write it again"
        )
    if "GZIP" in text or "gzip" in text:
        return DataError("the compressed file is damaged or cut off")
    return DataError(f"the file cannot be read as CSV{where}")
