"""Options that several commands take, said once; a command names a group and gets it as one object."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..engines.source import MEMORY
from ..errors import SpecError
from .teaching import option

if TYPE_CHECKING:
    from ..engines.contract import Engine
    from ..model.public import Roles
    from ..publishing.roles_file import RolesFile

Source = Annotated[
    str, typer.Argument(help="file, folder or glob, address of a database, or - for standard input", metavar="SOURCE")
]
ReleasePath = Annotated[str, typer.Argument(help="folder or zip archive of a release", metavar="RELEASE")]
Json = Annotated[bool, option("--json", "one JSON document on stdout", rich_help_panel="Output")]
Columns = list[str] | None
DEMO = "demo-release"
NONE = "none"
ROLES, READING, COARSER, ENGINE = "Roles of columns", "Reading the table", "Making columns coarser", "Engine"
Sensitive = Annotated[
    Columns,
    option("--sa", "sensitive column(s)", example="occupation", without=NONE, metavar="COLUMNS", rich_help_panel=ROLES),
]
Quasi = Annotated[
    Columns,
    option(
        "--qi",
        "columns a reader may know about people",
        example="age,sex",
        without=NONE,
        metavar="COLUMNS",
        rich_help_panel=ROLES,
    ),
]
Memory = Annotated[
    str | None,
    option(
        "--memory",
        "what the engine may hold before it spills to disk",
        example="4GB",
        without=MEMORY,
        metavar="SIZE",
        rich_help_panel=ENGINE,
    ),
]


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Which column plays which part."""

    sa: Sensitive = None
    qi: Quasi = None
    drop: Annotated[
        Columns,
        option("--drop", "identifying columns, not published", example="name,email", without=NONE, metavar="COLUMNS"),
    ] = None
    keep: Annotated[
        Columns,
        option("--keep", "insensitive columns, published as they are", example="year", without=NONE, metavar="COLUMNS"),
    ] = None
    rest: Annotated[
        str | None,
        option(
            "--rest",
            "role of all other columns: quasi, drop or keep",
            example="quasi",
            without="each must be named",
            metavar="ROLE",
        ),
    ] = None
    person: Annotated[
        str | None,
        option(
            "--person",
            "column that tells people apart, not published",
            example="patient",
            without="one row per person is assumed",
            metavar="COLUMN",
        ),
    ] = None
    max_rows_per_person: Annotated[
        int | None,
        option(
            "--max-rows-per-person",
            "random rows kept of a person, held together",
            example="3",
            without="several are refused",
            metavar="K",
        ),
    ] = None
    one_row: Annotated[bool, option("--one-row", "one random row kept of each person")] = False
    roles_file: Annotated[
        str | None,
        option(
            "--roles", "TOML file of roles, method and parameters", example="roles.toml", without=NONE, metavar="FILE"
        ),
    ] = None

    def roles(self) -> Roles:
        """The roles as the library takes them."""
        from ..model.public import Roles

        if self.roles_file is not None:
            return self.file().roles
        if self.one_row and self.max_rows_per_person is not None:
            raise SpecError("--one-row is --max-rows-per-person 1; say one of them", field="one_row")
        return Roles(
            sensitive=names(self.sa),
            quasi=names(self.qi),
            identifying=names(self.drop),
            insensitive=names(self.keep),
            rest=self.rest,
            person=self.person,
            max_rows_per_person=1 if self.one_row else self.max_rows_per_person,
        )

    def file(self) -> RolesFile:
        """What the roles file says; SpecError where roles are said on the command line as well."""
        from ..publishing.roles_file import SAID_BY, read_roles

        assert self.roles_file is not None
        for field in dataclasses.fields(self):
            if field.name != "roles_file" and vars(self)[field.name] not in (None, False, []):
                option = f"--{field.name.replace('_', '-')}"
                line = SAID_BY[field.name]
                message = f"{option} and --roles both give roles; say them in one place, in the file by {line}"
                raise SpecError(message, field=field.name)
        return read_roles(self.roles_file)


