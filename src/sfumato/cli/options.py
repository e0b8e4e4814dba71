"""Options that several commands take, said once; a command names a group and gets it as one object."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.models import OptionInfo

from ..errors import SpecError

if TYPE_CHECKING:
    from ..engines.contract import Engine
    from ..model.public import Roles
    from ..publishing.roles_file import RolesFile

Source = Annotated[
    str, typer.Argument(help="file, folder or glob, address of a database, or - for standard input", metavar="SOURCE")
]
ReleasePath = Annotated[str, typer.Argument(help="folder or zip archive of a release", metavar="RELEASE")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]
Columns = list[str] | None
DEFAULT_MEMORY = "1500MB"
DEMO = "demo-release"


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Which column plays which part."""

    sa: Annotated[Columns, typer.Option("--sa", help="sensitive column(s)", metavar="COLUMNS")] = None
    qi: Annotated[Columns, typer.Option("--qi", help="columns a reader may know about people", metavar="COLUMNS")] = (
        None
    )
    drop: Annotated[Columns, typer.Option("--drop", help="identifying columns, not published", metavar="COLUMNS")] = (
        None
    )
    keep: Annotated[
        Columns, typer.Option("--keep", help="insensitive columns, published as they are", metavar="COLUMNS")
    ] = None
    rest: Annotated[str | None, typer.Option("--rest", help="role of all other columns: quasi, drop or keep")] = None
    person: Annotated[
        str | None, typer.Option("--person", help="column that tells people apart, not published", metavar="COLUMN")
    ] = None
    max_rows_per_person: Annotated[
        int | None,
        typer.Option("--max-rows-per-person", help="random rows kept of a person, held together", metavar="K"),
    ] = None
    one_row: Annotated[bool, typer.Option("--one-row", help="one random row kept of each person")] = False
    roles_file: Annotated[
        str | None, typer.Option("--roles", help="TOML file of roles, method and parameters", metavar="FILE")
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
        from ..publishing.roles_file import read_roles

        assert self.roles_file is not None
        for field in dataclasses.fields(self):
            if field.name != "roles_file" and vars(self)[field.name] not in (None, False, []):
                option = f"--{field.name.replace('_', '-')}"
                raise SpecError(f"{option} and --roles both give roles; say them in one place", field=field.name)
        return read_roles(self.roles_file)


def names(given: Columns) -> tuple[str, ...]:
    """Column names from options that may hold several, with commas."""
    from ..model.names import listed

    return tuple(name for part in given or () for name in listed(part))


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How the table is found and read."""

    also: Annotated[Columns, typer.Option("--also", help="another file of the same table", metavar="FILE")] = None
    table: Annotated[
        str | None, typer.Option("--table", help="table of a database, or sheet of a workbook", metavar="NAME")
    ] = None
    query: Annotated[
        str | None, typer.Option("--query", help="SELECT that a database answers with the table", metavar="SQL")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="of a CSV file; found in its header otherwise")
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="of a CSV file; default: UTF-8", metavar="NAME")
    ] = None
    null: Annotated[Columns, typer.Option("--null", help="text that means missing in a CSV file", metavar="TEXT")] = (
        None
    )
    types: Annotated[Columns, typer.Option("--types", help="type that a column must have", metavar="COLUMN=TYPE")] = (
        None
    )

    bins: Annotated[
        Columns, typer.Option("--bins", help="public edges of a column's bins", metavar="COLUMN=EDGE,EDGE,...")
    ] = None
    rounding: Annotated[
        Columns, typer.Option("--round", help="to multiples of a step, or dates to year, month", metavar="COLUMN=STEP")
    ] = None
    top_code: Annotated[
        Columns, typer.Option("--top-code", help="every larger number becomes this one", metavar="COLUMN=HIGHEST")
    ] = None

    def source(self, given: str) -> Any:
        """The source as the library takes it; `-` is read to its end, privately."""
        from ..engines.addresses import check_no_password
        from ..engines.source import Source as Read
        from ..model.coarsening import bins, rounded, top_coded
        from ..model.names import assigned

        check_no_password(given)
        if given == "-" and not Path(given).exists():
            from .standard_input import standard_input

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
            types=types,
            table=self.table,
            query=self.query,
            recode=(
                *bins(self.bins or ()),
                *rounded(self.rounding or ()),
                *top_coded(self.top_code or ()),
            ),
        )


EngineName = Annotated[str, typer.Option("--engine", help="local or spark")]
Master = Annotated[str | None, typer.Option("--master", help="of Spark: start it there; default: here", metavar="URL")]
Remote = Annotated[
    str | None, typer.Option("--remote", help="of Spark: join the Connect server sc://...", metavar="URL")
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

    seed: Annotated[int | None, typer.Option("--seed", help="for tests: stamps the release as reproducible")] = None
    null_as_value: Annotated[bool, typer.Option("--null-as-value", help="missing is a sensitive value of its own")] = (
        False
    )
    domain: Annotated[Columns, typer.Option("--domain", help="declared values, one a line", metavar="COLUMN=FILE")] = (
        None
    )
    engine: EngineName = "local"
    master: Master = None
    remote: Remote = None
    memory: Annotated[str, typer.Option("--memory", help="what the engine may hold before it spills to disk")] = (
        DEFAULT_MEMORY
    )

    def arguments(self, *, spark: bool = False) -> dict[str, Any]:
        """The keyword arguments of the library that read a table; `spark`: a cluster may do what follows."""
        if self.engine == "spark" and not spark:
            raise SpecError("this command looks at rows on one machine; take --engine local", field="engine")
        return {
            "engine": _engine(self.engine, self.master, self.remote, memory=self.memory),
            "domains": _domains(self.domain),
            "null_as_value": self.null_as_value,
        }


def _engine(name: str, master: str | None, remote: str | None, *, memory: str = DEFAULT_MEMORY) -> Engine:
    """The engine of that name; SpecError for an option that is not its own."""
    from ..engines.directory import LOCAL, SPARK, engine_named

    if name == LOCAL:
        for option, given in (("master", master), ("remote", remote)):
            if given is not None:
                raise SpecError(f"--{option} goes with --engine spark", field=option)
        return engine_named(LOCAL, memory=memory)
    if name == SPARK:
        if memory != DEFAULT_MEMORY:
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
        except (OSError, UnicodeDecodeError):
            raise SpecError(f'the domain file "{Path(file).name}" cannot be read', field="domain") from None
        domains[column] = [line or None for line in lines]
    return domains


GROUPS = (RoleOptions, SourceOptions, ReadingOptions, EngineOptions)


def typed(function: Callable[..., None]) -> frozenset[str]:
    """The options of a command, as they are typed."""
    kinds = inspect.get_annotations(function, eval_str=True).values()
    hints = [hint for kind in kinds if kind in GROUPS for hint in inspect.get_annotations(kind, eval_str=True).values()]
    parts = [part for hint in (*kinds, *hints) for part in get_args(hint)]
    found = [part for part in parts if isinstance(part, OptionInfo)]
    # the first name of an annotated option stands where the default would
    names = [name for option in found for name in (option.default, *(option.param_decls or ()))]
    return frozenset(name for name in names if isinstance(name, str))


def flattened(function: Callable[..., None], extra: dict[str, Any] | None = None) -> Callable[..., None]:
    """The function as typer takes it: every group of options in its signature spelled out as single options.

    `extra` are options to add at the end (name -> annotation); they arrive as the function's keyword arguments.
    """
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.annotation not in GROUPS:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        fields = dataclasses.fields(parameter.annotation)
        hints = inspect.get_annotations(parameter.annotation, eval_str=True)
        groups[parameter.name] = (parameter.annotation, [f.name for f in fields])
        parameters += [
            inspect.Parameter(f.name, parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
            for f in fields
        ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in (extra or {}).items()
    ]

    def call(**arguments: Any) -> None:
        for name, (group, fields) in groups.items():
            arguments[name] = group(**{field: arguments.pop(field) for field in fields})
        function(**arguments)

    call.__doc__, call.__name__ = function.__doc__, function.__name__
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call
