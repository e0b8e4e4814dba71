"""Changes of what release.json states, by somebody who means to deceive."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pydantic import TypeAdapter

from sfumato.laws import law_of
from sfumato.methods import REGISTRY
from sfumato.release.manifest import guarantee_model

Stated = dict[str, Any]


def put(*path: str | int, to: Any) -> Callable[[Stated], None]:
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
    p, law, name = stated["parameters"], stated["law"], stated["method"]
    if name in {"uniform", "small-domain", "subset-response"}:
        p["rho2"] = "21/100"
        limit = Fraction(21, 100) * Fraction(4, 5) / (Fraction(1, 5) * Fraction(79, 100))
        law["gammas"] = [str(limit)] * len(law["gammas"])
    elif name == "splu":
        law["gamma"] = dict.fromkeys(law["gamma"], 8)
    elif name == "randomized-response":
        law["keep"] = [(1 + 0.02) / size for size in law["sizes"]]
    elif name == "anatomy":
        law["l"] = 5
    elif name == "l-diversity":
        p["l"] = 5
    restate(stated)


def restate(stated: Stated) -> None:
    """The guarantee that the (changed) parameters give."""
    method = REGISTRY[stated["method"]]
    plan = TypeAdapter(method.plan_type).validate_python(stated["parameters"] | {"law": law_of(stated["law"])})
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
    stated["law"][key][0] += 1


def sizes_exchanged(stated: Stated) -> None:
    key = "sizes" if stated["method"] == "small-domain" else "group_rows"
    sizes = stated["law"][key]
    sizes[0], sizes[-1] = sizes[0] - 1, sizes[-1] + 1


def _first_sets(stated: Stated) -> list[Any]:
    sets: list[Any] = stated["law"]["lists"][0]["sets"]
    return sets


def dropped_set(stated: Stated) -> None:
    del _first_sets(stated)[0]


def doubled_set(stated: Stated) -> None:
    _first_sets(stated).append(_first_sets(stated)[0])
