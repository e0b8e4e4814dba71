"""Every exception sfumato raises.

    SfumatoError                    exit code 1
    ├── SpecError (ValueError)      2   a parameter or a role is wrong
    ├── DataError                   2   the table cannot be read or used as asked
    ├── PlanError                   3   the guarantee cannot be reached with these parameters
    ├── QueryError                  2   the question is wrong
    │   └── UnsupportedQuery        2   the question cannot be answered with its error
    ├── ReleaseError                2   the bundle is malformed, too new or missing
    │   └── VerificationError       4   digests or the guarantee do not match the bundle
    └── EngineError                 1   the engine failed for a reason of its own

Parameters and public labels may be quoted in a message; cells of the original table never.
"""

from __future__ import annotations


class SfumatoError(Exception):
    """Root of the tree. The command line prints `str(error)` and leaves with `exit_code`."""

    exit_code = 1


class SpecError(SfumatoError, ValueError):
    """A parameter, a role or an option is wrong; `field` names it."""

    exit_code = 2

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class DataError(SfumatoError):
    """The table cannot be read, or does not fit the request; `column` names the place."""

    exit_code = 2

    def __init__(self, message: str, *, column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


class PlanError(SfumatoError):
    """The guarantee cannot be reached; `limit` is the nearest value that can (custodian's terminal only)."""

    exit_code = 3

    def __init__(self, message: str, *, limit: object = None) -> None:
        super().__init__(message)
        self.limit = limit


class QueryError(SfumatoError):
    """The question is wrong; `position` is the half-open span of the offending text."""

    exit_code = 2

    def __init__(
        self, message: str, *, sql: str | None = None, position: tuple[int, int] | None = None, hint: str | None = None
    ) -> None:
        self.message, self.sql, self.position, self.hint = message, sql, position, hint
        super().__init__(self.render())

    def render(self) -> str:
        """The message, the line of SQL with a caret under the clause, and what to do instead."""
        lines = [self.message]
        if self.sql is not None and self.position is not None:
            start, end = self.position
            line_start = self.sql.rfind("\n", 0, start) + 1
            line_end = self.sql.find("\n", start)
            line_end = len(self.sql) if line_end < 0 else line_end
            lines.append("    " + self.sql[line_start:line_end].replace("\t", " "))
            lines.append("    " + " " * (start - line_start) + "^" * max(1, min(end, line_end) - start))
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class UnsupportedQuery(QueryError):  # noqa: N818 - the name people read in a traceback
    """Valid SQL that cannot be answered with its error from this release."""


class ReleaseError(SfumatoError):
    """The bundle is malformed, of an unknown format version, or not there."""

    exit_code = 2


class VerificationError(ReleaseError):
    """A digest or the guarantee recomputed from the bundle does not match what the bundle states."""

    exit_code = 4


class EngineError(SfumatoError):
    """The engine failed for a reason of its own (disk full, out of memory)."""
