"""What a release says about itself, and whether it is true: recomputed from the bundle alone.

Looked at is what a reader sees: files, columns, values, the order of rows, and whether they follow the stated law.
Bytes hidden beside the values, for example between the pages of a Parquet file, are not looked for.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..engines.batches import open_parquet
from ..engines.codes import places
from ..engines.statements import COUNT, distinct
from ..errors import DataError, PlanError, ReleaseError, SpecError, VerificationError
from ..methods import AnyMethod
from ..methods.shared.readers import ONE_ROW, public_readers
from ..model.coarsening import Recoding
from ..model.public import People, ReaderBound
from ..stats.tails import FALSE_ALARM, crowded
from ..version import __version__
from .documents import README, datapackage, readme
from .files import SETS, check_digests, digest, readable
from .manifest import MAX_MANIFEST, PARTS, Manifest, encode, guarantee_model
from .opened import OpenedRelease, open_path, stated_by_a_stranger

NEAR = 1e-9  # of a step, to which a rounded real number is a multiple


def describe(release: OpenedRelease) -> dict[str, Any]:
    """The document of `sfumato inspect --json`: what the release says, which nobody has checked."""
    manifest = release.manifest.model_dump(mode="json", exclude_none=True)
    found = {name: manifest[name] for name in manifest if name not in {"format"}} | {"verified": False}
    if recodings := release.manifest.recodings():
        found["coarsened"] = [recoding.said for recoding in recodings]
    return found if release.method is not None else found | {"method_installed": False}


def verify(
    release: str | Path | OpenedRelease, *, test: bool = False, key: str | Path | None = None
) -> tuple[str, ...]:
    """What holds of a release, line by line, recomputed from the bundle alone; VerificationError where something fails.

    `release` is a folder, a zip archive, or an open one. `test` accepts a release that was made with a seed. `key` is a
    file with the custodian's public key in PEM: the signature is checked with it.
    """
    opened = release if isinstance(release, OpenedRelease) else open_path(release)
    lines = tuple(verified_lines(opened, test=test))
    if key is None:
        return lines

    check_signature(opened.path, read_public(key))
    opened.check_unchanged()
    return (*lines, "signed with the private half of this key")


def verified_lines(release: OpenedRelease, *, test: bool = False) -> Iterator[str]:
    """Lines that say what holds; VerificationError at the first thing that does not."""
    manifest, method = release.manifest, release.method
    check_folder(release.path, manifest)
    check_digests(release.path, manifest)
    yield "digests of all files"
    check_package(release.path, manifest)
    check_traces(release.path, manifest)
    yield "no file or column besides those that are declared, no note in a Parquet file"
    yield f"datapackage.json says what release.json says; {check_readme(release.path, manifest)}"
    check_columns(release)
    check_texts(release)
    check_coarser(release)
    if method is not None:
        yield from _promise(release, method)
    check_rows(release)
    with stated_by_a_stranger(VerificationError, "the published parameters do not fit the published rows"):
        check_sets(release)
        release.law.check(release.published)
        if method is not None:
            method.verify(release.plan, release.published)
    yield f"what is published is what the parameters allow (false alarm: {FALSE_ALARM:g})"
    check_order(release)
    release.check_unchanged()
    yield f"rows are in random order, as far as blocks and pairs of them tell (false alarm: {FALSE_ALARM:g})"
    yield f"{manifest.rows:,} rows, columns and values as stated"
    if manifest.reproducible and not test:
        raise VerificationError("the release was made with a seed, so its noise can be undone; for tests say --test")
    yield "made with a seed, accepted as a test" if manifest.reproducible else "made without a seed"
    if method is None:
        raise VerificationError(
            f'the method "{manifest.method}" is not installed, so that its promise was not recomputed; files, rows and '
            "the law of the rows are as stated"
        )


def _promise(release: OpenedRelease, method: AnyMethod) -> Iterator[str]:
    """Lines about the guarantee and the readers, recomputed from the parameters."""
    manifest = release.manifest
    with stated_by_a_stranger(VerificationError, "the guarantee cannot be computed from the published parameters"):
        try:
            computed = guarantee_model(method.guarantee(release.plan), People(**dict(manifest.people)))
        except (PlanError, SpecError) as error:
            raise VerificationError(f"the published parameters give no guarantee: {error}") from None
    beside = {"readers", "unprotected"}
    if manifest.guarantee.model_dump(mode="json", exclude=beside) != computed.model_dump(mode="json", exclude=beside):
        raise VerificationError("the stated guarantee is not the one that the published parameters give")
    if method.rows_held(release.plan) not in {None, manifest.people.rows_per_person}:
        raise VerificationError("the parameters do not hold as many rows of a person as the release states")
    yield f"guarantee recomputed from the parameters: {computed.statement}"
    yield from _check_readers(release, method)


def _check_readers(release: OpenedRelease, method: AnyMethod) -> Iterator[str]:
    """A line about the readers, recomputed; and about the values that are stated not to be covered."""
    stated = release.manifest.guarantee
    if stated.readers is not None:
        person = next((r.rows for r in stated.readers if r.rows is not None), None)
        assumed = any(ONE_ROW in r.why for r in stated.readers)
        sensitive = {column.name for column in release.columns if column.role == "sensitive"}
        domains = [d for d in release.domains if set(d.columns) <= sensitive]
        found = public_readers(method, release.plan, domains, rows_per_person=None if assumed else person)
        if tuple(ReaderBound(**dict(r)) for r in stated.readers) != found:
            raise VerificationError("the stated readers are not the ones that the published parameters give")
        held = ", ".join(r.reader for r in found if r.held) or "none"
        yield f"readers recomputed from the parameters; held: {held}"
    if stated.unprotected is not None and stated.unprotected.values:
        domain = {tuple(c.domain or ()) for c in release.columns if c.role == "sensitive"}
        allowed = {str(encode(v)) for column in domain for v in column}
        for value in stated.unprotected.values:
            cells = value if isinstance(value, list) else [value]
            if not {str(c) for c in cells} <= allowed:
                raise VerificationError("a value is said not to be covered that is not in the published domain")
        left = stated.unprotected
        yield f"not covered, as stated: {left.share:.0%} of the rows, by value: {len(left.values)}"


def check_rows(release: OpenedRelease) -> None:
    """Refuse a release whose rows or published values are not the ones it states."""
    if release.reader.count(())[COUNT][0].as_py() != release.manifest.rows:
        raise VerificationError("the number of rows is not the one release.json states")
    try:
        if release.law.withheld:
            _ = release.evidence.side
        else:
            for unit in range(len(release.domains)):
                release.published.evidence.totals((unit,))
    except DataError:
        raise VerificationError("the release holds values outside the domain that release.json states") from None


def check_coarser(release: OpenedRelease) -> None:
    """Raise VerificationError where a published value is finer than the release says."""
    recodings = release.manifest.recodings()
    columns = {column.name: column for column in release.columns}
    last = {recoding.column: recoding for recoding in recodings}
    for name, recoding in last.items():
        if name not in columns:
            raise VerificationError(f'release.json says that "{name}" was made coarser, which it does not publish')
        column = columns[name]
        if column.released_type is not None:
            continue
        values: Sequence[Any] = column.domain or ()
        if column.domain is None:
            values = release.reader.run(distinct(name, table="release"))["v"].to_pylist()
        before = [r for r in recodings if r.column == name and r is not recoding]
        if any(v is not None and not _fits(v, recoding, before) for v in values):
            raise VerificationError(f'"{name}" holds values that are finer than release.json says')


def _fits(value: Any, recoding: Recoding, before: list[Recoding]) -> bool:
    if recoding.edges:
        return value in recoding.labels
    if recoding.top is not None:
        at_top = float(value) == float(recoding.top)
        return at_top or (float(value) < float(recoding.top) and all(_fits(value, r, []) for r in before))
    if recoding.period is not None:
        return isinstance(value, datetime.date) and _first_day(value, recoding.period)
    assert recoding.step is not None
    if isinstance(value, float):
        return abs(value / float(recoding.step) - round(value / float(recoding.step))) <= NEAR
    return (Fraction(value) / recoding.step).denominator == 1


def _first_day(day: datetime.date, period: str) -> bool:
    if period == "week":
        return day.weekday() == 0
    months = {"year": (1,), "quarter": (1, 4, 7, 10)}.get(period, tuple(range(1, 13)))
    return day.day == 1 and day.month in months


def unseen(release: OpenedRelease) -> tuple[str, ...]:
    """What nobody can tell from the bundle alone."""
    swapped = "published values that were swapped between rows, or values of columns that are published as they are"
    halved = () if release.law.part else ("rows left out or repeated: the bundle states no size but their number",)
    people = ("whose row a row is: that people were counted is what the custodian says",)
    hidden = "bytes beside the values: white space, words of dictionaries that no row has, the cut into row groups"
    own = () if release.method is None else release.method.unseen
    return (swapped, *own, *halved, *(people if release.manifest.people.checked else ()), hidden)


# --- whether the files of a bundle are the ones it states, hold nothing else, and are in an order that tells nothing


Counts = np.typing.NDArray[np.int64]
Numbers = np.typing.NDArray[np.integer]
WEIGHTS, CLOSE = ("weight", "variance_weight"), 1e-9  # ... of the largest weight
ALWAYS = ("release.json", "datapackage.json")
SIGNATURE, SIGNED = "release.sig", re.compile(rb"[0-9a-f]{128}\n")
WRITERS = re.compile(r"[A-Za-z-]{1,30} version v?[0-9][0-9A-Za-z.+-]{0,30}( \(build [0-9a-z]{1,40}\))?")  # of Parquet
MAX_PACKAGE = 2 * MAX_MANIFEST
ENDS = 250_000  # rows at each end of a long file whose order is tested; of parts all together
FEWEST = 1_000  # ... but at least so many of each part
LONG_TEXT = 128  # bytes of a text that are looked at
AT_ONCE = 4_000_000  # cells that are read at a time
TEXTS_AT_ONCE = 65_536  # rows
CUTS = 16  # places at which a column's values are cut into low and high ones
BLOCKS = 16  # of the rows of a file in which values may crowd
LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64, 100)  # how far before a row is the one it is compared with


def check_folder(folder: Path, manifest: Manifest) -> None:
    """Raise VerificationError where the folder holds a file that the release does not declare, or lacks one."""
    parts = folder / PARTS
    found = {entry.name for entry in folder.iterdir() if entry != parts}
    if parts.is_dir() and not parts.is_symlink():
        found |= {f"{PARTS}/{entry.name}" for entry in parts.iterdir()} or {PARTS}
    elif parts.exists() or parts.is_symlink():
        found.add(PARTS)
    declared = {*ALWAYS, *manifest.files, *(manifest.documents or {})}
    unknown = sorted(found - declared - {SIGNATURE})
    if unknown:
        raise VerificationError(f"release.json does not declare {len(unknown)} of the files in the folder")
    if declared - found:
        raise VerificationError(f"{sorted(declared - found)[0]} is missing")
    if any(not (folder / name).is_file() or (folder / name).is_symlink() for name in found):
        raise VerificationError("the folder holds something that is not a plain file")
    signature = folder / SIGNATURE
    if SIGNATURE in found and (signature.stat().st_size > 129 or not SIGNED.fullmatch(signature.read_bytes())):
        raise VerificationError(f"{SIGNATURE} holds something else than a signature")


def check_package(folder: Path, manifest: Manifest) -> None:
    """Raise VerificationError where datapackage.json does not describe the same files."""
    read_once(folder / "release.json")
    path = folder / "datapackage.json"
    sizes = {str(name): (folder / name).stat().st_size for name in manifest.files}
    expected = datapackage(manifest, sizes, {name: pq.read_schema(folder / name) for name in manifest.files})
    try:
        if path.stat().st_size > MAX_PACKAGE:
            raise VerificationError("datapackage.json is too large to be what it should be")
        stated = read_once(path)
    except (OSError, ValueError, RecursionError):
        raise VerificationError("datapackage.json cannot be read") from None
    if stated != json.loads(json.dumps(expected)):
        raise VerificationError("datapackage.json describes other files than release.json")


def check_readme(folder: Path, manifest: Manifest) -> str:
    """What holds of README.md; VerificationError where it says something else than release.json does.

    Its words may differ between versions of sfumato, so only our own are compared.
    """
    if manifest.documents is None:
        return "there is no README.md"
    if manifest.software.version != __version__:
        return "README.md is that of another version and was not compared"
    expected, file = readme(manifest).encode(), folder / README
    if file.stat().st_size != len(expected) or file.read_bytes() != expected:
        raise VerificationError("README.md says something else than release.json")
    return "so does README.md"


def read_once(path: Path) -> Any:
    """The document of a JSON file; VerificationError where a name stands twice, which readers read in two ways."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(found)
        if len(document) < len(found):
            raise VerificationError(f"{path.name} states something twice")
        return document

    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)


