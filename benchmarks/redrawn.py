"""One table published again and again, in memory: the rows that `publish` would write, without its files and checks.

Plan and rows come from the same code and the same streams of randomness as a release with the same seed, so the
published rows are the same ones (`tests/statistical/test_redrawn.py`); what is left out is what does not touch them:
the order, the file, reading it back. A release takes about a tenth of the time.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pydantic import TypeAdapter

import sfumato as sf
from sfumato.engines.duckdb.reader import DuckDBReader
from sfumato.methods import method_of
from sfumato.publish import Prepared, prepare
from sfumato.publishing.applier import Applier
from sfumato.publishing.custodian import read_column_hierarchy
from sfumato.publishing.randomness import Secret
from sfumato.query import Release
from sfumato.release.bundle import write_beside
from sfumato.release.manifest import Manifest
from sfumato.release.opened import OpenedRelease

# databases of readers that are gone: opening and closing one takes 38 ms, a third of what a release does
_idle: list[duckdb.DuckDBPyConnection] = []


class MemoryReader(DuckDBReader):
    """Rows in memory instead of data.parquet."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__(rows)
        weakref.finalize(self, _idle.append, self._con)

    def _confined(self, files: str, memory: str) -> duckdb.DuckDBPyConnection:
        """One that has no tables any more, if there is one."""
        if not _idle:
            return super()._confined(files, memory)
        con = _idle.pop()
        con.execute("DROP TABLE release")
        return con


class MemoryEngine:
    """An engine that reads one table, whatever file it is asked for."""

    name = "memory"

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def open(self, source: Any) -> Any:
        """Nothing: it serves readers only."""
        raise NotImplementedError

    def read(self, data: Path) -> MemoryReader:  # noqa: ARG002
        """A reader of the table."""
        return MemoryReader(self._rows)


class Redrawn:
    """A table and a method; `release(seed)` is the release that `sfumato.publish` makes with this seed."""

    def __init__(
        self,
        table: pa.Table,
        *,
        roles: sf.Roles,
        method: Any,
        null_as_value: bool = False,
        domains: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self._table, self._spec, self._roles = table, method, roles
        self._given: dict[str, Any] = {"null_as_value": null_as_value, "domains": domains}
        folder = tempfile.mkdtemp(prefix="sfumato-redrawn-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._folder = Path(folder)
        self._prepared: Prepared | None = None
        self._manifest: Manifest | None = None

    def published(self, seed: int) -> Release:
        """The same by the whole path, files and checks included."""
        return sf.publish(
            self._table, roles=self._roles, method=self._spec, seed=seed, accept_unprotected=True, **self._given
        )

    def release(self, seed: int, table: pa.Table | None = None, *, same_values: bool = False) -> Release:
        """The release with this seed, of another table of the same columns and declared domains where one is given.

        `same_values`: the columns that the method counts are those of the first table, so its profile is kept.
        """
        secret = Secret.from_seed(seed)
        prepared = self._planned(secret, None if same_values else table)
        applier = Applier(
            table=prepared.table,
            roles=prepared.roles,
            needs=prepared.needs,
            profile=prepared.profile,
            planned=prepared.planned,
            secret=secret,
        )
        arrow = (self._table if table is None else table).select(applier.reads).combine_chunks()
        types = prepared.table.arrow_types()
        batch = arrow.cast(pa.schema([(name, types[name]) for name in applier.reads])).to_batches()[0]
        rows = pa.Table.from_batches([applier.apply(0, batch)])
        applier.close()
        if self._manifest is None:
            self._manifest = self.published(seed).manifest
        folder = self._folder / str(seed)
        folder.mkdir(exist_ok=True)
        if prepared.planned.work.side:
            write_beside(applier.side_table(), folder / "sensitive.parquet")
        plan = TypeAdapter(prepared.method.plan_type).dump_python(prepared.planned.public, mode="json")
        file = self._manifest.files["data.parquet"].model_copy(update={"sha256": f"{seed:064x}", "rows": rows.num_rows})
        files = self._manifest.files | {"data.parquet": file}
        manifest = self._manifest.model_copy(update={"parameters": plan, "rows": rows.num_rows, "files": files})
        return Release(OpenedRelease(folder, manifest, engine=MemoryEngine(rows)))

    def _planned(self, secret: Secret, table: pa.Table | None) -> Prepared:
        """Profile and plan; those of the first table are kept where they do not depend on the seed."""
        if table is not None or self._prepared is None:
            source = self._table if table is None else table
            found = prepare(source, roles=self._roles, method=self._spec, secret=secret, **self._given)
            if table is None:
                self._prepared = found
            return found
        method = method_of(self._spec)
        spec = method.inputs(self._spec, read_column_hierarchy).spec
        planned = method.plan(spec, self._prepared.profile, secret.stream("plan"))
        return replace(self._prepared, planned=planned)