def names(given: Columns) -> tuple[str, ...]:
    """Column names from options that may hold several, with commas."""
    from ..model.names import listed

    return tuple(name for part in given or () for name in listed(part))


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How the table is found and read."""

    also: Annotated[
        Columns, option("--also", "another file of the same table", example="more.csv", without=NONE, metavar="FILE")
    ] = None
    table: Annotated[
        str | None,
        option(
            "--table",
            "table of a database, or sheet of a workbook",
            example="visits",
            without="the only one",
            metavar="NAME",
        ),
    ] = None
    query: Annotated[
        str | None,
        option(
            "--query",
            "SELECT that a database answers with the table",
            example='"SELECT * FROM visits"',
            without=NONE,
            metavar="SQL",
        ),
    ] = None
    delimiter: Annotated[
        str | None, option("--delimiter", "of a CSV file", example="';'", without="found in its header", metavar="TEXT")
    ] = None
    encoding: Annotated[
        str | None, option("--encoding", "of a CSV file", example="latin-1", without="UTF-8", metavar="NAME")
    ] = None
    null: Annotated[
        Columns,
        option(
            "--null", "text that means missing in a CSV file", example="NA", without="an empty cell", metavar="TEXT"
        ),
    ] = None
    decimal: Annotated[
        str | None,
        option("--decimal", "sign before a fraction in a CSV file", example=",", without="a point", metavar="SIGN"),
    ] = None
    dates: Annotated[
        str | None,
        option("--dates", "days of a CSV file", example="DD.MM.YYYY", without="YYYY-MM-DD", metavar="FORM"),
    ] = None
    types: Annotated[
        Columns,
        option(
            "--types",
            "type that a column must have",
            example="age=INTEGER",
            without="by all its cells",
            metavar="COLUMN=TYPE",
        ),
    ] = None
    bins: Annotated[
        Columns,
        option(
            "--bins",
            "public edges of a column's bins",
            example="age=0,18,40,65",
            without=NONE,
            metavar="COLUMN=EDGE,EDGE,...",
            rich_help_panel=COARSER,
        ),
    ] = None
    rounding: Annotated[
        Columns,
        option(
            "--round",
            "to multiples of a step, or dates to year, month",
            example="income=1000",
            without=NONE,
            metavar="COLUMN=STEP",
            rich_help_panel=COARSER,
        ),
    ] = None
    top_code: Annotated[
        Columns,
        option(
            "--top-code",
            "every larger number becomes this one",
            example="age=90",
            without=NONE,
            metavar="COLUMN=HIGHEST",
            rich_help_panel=COARSER,
        ),
    ] = None

    def source(self, given: str) -> Any:
        """The source as the library takes it; `-` is read to its end, privately."""
        from ..engines.source import Source as Read
        from ..engines.source import check_no_password
        from ..model.coarsening import bins, rounded, top_coded
        from ..model.names import assigned

        check_no_password(given)
        if given == "-" and not Path(given).exists():
            from ..engines.files import standard_input

            given = standard_input()
        types: dict[str, str] = {}
        for part in self.types or ():
            column, kind = assigned(part, "types")
            types[column] = kind
        return Read(
            [given, *self.also] if self.also else given,
            delimiter=self.delimiter,
            encoding=self.encoding,
            null=tuple(self.null or ()),
            decimal=self.decimal,
            dates=self.dates,
            types=types,
            table=self.table,
            query=self.query,
            recode=(
                *bins(self.bins or ()),
                *rounded(self.rounding or ()),
                *top_coded(self.top_code or ()),
            ),
        )


EngineName = Annotated[
    str,
    option("--engine", "who reads the rows: local or spark", example="spark", metavar="NAME", rich_help_panel=ENGINE),
]
Master = Annotated[
    str | None,
    option(
        "--master",
        "of Spark: start it there",
        example="spark://host:7077",
        without="here",
        metavar="URL",
        rich_help_panel=ENGINE,
    ),
]
Remote = Annotated[
    str | None,
    option(
        "--remote",
        "of Spark: join the Connect server",
        example="sc://host:15002",
        without=NONE,
        metavar="URL",
        rich_help_panel=ENGINE,
    ),
]


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Who reads the release."""

    engine: EngineName = "local"
    master: Master = None
    remote: Remote = None

    def chosen(self) -> Engine:
        """The engine as the library takes it."""
        return _engine(self.engine, self.master, self.remote)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the table is read, and by whom."""

    seed: Annotated[
        int | None,
        option(
            "--seed",
            "for tests: repeatable noise, and the release says so",
            example="1",
            without="fresh noise",
            metavar="NUMBER",
        ),
    ] = None
    null_as_value: Annotated[
        bool, option("--null-as-value", "missing is a sensitive value of its own", rich_help_panel=READING)
    ] = False
    domain: Annotated[
        Columns,
        option(
            "--domain",
            "file of all possible values, one a line",
            example="disease=codes.txt",
            without="those that occur",
            metavar="COLUMN=FILE",
            rich_help_panel=READING,
        ),
    ] = None
    engine: EngineName = "local"
    master: Master = None
    remote: Remote = None
    memory: Memory = None

    def arguments(self, *, spark: bool = False) -> dict[str, Any]:
        """The keyword arguments of the library that read a table; `spark`: a cluster may do what follows."""
        if self.engine == "spark" and not spark:
            raise SpecError("this command looks at rows on one machine; take --engine local", field="engine")
        return {
            "engine": _engine(self.engine, self.master, self.remote, memory=self.memory),
            "domains": _domains(self.domain),
            "null_as_value": self.null_as_value,
        }


def _engine(name: str, master: str | None, remote: str | None, *, memory: str | None = None) -> Engine:
    """The engine of that name; SpecError for an option that is not its own."""
    from ..engines.directory import LOCAL, SPARK, engine_named

    if name == LOCAL:
        for option, given in (("master", master), ("remote", remote)):
            if given is not None:
                raise SpecError(f"--{option} goes with --engine spark", field=option)
        return engine_named(LOCAL, memory=MEMORY if memory is None else memory)
    if name == SPARK:
        if memory is not None:
            raise SpecError(
                "--memory is the local engine's; tell Spark by spark.driver.memory and spark.executor.memory",
                field="memory",
            )
        return engine_named(SPARK, master=master, remote=remote)
    return engine_named(name)


def _domains(given: Columns) -> dict[str, list[str | None]]:
    domains: dict[str, list[str | None]] = {}
    from ..model.names import assigned

    for part in given or ():
        column, file = assigned(part, "domain")
        try:
            lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise SpecError(f'the domain file "{Path(file).name}" must be UTF-8 text', field="domain") from None
        except OSError:
            raise SpecError(f'the domain file "{Path(file).name}" cannot be read', field="domain") from None
        domains[column] = [line or None for line in lines]
    return domains
