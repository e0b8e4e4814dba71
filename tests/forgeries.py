"""Kinds of forgery, each tried on a release of every method: what `verify` catches, and what no bundle can show.

A kind changes a copy of an honest release; whoever forges is competent and makes digests, row counts and
datapackage.json anew unless the kind is about those. `CAUGHT` and `UNSEEN` say what to expect of a method, None that
it does not apply, or that chance decides.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from commands import METHODS, sfumato
from forging import forged
from sfumato.methods import REGISTRY
from sfumato.release.manifest import guarantee_model

CAUGHT, UNSEEN = "caught", "cannot be seen"
ROWS = 20_000
DISEASES = ("angina", "bronchitis", "cold", "diabetes", "eczema", "flu", "gout", "hepatitis")
SHARES = (0.30, 0.24, 0.18, 0.12, 0.07, 0.04, 0.03, 0.02)
ROLES = ("--sa", "disease", "--qi", "age,sex", "--keep", "number")
OPTIONS = dict(METHODS) | {"randomized-response": ("--keep-probability", "disease=1/2,age=1/2,sex=3/4")}
IN_SETS = "small-domain, sets"  # its example publishes values: gamma is too large for sets there
RELEASES = {name: name for name in REGISTRY} | {IN_SETS: "small-domain"}  # release -> its method
OPTIONS[IN_SETS] = ("--rho1", "1/5", "--rho2", "1/4", "--min-size", "50", "--report", "set")


def table() -> pa.Table:
    """20,000 people with a skewed disease, independent of age (eight bands) and sex."""
    rng = np.random.default_rng(11)
    disease = rng.choice(len(SHARES), ROWS, p=SHARES)
    return pa.table(
        {
            "number": pa.array(rng.permutation(ROWS), pa.int32()),
            "age": pa.array(10 * rng.integers(1, 9, ROWS), pa.int16()),
            "sex": pa.array(np.where(rng.random(ROWS) < 0.5, "f", "m")),
            "disease": pa.array(np.array(DISEASES)[disease]),
        }
    )


def honest(folder: Path) -> dict[str, Path]:
    """One release of every method, of small-domain also one that shows sets; the table beside them is t.parquet."""
    pq.write_table(table(), folder / "t.parquet")
    made = {}
    for name, method in RELEASES.items():
        said = (*ROLES, "--method", method, *OPTIONS[name], "--seed", 3, "--accept-unprotected")
        done = sfumato("publish", folder / "t.parquet", folder / name, *said)
        assert done.code == 0, done.text
        made[name] = folder / name
    return made


Stated = dict[str, Any]
Expected = Callable[[str], str | None]  # name of a method -> CAUGHT, UNSEEN or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of forgery: changes for `forged`, or a function on the finished copy."""

    name: str
    expected: Expected
    manifest: Callable[[Stated], None] | None = None
    data: Callable[[pa.Table], pa.Table] | None = None
    side: Callable[[pa.Table], pa.Table] | None = None
    weights: Callable[[pa.Table], pa.Table] | None = None
    after: Callable[[Path], None] | None = None

    def of(self, release: str) -> str | None:
        """What to expect of one of `RELEASES`."""
        return self.expected(release if self.expected is about_sets else RELEASES[release])

    def forge(self, release: Path, target: Path) -> Path:
        """The forged copy."""
        forged(release, target, manifest=self.manifest, data=self.data, side=self.side, weights=self.weights)
        if self.after is not None:
            self.after(target)
        return target


def everywhere(_: str) -> str:
    return CAUGHT


def nowhere(_: str) -> str:
    return UNSEEN


def only(*names: str) -> Expected:
    """Caught for these methods, not applicable to the others."""
    return lambda name: CAUGHT if name in names else None


def where(caught: tuple[str, ...], unseen: tuple[str, ...] = ()) -> Expected:
    return lambda name: CAUGHT if name in caught else UNSEEN if name in unseen else None


def about_sets(name: str) -> str | None:
    return CAUGHT if name in {"subset-response", IN_SETS} else None


NOISY = ("uniform", "small-domain", "randomized-response", "subset-response")  # a floor under every value
ROW_BY_ROW = (*NOISY, "splu", "distribution-draw")
PARTED = tuple(name for name in REGISTRY if REGISTRY[name].part)
UNPARTED = tuple(name for name in REGISTRY if not REGISTRY[name].part)


