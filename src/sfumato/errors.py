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

Parameters and public labels may be quoted in a message; cells of the original table never. Every class says what causes
it and what to do: docs/reference/errors.md is made of that.
"""

from __future__ import annotations


class SfumatoError(Exception):
    """Root of the tree. The command line prints `str(error)` and leaves with `exit_code`.

    Cause: a page that cannot be served (no free port, a missing extra); all other causes have a class of their own.
    Remedy: do what the message says; in Python, `except SfumatoError` catches whatever sfumato refuses.
    """

    exit_code = 1


class SpecError(SfumatoError, ValueError):
    """A parameter, a role or an option is wrong; `field` names it.

    Cause: a value outside its range, two options that contradict each other, a column that the table lacks, that has no
    role or two, an extra that is not installed.
    Remedy: change what the message names; nothing has been read or written. `sfumato COMMAND --help` lists all options.
    """

    exit_code = 2

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class DataError(SfumatoError):
    """The table cannot be read, or does not fit the request; `column` names the place.

    Cause: a file that is not there or broken, missing sensitive values, values outside a declared domain, people with
    several rows, no rows at all.
    Remedy: mend the table, or say how it is meant: `--null`, `--types`, `--null-as-value`, `--domain`, `--person`.
    `sfumato look` shows what is in it; the message gives row numbers, never cells.
    """

    exit_code = 2

    def __init__(self, message: str, *, column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


class PlanError(SfumatoError):
    """The guarantee cannot be reached; `limit` is the nearest value that can (custodian's terminal only).

    Cause: the table does not allow it: a value is too frequent for the bound, there are too few rows or values, or the
    guarantee would leave most rows uncovered.
    Remedy: weaken the bound towards the limit that the message gives, merge frequent values, or take another method:
    `sfumato recommend` names one that reaches the bound.
    """

    exit_code = 3

    def __init__(self, message: str, *, limit: object = None) -> None:
        super().__init__(message)
        self.limit = limit


class QueryError(SfumatoError):
    """The question is wrong; `position` is the half-open span of the offending text.

    Cause: SQL that cannot be parsed, a column or a value that the release does not have.
    Remedy: look where the caret points; near names are suggested. `sfumato inspect RELEASE` lists columns and values.
    """

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
    """Valid SQL that cannot be answered with its error from this release.

    Cause: the question needs the true rows, or its error is not known: rows themselves, joins of tables, functions that
    are not on the list, aggregates that the method cannot estimate.
    Remedy: ask for counts, sums, averages, shares or quantiles instead (docs/sql.md), or ask the custodian for a
    release by a method that answers it.
    """


class ReleaseError(SfumatoError):
    """The bundle is malformed, of an unknown format version, or not there.

    Cause: a wrong path, a folder that was copied in part, a file that was changed, a release by a newer sfumato or by a
    method that is not installed; a target folder that exists already.
    Remedy: get the release again from whoever published it, or install the version that wrote it; `--force` replaces a
    release of your own.
    """

    exit_code = 2


class VerificationError(ReleaseError):
    """A digest or the guarantee recomputed from the bundle does not match what the bundle states.

    Cause: a release that was changed after it was made, or while it was open, that states more than its parameters
    give, or that was made with a seed; a signature by another key.
    Remedy: do not use the release and tell its custodian; one that was published anew while it was open is opened
    again. `--test` accepts a seed, for tests only.
    """

    exit_code = 4


class EngineError(SfumatoError):
    """The engine failed for a reason of its own (disk full, out of memory).

    Cause: no space in the temporary folder, not enough memory, a database or a cluster that went away, something of a
    release that was opened before this process was forked off.
    Remedy: make room or set `TMPDIR`, lower `--memory` so that it spills to disk earlier, open the release in the
    process that asks, try again; nothing was published.
    """