def check_traces(folder: Path, manifest: Manifest) -> None:
    """Raise VerificationError where a Parquet file carries notes of its own: they may hold anything."""
    for name in manifest.files:
        found, schema = pq.read_metadata(folder / name), pq.read_schema(folder / name)
        noted = any(field.metadata and set(field.metadata) - {b"PARQUET:field_id"} for field in schema)
        if found.metadata or noted or not WRITERS.fullmatch(found.created_by):
            raise VerificationError(f"{name} carries metadata that no release has")


def check_texts(release: OpenedRelease) -> None:
    """Raise VerificationError where a text of a row is not UTF-8: readers fail on it, or differ in what they show."""
    for name in release.manifest.data_files:
        with readable(name), open_parquet(release.path / name) as file:
            texts = [field.name for field in file.schema_arrow if pa.types.is_dictionary(field.type)]
            for batch in file.iter_batches(TEXTS_AT_ONCE, columns=texts):
                for column in batch.columns:
                    try:
                        column.dictionary.validate(full=True)
                    except pa.ArrowInvalid:
                        raise VerificationError(f"{name} holds values that are not of their column's type") from None


def check_columns(release: OpenedRelease) -> None:
    """Raise VerificationError where columns, units and domains do not fit each other."""
    names = [column.name.lower() for column in release.columns]
    if len(set(names)) < len(names):
        raise VerificationError("release.json lists a column twice, or two names that differ in case only")
    units = [name for domain in release.domains for name in domain.columns]
    if len(set(units)) < len(units):
        raise VerificationError("release.json lists a column in two units")
    for column in release.columns:
        if (column.domain is not None) != (column.name in units):
            raise VerificationError(f'"{column.name}" has a domain and no unit, or a unit and no domain')
        if (column.role == "group") != (column.name == release.law.part):
            raise VerificationError("release.json gives a role to a column that the method does not give it")
        if column.name in units and column.role not in {"sensitive", "quasi"}:
            raise VerificationError(f'"{column.name}" is changed by no method in the role that it has')
    for domain in release.domains:
        used = [{value[j] for value in domain.values} for j in range(len(domain.columns))]
        for name, seen in zip(domain.columns, used, strict=True):
            stated = next(column.domain for column in release.columns if column.name == name)
            if set(stated or ()) != seen:
                raise VerificationError(f'the domain of "{name}" lists values that no unit has')