# --- what is stated --------------------------------------------------------------------------------------------------


def _set(*path: str | int, to: Any) -> Callable[[Stated], None]:
    def change(stated: Stated) -> None:
        place = stated
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = (
            to(place.get(path[-1]) if isinstance(place, dict) else place[path[-1]]) if callable(to) else to
        )

    return change


def other_method(stated: Stated) -> None:
    stated["method"] = "uniform" if stated["method"] != "uniform" else "splu"


def trusted(stated: Stated) -> None:
    stated["guarantee"]["trust"] = "proved" if stated["guarantee"]["trust"] != "proved" else "baseline"


def stronger_number(stated: Stated) -> None:
    """A number of the guarantee, a little better than it is."""
    for key, value in stated["guarantee"]["parameters"].items():
        if isinstance(value, float | int) and not isinstance(value, bool):
            stated["guarantee"]["parameters"][key] = value * 2 + 1
            return
    stated["guarantee"]["parameters"]["posterior"] = "1/1000"


def more_noise(stated: Stated) -> None:
    """Parameters of a stronger release, and the guarantee that belongs to them: the rows were made with less noise."""
    p, name = stated["parameters"], stated["method"]
    if name in {"uniform", "small-domain", "subset-response"}:
        p["rho2"] = "21/100"
        limit = Fraction(21, 100) * Fraction(4, 5) / (Fraction(1, 5) * Fraction(79, 100))
        if name != "small-domain":
            p["gamma"] = str(limit)
        else:
            p["gammas"] = [str(limit)] * len(p["gammas"])
    elif name == "splu":
        p["gamma"] = dict.fromkeys(p["gamma"], 8)
    elif name == "randomized-response":
        p["keep"] = [(1 + 0.02) / size for size in p["sizes"]]
    elif name in {"anatomy", "l-diversity"}:
        p["l"] = 5
    restate(stated)


def restate(stated: Stated) -> None:
    """The guarantee that the (changed) parameters give."""
    method = REGISTRY[stated["method"]]
    plan = TypeAdapter(method.plan_type).validate_python(stated["parameters"])
    stated["guarantee"] = guarantee_model(method.guarantee(plan)).model_dump(mode="json")


def out_of_units(stated: Stated) -> None:
    for column in stated["columns"]:
        column.pop("domain", None)
    stated["units"] = []


def role(old: str, new: str) -> Callable[[Stated], None]:
    def change(stated: Stated) -> None:
        for column in stated["columns"]:
            column["role"] = new if column["role"] == old else column["role"]

    return change


def _changed(stated: Stated) -> list[dict[str, Any]]:
    names = {name for unit in stated["units"] for name in unit["columns"]}
    return [column for column in stated["columns"] if column["name"] in names]


def wider_domain(stated: Stated) -> None:
    _changed(stated)[0]["domain"].append("zzz" if isinstance(_changed(stated)[0]["domain"][0], str) else 999)


def narrower_domain(stated: Stated) -> None:
    _changed(stated)[0]["domain"].pop()


def unit_twice(stated: Stated) -> None:
    stated["units"].append(stated["units"][0])


def column_twice(stated: Stated) -> None:
    stated["columns"].append({**stated["columns"][0], "name": stated["columns"][0]["name"].upper()})


def bigger_sizes(stated: Stated) -> None:
    key = "sizes" if stated["method"] == "small-domain" else "group_rows"
    stated["parameters"][key][0] += 1


def sizes_exchanged(stated: Stated) -> None:
    key = "sizes" if stated["method"] == "small-domain" else "group_rows"
    sizes = stated["parameters"][key]
    sizes[0], sizes[-1] = sizes[0] - 1, sizes[-1] + 1


# --- what is published -----------------------------------------------------------------------------------------------


def replaced(found: pa.Table, name: str, values: Any) -> pa.Table:
    return found.set_column(found.column_names.index(name), name, pa.array(values, type=found.schema.field(name).type))


def shows_sets(found: pa.Table) -> bool:
    return "disease_set" in found.column_names


def with_sets(found: pa.Table, numbers: Any) -> pa.Table:
    """Other listed sets, their lists as they are."""
    lists = dict(zip(found["disease_set"].to_pylist(), found["disease"].to_pylist(), strict=True))
    shown = replaced(found, "disease", [lists[n] for n in numbers])
    return replaced(shown, "disease_set", numbers)


