"""The engines there are, loaded when first asked for: each opens the custodian's tables and reads published rows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import SpecError

if TYPE_CHECKING:
    from .contract import Engine

ENGINES = {
    "local": ("duckdb.table", "LocalEngine"),
    "spark": ("spark.table", "SparkEngine"),
}
LOCAL, SPARK = "local", "spark"


def engine_named(name: str = LOCAL, **options: Any) -> Engine:
    """The engine of that name with these options, or SpecError with the names there are."""
    if name not in ENGINES:
        raise SpecError(f'there is no engine "{name}"; engines: {", ".join(ENGINES)}', field="engine")
    module, maker = ENGINES[name]
    engine: Engine = vars(import_module(f".{module}", __package__))[maker](**options)
    return engine


def engine_for(source: Any) -> Engine:
    """The engine that holds the source already: Spark for its own DataFrames, else the local one."""
    from .source import Source

    source = source.given if isinstance(source, Source) else source
    return engine_named(SPARK if type(source).__module__.startswith("pyspark.sql") else LOCAL)