def check_sets(release: OpenedRelease) -> None:
    """Raise VerificationError unless sets.parquet says of every set what the published parameters say."""
    expected = release.sets_table()
    if expected is None:
        return
    wrong = VerificationError("sets.parquet does not hold the sets and weights that the published parameters give")
    with readable(SETS), open_parquet(release.path / SETS) as file:
        if file.metadata.num_rows != expected.num_rows or file.schema_arrow.names != expected.column_names:
            raise wrong
        found = file.read()
    for name in expected.column_names:
        mine, theirs = expected[name], found[name]
        if name in WEIGHTS:  # equal up to the rounding of other processors
            weights = mine.to_numpy()
            near = CLOSE * np.abs(weights).max(initial=1.0)
            same = not theirs.null_count and bool((np.abs(weights - theirs.to_numpy()) <= near).all())
        else:
            distinct = pc.unique(mine)  # long texts stay in their dictionary
            same = np.array_equal(places(mine, distinct), places(theirs, distinct))
        if not same:
            raise wrong


def check_order(release: OpenedRelease) -> None:
    """Raise VerificationError where the rows are not in random order, as far as their own columns can tell.

    Of long files the first and the last rows are looked at. They are in random order too, and so are those of all
    parts, one after the other: where each part is random by itself they may still be sorted.
    """
    with readable("data.parquet"):
        files = [open_parquet(release.path / name) for name in release.manifest.data_files]
    schema = files[0].schema_arrow  # made anew each time it is asked for
    most = max(ENDS // len(files), FEWEST)
    rows = sum(min(file.metadata.num_rows, 2 * most) for file in files)
    together = max(1, AT_ONCE // (rows + 1))
    for some in (schema.names[first : first + together] for first in range(0, len(schema), together)):
        with readable("data.parquet"):
            parts = [_ends(file, some, most) for file in files]
        for name in some:
            column = pa.concat_arrays([half for part in parts for half in part[name]])
            if in_some_order(column, BLOCKS * len(files), FALSE_ALARM / len(schema)):
                raise VerificationError(f'the rows are not in random order: "{name}" tells where rows stand')


def in_some_order(column: pa.Array, blocks: int, alarm: float) -> bool:
    """Whether a random order would hardly make the values crowd so in a block of rows, or go so with other rows.

    The values are cut at up to 16 places. In a random order the rows below a cut fall on a block as a hypergeometric
    number does: on each of the `blocks`, and of those of twice the length, up to halves. Rows are also paired, with one
    some rows before and with the one as far from the other end: the partners of rows below the cut are such a number.
    """
    if pa.types.is_null(column.type) or len(column) < 2:
        return False
    coded = column.dictionary_encode(null_encoding="encode")
    codes, order = coded.indices.to_numpy(), pc.sort_indices(coded.dictionary).to_numpy()
    upto = np.cumsum(np.bincount(codes, minlength=len(order))[order])
    quantiles = np.linspace(0, 1, CUTS + 2)[1:-1]
    cuts = np.unique(np.searchsorted(upto, np.floor((len(column) - 1) * quantiles), side="right"))
    level = np.empty(len(order), dtype=np.uint16)
    level[order] = np.searchsorted(cuts, np.arange(len(order)))
    levels, rows = level[codes], len(column)  # of a row: the first cut that it is not above

    def counted(first: Numbers, second: Numbers, numbers: int) -> Counts:
        """(number, cut): rows of `second` not above the cut whose `first` has the number; the last cut is above all."""
        cells = np.bincount(
            first.ravel() * np.intp(len(cuts) + 1) + second.ravel(), minlength=numbers * (len(cuts) + 1)
        )
        return np.cumsum(cells.reshape(numbers, -1), axis=1)

    found = []  # (rows not above the cut, of so many, among so many rows, of which so many are looked at)
    inside = counted(np.arange(rows) * blocks // rows, levels, blocks)
    while len(inside) > 1:
        found.append(np.broadcast_arrays(inside[:, :-1], upto[cuts], rows, inside[:, -1:]))
        inside = inside[: len(inside) // 2 * 2].reshape(-1, 2, inside.shape[1]).sum(axis=1)
    lags = (lag for lag in LAGS if 2 * lag <= rows)
    before = (levels[: rows // (2 * lag) * 2 * lag].reshape(-1, 2, lag).swapaxes(0, 1) for lag in lags)
    for one, other in [*before, (levels[: rows // 2], levels[::-1][: rows // 2])]:
        both = np.cumsum(counted(one, other, len(cuts) + 1), axis=0)
        found.append(np.broadcast_arrays(both.diagonal()[:-1], both[-1, :-1], one.size, both[:-1, -1]))
    low, totals, among, looked = (np.concatenate([each[i].ravel() for each in found]) for i in range(4))
    return crowded(low, totals, among, looked, alarm)


def _ends(file: pq.ParquetFile, names: Sequence[str], most: int) -> dict[str, tuple[pa.Array, pa.Array]]:
    """The first and the last half of columns, of at most so many rows each; of texts how they begin."""
    groups, half = file.num_row_groups, min(file.metadata.num_rows // 2, most)
    sides = []
    for order in (range(groups), range(groups - 1, -1, -1)):
        taken, rows = [], 0
        for g in order:
            if rows >= half:
                break
            taken.append(g)
            rows += file.metadata.row_group(g).num_rows
        sides.append(file.read_row_groups(sorted(taken), columns=list(names)))
    cells = {name: [_begun(side[name]) for side in sides] for name in names}
    return {name: (first[:half], last[len(last) - half :]) for name, (first, last) in cells.items()}


def _begun(column: pa.ChunkedArray) -> pa.Array:
    """The cells; of texts the beginnings, as an order that is random by whole texts is random by these."""
    if not pa.types.is_dictionary(column.type):
        return column.combine_chunks()
    chunks = column.chunks or [pa.array([], column.type)]
    begun = (pc.binary_slice(chunk.dictionary.cast(pa.large_binary()), 0, LONG_TEXT) for chunk in chunks)
    return pa.concat_arrays(values.take(chunk.indices) for chunk, values in zip(chunks, begun, strict=True))


# A custodian's signature beside a release: Ed25519 over the digest of release.json, in a file of its own.
#
# release.json holds the digests of the data files, so one signature covers them all. Keys are PEM files that
# `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` make; no key enters a bundle.


MAX_KEY = 64 * 2**10
SIGNED_PREFIX = b"sfumato release 1\n"  # a signature of something else is none of a release


def read_private(path: str | Path) -> Any:
    """The private key in a PEM file, or SpecError; the file's content is never quoted."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return _key(path, lambda data: load_pem_private_key(data, password=None), Ed25519PrivateKey)


def read_public(path: str | Path) -> Any:
    """The public key in a PEM file, or SpecError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    return _key(path, load_pem_public_key, Ed25519PublicKey)


def _key(path: str | Path, load: Callable[[bytes], Any], kind: type) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    file = Path(path)
    try:
        if file.stat().st_size > MAX_KEY:
            raise ValueError
        key = load(file.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        raise SpecError(f'"{file.name}" holds no key in PEM that can be read', field="sign") from None
    if not isinstance(key, kind):
        raise SpecError(f'"{file.name}" holds a key of another kind; {kind.__name__} is needed', field="sign")
    return key


def sign(folder: Path, key: Any) -> None:
    """Write the signature of the release in the folder."""
    (folder / SIGNATURE).write_bytes(key.sign(_message(folder)).hex().encode("ascii") + b"\n")


def check_signature(folder: Path, key: Any) -> None:
    """Raise VerificationError unless the release was signed with the private half of the key."""
    from cryptography.exceptions import InvalidSignature

    try:
        given = (folder / SIGNATURE).read_text(encoding="ascii")
        key.verify(bytes.fromhex(given), _message(folder))
    except FileNotFoundError:
        raise VerificationError("the release is not signed") from None
    except OSError as error:
        raise ReleaseError(f"{SIGNATURE} cannot be read: {error.strerror}") from None
    except (InvalidSignature, ValueError):
        raise VerificationError("the signature is not that of this release and this key") from None


def _message(folder: Path) -> bytes:
    return SIGNED_PREFIX + digest(folder / "release.json").encode("ascii")