def one_value(found: pa.Table) -> pa.Table:
    if shows_sets(found):
        if "sub_table" not in found.column_names:
            return with_sets(found, [found["disease_set"][0].as_py()] * len(found))
        of_part = dict(zip(found["sub_table"].to_pylist(), found["disease_set"].to_pylist(), strict=True))
        return with_sets(found, [of_part[part] for part in found["sub_table"].to_pylist()])
    for name in ("disease", "block"):
        if name in found.column_names:
            last = max(found[name].to_pylist())  # of blocks a leaf, which the root would be allowed to stand for
            found = replaced(found, name, [last] * len(found))
    return found


def true_values(found: pa.Table) -> pa.Table:
    """The true disease of every row, found by its number; where sets are shown always one of those that hold it."""
    if "disease" not in found.column_names or "number" not in found.column_names:
        return found
    truth = table()
    by_number = dict(zip(truth["number"].to_pylist(), truth["disease"].to_pylist(), strict=True))
    true = [by_number[n] for n in found["number"].to_pylist()]
    if not shows_sets(found):
        return replaced(found, "disease", true)
    holding: dict[Any, set[int]] = {}
    parts = found["sub_table"].to_pylist() if "sub_table" in found.column_names else [0] * len(found)
    for part, number, held in zip(parts, found["disease_set"].to_pylist(), found["disease"].to_pylist(), strict=True):
        for value in held:
            holding.setdefault((part, value), set()).add(number)
    rng = np.random.default_rng(7)
    return with_sets(found, [int(rng.choice(sorted(holding[key]))) for key in zip(parts, true, strict=True)])


def swapped(found: pa.Table) -> pa.Table:
    rng = np.random.default_rng(5)
    at = rng.permutation(len(found))
    if "sub_table" in found.column_names:  # inside the sub-tables: sizes stay
        parts = found["sub_table"].to_numpy()
        at = np.empty(len(found), dtype=np.int64)
        for part in np.unique(parts):
            inside = np.flatnonzero(parts == part)
            at[inside] = rng.permutation(inside)
    if shows_sets(found):
        return with_sets(found, found["disease_set"].take(pa.array(at)).to_pylist())
    name = "disease" if "disease" in found.column_names else "group_id"
    return replaced(found, name, found[name].take(pa.array(at)).to_pylist())


def thrice(found: pa.Table) -> pa.Table:
    return shuffled(pa.concat_tables([found] * 3))


