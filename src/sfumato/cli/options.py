"""Options of commands: groups that several commands take, and one for every field of a method's specification.

A command names a group and gets one object; `with_single_options` spells groups out for typer, each option under the
heading of its group. A new method brings its own options. Every option says what it does, an example
("e.g. --qi age,sex") and what holds without it ("default: ..."); tests/unit/test_help.py walks all of them.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from ..engines.source import MEMORY
from ..errors import SpecError
from ..model.names import option_name

if TYPE_CHECKING:
    from ..engines.contract import Engine
    from ..methods.registry import Field
    from ..model.public import Roles
    from ..publishing.custodian import RolesFile


def option(
    usage: str, says: str, example: str = "", *, without: str | bool = True, panel: str | None = None, **more: Any
) -> Any:
    """An option as it is typed ("--qi COLUMNS"): what it does, an example of its value, what holds without it.

    `without` True stands for the default itself; `panel` is the heading under which help shows it.
    """
    name, _, metavar = usage.partition(" ")
    shown = f"{says}; e.g. {name} {example}" if example else says
    return typer.Option(name, help=shown, show_default=without, metavar=metavar or None, rich_help_panel=panel, **more)


Source = Annotated[
    str, typer.Argument(help="file, folder or glob, address of a database, or - for standard input", metavar="SOURCE")
]
ReleasePath = Annotated[str, typer.Argument(help="folder or zip archive of a release", metavar="RELEASE")]
Json = Annotated[bool, option("--json", "one JSON document on stdout", panel="Output")]
Columns = list[str] | None
NONE = "none"
ROLES, READING, COARSER, ENGINE = "Roles of columns", "Reading the table", "Making columns coarser", "Engine"
PARAMETERS = "Parameters of"
METAVARS = {int: "NUMBER", float: "NUMBER", tuple: "COLUMNS"}
PREFIX = "m_"  # of the parameters that stand for fields of a specification
Sensitive = Annotated[Columns, option("--sa COLUMNS", "sensitive column(s)", "occupation", without=NONE, panel=ROLES)]
Quasi = Annotated[
    Columns, option("--qi COLUMNS", "columns a reader may know about people", "age,sex", without=NONE, panel=ROLES)
]
Memory = Annotated[
    str | None,
    option("--memory SIZE", "what the engine may hold before it spills to disk", "4GB", without=MEMORY, panel=ENGINE),
]


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Which column plays which part."""

    sa: Sensitive = None
    qi: Quasi = None
    drop: Annotated[
        Columns, option("--drop COLUMNS", "identifying columns, not published", "name,email", without=NONE)
    ] = None
    keep: Annotated[
        Columns, option("--keep COLUMNS", "insensitive columns, published as they are", "year", without=NONE)
    ] = None
    rest: Annotated[
        str | None,
        option("--rest ROLE", "role of all other columns: quasi, drop or keep", "quasi", without="each must be named"),
    ] = None
    person: Annotated[
        str | None,
        option(
            "--person COLUMN",
            "column that tells people apart, not published",
            "patient",
            without="one row per person is assumed",
        ),
    ] = None
    max_rows_per_person: Annotated[
        int | None,
        option(
            "--max-rows-per-person K", "random rows kept of a person, held together", "3", without="several are refused"
        ),
    ] = None
    roles_file: Annotated[
        str | None, option("--roles FILE", "TOML file of roles, method and parameters", "roles.toml", without=NONE)
    ] = None

    def roles(self) -> Roles:
        """The roles as the library takes them."""
        from ..model.public import Roles

        if self.roles_file is not None:
            return self.file().roles
        return Roles(
            sensitive=names(self.sa),
            quasi=names(self.qi),
            identifying=names(self.drop),
            insensitive=names(self.keep),
            rest=self.rest,
            person=self.person,
            max_rows_per_person=self.max_rows_per_person,
        )

    def file(self) -> RolesFile:
        """What the roles file says; SpecError where roles are said on the command line as well."""
        from ..publishing.custodian import SAID_BY, read_roles

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

    also: Annotated[Columns, option("--also FILE", "another file of the same table", "more.csv", without=NONE)] = None
    table: Annotated[
        str | None,
        option("--table NAME", "table of a database, or sheet of a workbook", "visits", without="the only one"),
    ] = None
    query: Annotated[
        str | None,
        option("--query SQL", "SELECT that a database answers with the table", '"SELECT * FROM visits"', without=NONE),
    ] = None
    delimiter: Annotated[
        str | None, option("--delimiter TEXT", "of a CSV file", "';'", without="found in its header")
    ] = None
    encoding: Annotated[str | None, option("--encoding NAME", "of a CSV file", "latin-1", without="UTF-8")] = None
    null: Annotated[
        Columns, option("--null TEXT", "text that means missing in a CSV file", "NA", without="an empty cell")
    ] = None
    decimal: Annotated[
        str | None, option("--decimal SIGN", "sign before a fraction in a CSV file", ",", without="a point")
    ] = None
    dates: Annotated[str | None, option("--dates FORM", "days of a CSV file", "DD.MM.YYYY", without="YYYY-MM-DD")] = (
        None
    )
    types: Annotated[
        Columns,
        option("--types COLUMN=TYPE", "type that a column must have", "age=INTEGER", without="by all its cells"),
    ] = None
    bins: Annotated[
        Columns,
        option(
            "--bins COLUMN=EDGE,EDGE,...",
            "public edges of a column's bins",
            "age=0,18,40,65",
            without=NONE,
            panel=COARSER,
        ),
    ] = None
    rounding: Annotated[
        Columns,
        option(
            "--round COLUMN=STEP",
            "to multiples of a step, or dates to year, month",
            "income=1000",
            without=NONE,
            panel=COARSER,
        ),
    ] = None
    top_code: Annotated[
        Columns,
        option(
            "--top-code COLUMN=HIGHEST", "every larger number becomes this one", "age=90", without=NONE, panel=COARSER
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
        coarser = ((bins, self.bins), (rounded, self.rounding), (top_coded, self.top_code))
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
            recode=tuple(recoding for read, texts in coarser if texts for recoding in read(texts)),
        )


EngineName = Annotated[str, option("--engine NAME", "who reads the rows: local or spark", "spark", panel=ENGINE)]
Master = Annotated[
    str | None, option("--master URL", "of Spark: start it there", "spark://host:7077", without="here", panel=ENGINE)
]
Remote = Annotated[
    str | None,
    option("--remote URL", "of Spark: join the Connect server", "sc://host:15002", without=NONE, panel=ENGINE),
]


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Who reads the rows."""

    engine: EngineName = "local"
    master: Master = None
    remote: Remote = None

    def chosen(self, memory: str | None = None) -> Engine:
        """The engine as the library takes it; SpecError for an option that is not its own."""
        from ..engines import LOCAL, SPARK, engine_named

        if self.engine == LOCAL:
            for option, given in (("master", self.master), ("remote", self.remote)):
                if given is not None:
                    raise SpecError(f"--{option} goes with --engine spark", field=option)
            return engine_named(LOCAL, memory=MEMORY if memory is None else memory)
        if self.engine == SPARK and memory is not None:
            raise SpecError(
                "--memory is the local engine's; tell Spark by spark.driver.memory and spark.executor.memory",
                field="memory",
            )
        return engine_named(self.engine, master=self.master, remote=self.remote)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(EngineOptions):
    """How the table is read, and by whom."""

    seed: Annotated[
        int | None,
        option("--seed NUMBER", "for tests: repeatable noise, and the release says so", "1", without="fresh noise"),
    ] = None
    null_as_value: Annotated[
        bool, option("--null-as-value", "missing is a sensitive value of its own", panel=READING)
    ] = False
    domain: Annotated[
        Columns,
        option(
            "--domain COLUMN=FILE",
            "file of all possible values, one a line",
            "disease=codes.txt",
            without="those that occur",
            panel=READING,
        ),
    ] = None
    memory: Memory = None

    def arguments(self, *, spark: bool = False) -> dict[str, Any]:
        """The keyword arguments of the library that read a table; `spark`: a cluster may do what follows."""
        if self.engine == "spark" and not spark:
            raise SpecError("this command looks at rows on one machine; take --engine local", field="engine")
        return {
            "engine": self.chosen(self.memory),
            "domains": _domains(self.domain),
            "null_as_value": self.null_as_value,
        }


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


GROUPS = {RoleOptions: ROLES, SourceOptions: READING, ReadingOptions: None, EngineOptions: ENGINE}  # and its heading


def option_names(function: Callable[..., None]) -> frozenset[str]:
    """The options of a command as they are typed, those of its groups included."""
    kinds = get_type_hints(function, include_extras=True).values()
    hints = [hint for kind in kinds if kind in GROUPS for hint in get_type_hints(kind, include_extras=True).values()]
    parts = [part for hint in (*kinds, *hints) for part in get_args(hint)]
    found = [part for part in parts if isinstance(part, OptionInfo)]
    # the first name of an annotated option stands where the default would
    names = [name for option in found for name in (option.default, *(option.param_decls or ()))]
    return frozenset(name for name in names if isinstance(name, str))


def with_single_options(function: Callable[..., None], extra: dict[str, Any] | None = None) -> Callable[..., None]:
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
        hints = get_type_hints(parameter.annotation, include_extras=True)
        groups[parameter.name] = (parameter.annotation, [f.name for f in fields])
        for hint in hints.values():
            (option_info,) = hint.__metadata__
            option_info.rich_help_panel = option_info.rich_help_panel or GROUPS[parameter.annotation]
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


def method_options(own: Container[str] = ()) -> dict[str, Any]:
    """Parameter name -> annotation, for every field of every method, but for the command's `own` options."""
    from ..methods import REGISTRY
    from ..methods.registry import fields_of

    found: dict[str, dict[str, Field]] = {}  # name of a field -> method -> the field as the method has it
    for method in REGISTRY.values():
        for field in fields_of(method.spec):
            if option_name(field.name) not in own:
                found.setdefault(field.name, {})[method.name] = field
    options = {}
    for name, fields in found.items():
        first, flag = next(iter(fields.values())), any(f.kind is bool for f in fields.values())
        required = all(f.required for f in fields.values())
        made = option(
            option_name(name) if flag else f"{option_name(name)} {METAVARS.get(first.kind, 'TEXT')}",
            "; ".join(part for part in (_helps(fields), "required" if required else "") if part),
            "" if flag else first.example,
            without=not flag and not required and _defaults(fields),
            panel=f"{PARAMETERS} {', '.join(fields)}",
        )
        options[PREFIX + name] = Annotated[bool | None if flag else str | None, made]
    return options


def _helps(fields: dict[str, Field]) -> str:
    """What the option does: one sentence where the methods agree, else by method."""
    said_by = {method: field.help for method, field in fields.items()}
    if len(set(said_by.values())) == 1:
        return next(iter(said_by.values()))
    return "; ".join(f"{method}: {text}" for method, text in said_by.items())


def _defaults(fields: dict[str, Field]) -> str:
    """What holds without the option: one word where the methods agree, else by method."""
    by_default: dict[str, list[str]] = {}
    for method, field in fields.items():
        shown = "none" if field.default in (None, ()) else str(field.default)
        by_default.setdefault("required" if field.required else shown, []).append(method)
    first, *others = by_default
    return "; ".join((first, *(f"{default} for {', '.join(by_default[default])}" for default in others)))