def half(found: pa.Table) -> pa.Table:
    return shuffled(found).slice(0, len(found) // 2)


def shuffled(found: pa.Table) -> pa.Table:
    return found.take(pa.array(np.random.default_rng(6).permutation(len(found))))


def by(*names: str) -> Callable[[pa.Table], pa.Table]:
    def change(found: pa.Table) -> pa.Table:
        return found.sort_by([(next(n for n in names if n in found.column_names), "ascending")])

    return change


def extra_column(found: pa.Table) -> pa.Table:
    return found.append_column("secret", pa.array(np.arange(len(found))))


def first_cell(value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(found: pa.Table) -> pa.Table:
        for name, foreign in (("disease", "zzz"), ("block", 10**6)):
            if name in found.column_names:
                new = foreign if value == "foreign" else value
                if shows_sets(found) and new is not None:
                    new = [new]
                return replaced(found, name, [new, *found[name].to_pylist()[1:]])
        return found

    return change


def label_cell(found: pa.Table) -> pa.Table:
    return replaced(found, "sex", ["zzz", *found["sex"].to_pylist()[1:]])


def first_list(found: pa.Table) -> pa.Table:
    if not shows_sets(found):
        return found
    lists = found["disease"].to_pylist()
    return replaced(found, "disease", [next(held for held in lists if held != lists[0]), *lists[1:]])


def turned_list(found: pa.Table) -> pa.Table:
    if not shows_sets(found):
        return found
    lists = found["disease"].to_pylist()
    at = next(i for i, held in enumerate(lists) if len(held) > 1)
    return replaced(found, "disease", [held[::-1] if i == at else held for i, held in enumerate(lists)])


def unlisted_set(found: pa.Table) -> pa.Table:
    if not shows_sets(found):
        return found
    return replaced(found, "disease_set", [30_000, *found["disease_set"].to_pylist()[1:]])


def weighed(found: pa.Table, name: str) -> pa.Table:
    return replaced(found, name, [found[name][0].as_py() + 0.001, *found[name].to_pylist()[1:]])


def _first_sets(stated: Stated) -> list[Any]:
    p = stated["parameters"]
    return p["listed"]["sets"] if "listed" in p else p["reports"]["lists"][0]["sets"]


def dropped_set(stated: Stated) -> None:
    del _first_sets(stated)[0]


def doubled_set(stated: Stated) -> None:
    _first_sets(stated).append(_first_sets(stated)[0])


def moved(found: pa.Table) -> pa.Table:
    name = next(n for n in found.column_names if n in {"sub_table", "group_id"})
    groups = found[name].to_numpy().copy()
    groups[np.flatnonzero(groups == groups[0])[:2]] = (groups[0] + 1) % (groups.max() + 1)
    return replaced(found, name, groups)


def unknown_group(found: pa.Table) -> pa.Table:
    name = next(n for n in found.column_names if n in {"sub_table", "group_id"})
    return replaced(found, name, [10**6, *found[name].to_pylist()[1:]])


def group_one_value(found: pa.Table) -> pa.Table:
    """Every group one repeated value."""
    if "disease" not in found.column_names:
        return found
    groups, values = found["group_id"].to_numpy(), found["disease"].to_pylist()
    first = dict(zip(groups[::-1], values[::-1], strict=True))
    return replaced(found, "disease", [first[g] for g in groups])


def number_as_text(found: pa.Table) -> pa.Table:
    return found.set_column(found.column_names.index("number"), "number", found["number"].cast(pa.string()))


def renumbered(found: pa.Table) -> pa.Table:
    return replaced(found, "number", np.random.default_rng(8).permutation(found["number"].to_numpy()))


# --- the folder ------------------------------------------------------------------------------------------------------


def _json(change: Callable[[Stated], None], file: str = "release.json") -> Callable[[Path], None]:
    def edit(target: Path) -> None:
        stated = json.loads((target / file).read_text(encoding="utf-8"))
        change(stated)
        (target / file).write_text(json.dumps(stated), encoding="utf-8")

    return edit


def noted(target: Path) -> None:
    """Notes inside data.parquet, digests made anew."""
    found = pq.read_table(target / "data.parquet").replace_schema_metadata({"note": "true values: ..."})
    pq.write_table(found, target / "data.parquet")
    again(target)


def damaged_page(folder: Path) -> None:
    """Zeros over the first page of every Parquet file."""
    stated = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    for name in stated["files"]:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:4] + b"\0" * 40 + data[44:])
        stated["files"][name]["sha256"] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "release.json").write_text(json.dumps(stated), encoding="utf-8")


def stated_twice(name: str) -> Callable[[Path], None]:
    """The first name of the document once more, at its end: readers of JSON differ in which of the two they take."""

    def repeat(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8").rstrip()
        key, value = next(iter(json.loads(text).items()))
        (folder / name).write_text(f"{text[:-1]}, {json.dumps(key)}: {json.dumps(value)}}}", encoding="utf-8")

    return repeat


def cut_short(target: Path) -> None:
    data = (target / "data.parquet").read_bytes()
    (target / "data.parquet").write_bytes(data[: len(data) // 2])
    stated = json.loads((target / "release.json").read_text(encoding="utf-8"))
    stated["files"]["data.parquet"]["sha256"] = hashlib.sha256((target / "data.parquet").read_bytes()).hexdigest()
    (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")


def again(target: Path) -> None:
    """Digests and datapackage.json of the folder as it now is."""
    copy = target.with_name(target.name + "-again")
    forged(target, copy)
    shutil.rmtree(target)
    copy.rename(target)


def linked(target: Path) -> None:
    (target / "data.parquet").rename(target.parent / f"{target.name}-elsewhere.parquet")
    (target / "data.parquet").symlink_to(target.parent / f"{target.name}-elsewhere.parquet")


KINDS = (
    Kind(name="a stronger statement", expected=everywhere,
         manifest=_set("guarantee", "statement", to="Nobody can learn anything.")),
    Kind(name="nothing is said not to be covered", expected=everywhere,
         manifest=_set("guarantee", "not_covered", to=lambda x: x[:-1] or ["nothing"])),
    Kind(name="other assumptions", expected=everywhere, manifest=_set("guarantee", "assumptions", to=["none at all"])),
    Kind(name="more trust", expected=everywhere, manifest=trusted),
    Kind(name="better numbers in the guarantee", expected=everywhere, manifest=stronger_number),
    Kind(name="another model of guarantee", expected=everywhere,
         manifest=_set("guarantee", "model", to="differential privacy")),
    Kind(name="another method", expected=everywhere, manifest=other_method),
    Kind(name="an unknown method", expected=everywhere, manifest=_set("method", to="sfumatissimo")),
    Kind(name="another format version", expected=everywhere, manifest=_set("format_version", to=99)),
    Kind(name="a field that no release has", expected=everywhere, manifest=_set("note", to="true values")),
    Kind(name="another version of the software", expected=nowhere, manifest=_set("software", "version", to="9.9")),
    Kind(name="made with a seed, said to be without", expected=nowhere, manifest=_set("reproducible", to=False)),
    Kind(name="said to be made with more noise", manifest=more_noise,
         expected=where(("subset-response", "uniform", "splu", "randomized-response", "anatomy", "l-diversity"),
                        ("small-domain",))),
    Kind(name="a parameter left out", expected=where(tuple(n for n in REGISTRY if n != "distribution-draw")),
         manifest=lambda s: s["parameters"].pop(next(iter(s["parameters"]), ""), None)),
    Kind(name="a sensitive column in no unit", expected=everywhere, manifest=out_of_units),
    Kind(name="a sensitive column called insensitive", expected=everywhere, manifest=role("sensitive", "insensitive")),
    Kind(name="quasi-identifiers called insensitive", manifest=role("quasi", "insensitive"),
         expected=where(("l-diversity", "randomized-response"),
                        tuple(n for n in REGISTRY if n not in {"l-diversity", "randomized-response"}))),
    Kind(name="an untouched column called the group", expected=everywhere, manifest=role("insensitive", "group")),
    Kind(name="a domain with one value more", manifest=wider_domain,
         expected=where(("subset-response", "uniform", "small-domain", "target-distribution", "randomized-response",
                         "anatomy", "l-diversity"), ("splu", "distribution-draw"))),
    Kind(name="a domain without a value that rows show", expected=everywhere, manifest=narrower_domain),
    # only these state something about the reader who knows every other record that depends on it
    Kind(name="a domain called declared",
         expected=lambda name: CAUGHT if name in {"uniform", "subset-response"} else UNSEEN,
         manifest=_set("units", 0, "declared", to=True)),
    Kind(name="a unit listed twice", expected=everywhere, manifest=unit_twice),
    Kind(name="a column listed twice, in capitals", expected=everywhere, manifest=column_twice),
    Kind(name="another number of rows", expected=everywhere, manifest=_set("rows", to=lambda n: n + 1)),
    Kind(name="another number of rows of a file", expected=everywhere,
         manifest=_set("files", "data.parquet", "rows", to=lambda n: n + 1)),
    Kind(name="sizes that are one too large", expected=only("small-domain", "target-distribution"),
         manifest=bigger_sizes),
    Kind(name="sizes exchanged between groups", expected=only("small-domain", "target-distribution"),
         manifest=sizes_exchanged),
    Kind(name="a sub-table of one value", expected=only("small-domain"),
         manifest=lambda s: s["parameters"]["domains"].__setitem__(0, s["parameters"]["domains"][0][:1])),
    Kind(name="less noise than rho1 and rho2 allow", expected=only("subset-response", "uniform", "small-domain"),
         manifest=lambda s: s["parameters"].update(
             {"gamma": "50"} if "gamma" in s["parameters"] else {"gammas": ["50"] * len(s["parameters"]["gammas"])})),
    Kind(name="levels above the hierarchy", expected=only("l-diversity"),
         manifest=lambda s: s["parameters"]["columns"][0].update(level=99)),
    Kind(name="another target for the same blocks", expected=only("target-distribution"),
         manifest=lambda s: s["parameters"]["parts"][0]["weights"].reverse()),
    Kind(name="another number of groups", expected=only("anatomy"),
         manifest=_set("parameters", "groups", to=lambda n: n + 1)),
    Kind(name="baselines of another column", expected=only("randomized-response"),
         manifest=_set("parameters", "baseline", to={"age": 0.1})),
    Kind(name="all rows show one value", data=one_value, side=one_value,
         expected=where(tuple(n for n in REGISTRY if n != "distribution-draw"), ("distribution-draw",))),
    Kind(name="true values put back", expected=where(NOISY, ("splu", "distribution-draw")), data=true_values),
    Kind(name="published values (or groups) exchanged between rows", data=swapped,
         expected=where(("target-distribution",), tuple(n for n in REGISTRY if n != "target-distribution"))),
    Kind(name="an untouched column exchanged between rows", expected=nowhere, data=renumbered),
    Kind(name="half of the rows", data=half,
         expected=where(PARTED, tuple(n for n in UNPARTED if n != "l-diversity"))),  # classes may lose their diversity
    Kind(name="every row three times", expected=where(PARTED, UNPARTED), data=thrice),
    Kind(name="rows sorted by the sensitive value or group", expected=everywhere,
         data=by("sub_table", "group_id", "disease_set", "disease")),
    Kind(name="rows sorted by a quasi-identifier", expected=where(tuple(n for n in REGISTRY if n != "l-diversity")),
         data=by("sex")),
    Kind(name="rows in the order of an untouched column", expected=everywhere, data=by("number")),
    Kind(name="a column more", expected=everywhere, data=extra_column),
    Kind(name="a column less", expected=everywhere, data=lambda t: t.drop_columns(["number"])),
    Kind(name="a column of another type", expected=everywhere, data=number_as_text),
    Kind(name="a value outside the domain", data=first_cell("foreign"), side=first_cell("foreign"),
         expected=where(tuple(n for n in REGISTRY if n != "l-diversity"), ("l-diversity",))),
    Kind(name="another value outside its domain", expected=only("l-diversity", "randomized-response"),
         data=label_cell),
    Kind(name="a missing value where none can be", data=first_cell(None), side=first_cell(None),
         expected=where(tuple(n for n in REGISTRY if n != "l-diversity"), ("l-diversity",))),
    Kind(name="rows moved to another group", expected=where(PARTED), data=moved),
    Kind(name="a row in a group that is not listed", expected=where(PARTED), data=unknown_group),
    Kind(name="groups of one repeated value", expected=only("anatomy"), side=group_one_value),
    Kind(name="a group that lacks a value", expected=only("anatomy", "target-distribution"), side=lambda t: t.slice(1)),
    Kind(name="values of groups in another order", expected=only("anatomy"), side=shuffled),
    Kind(name="a column more beside the groups", expected=only("anatomy", "target-distribution"), side=extra_column),
    Kind(name="a row that shows another list than the one of its number", expected=about_sets, data=first_list),
    Kind(name="a list in another order", expected=about_sets, data=turned_list),
    Kind(name="a set that is not listed", expected=about_sets, data=unlisted_set),
    Kind(name="other weights", expected=about_sets, weights=lambda t: weighed(t, "weight")),
    Kind(name="other weights of variances", expected=about_sets, weights=lambda t: weighed(t, "variance_weight")),
    Kind(name="weights left out", expected=about_sets, weights=lambda t: t.slice(1)),
    Kind(name="a listed set dropped", expected=about_sets, manifest=dropped_set),
    Kind(name="a set listed twice", expected=about_sets, manifest=doubled_set),
    Kind(name="a file more", expected=everywhere, after=lambda f: (f / "truth.csv").write_text("x") and None),
    Kind(name="a hidden file more", expected=everywhere, after=lambda f: (f / ".truth").write_text("x") and None),
    Kind(name="a folder more", expected=everywhere, after=lambda f: (f / "more").mkdir()),
    Kind(name="datapackage.json of other data", expected=everywhere,
         after=_json(_set("description", to="exact counts"), "datapackage.json")),
    Kind(name="datapackage.json missing", expected=everywhere, after=lambda f: (f / "datapackage.json").unlink()),
    Kind(name="notes inside a Parquet file", expected=everywhere, after=noted),
    Kind(name="data changed, digests kept", expected=everywhere,
         after=lambda f: pq.write_table(half(pq.read_table(f / "data.parquet")), f / "data.parquet")),
    Kind(name="data cut short, digest made anew", expected=everywhere, after=cut_short),
    Kind(name="a page of every file damaged, digests made anew", expected=everywhere, after=damaged_page),
    Kind(name="release.json that states something twice", expected=everywhere, after=stated_twice("release.json")),
    Kind(name="datapackage.json that states something twice", expected=everywhere,
         after=stated_twice("datapackage.json")),
    Kind(name="data outside the folder", expected=everywhere, after=linked),
)  # fmt: skip
