"""What a release says about itself, and whether it is true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import PlanError, ReleaseError, VerificationError
from .query import Release
from .release.bundle import check_digests
from .release.manifest import guarantee_model
from .text import bullets, table


def describe(release: Release) -> dict[str, Any]:
    """The document of `sfumato inspect --json`."""
    manifest = release.manifest.model_dump(mode="json", exclude_none=True)
    return {name: manifest[name] for name in manifest if name not in {"format"}}


def render(found: dict[str, Any]) -> str:
    """The same for people."""
    guarantee = found["guarantee"]
    shown = {k: v for k, v in found["parameters"].items() if isinstance(v, str | int | float | bool)}
    columns = []
    for column in found["columns"]:
        domain = f"{len(column['domain'])} values" if "domain" in column else ""
        columns.append([column["name"], column["role"], column["type"], domain])
    parts = [
        f"{found['method']} ({guarantee['trust']}), {found['rows']:,} rows",
        guarantee["statement"],
        ", ".join(f"{k} = {v}" for k, v in shown.items()),
        bullets("assumes", guarantee["assumptions"]),
        bullets("does not cover", guarantee["not_covered"]),
        table(["column", "role", "type", "domain"], columns),
    ]
    if found["reproducible"]:
        parts.append("made with a seed: for tests only")
    return "\n\n".join(part for part in parts if part)


def verify(release: Release, *, test: bool = False) -> Iterator[str]:
    """Lines that say what holds; VerificationError at the first thing that does not."""
    manifest = release.manifest
    check_digests(release.path, manifest)
    yield "digests of all files"
    stated, computed = manifest.guarantee, guarantee_model(release.mechanism.guarantee(release.plan))
    if stated.model_dump(mode="json") != computed.model_dump(mode="json"):
        raise VerificationError("the stated guarantee is not the one that the published parameters give")
    yield f"guarantee recomputed from the parameters: {computed.statement}"
    release.check_contents()
    check = getattr(release.mechanism, "check", None)
    if check is not None:
        try:
            check(release.plan, release.evidence)
        except (PlanError, ReleaseError) as error:
            raise VerificationError(f"the published groups do not keep the guarantee: {error}") from None
        yield "guarantee holds for the published groups"
    yield f"{manifest.rows:,} rows, columns and values as stated"
    if manifest.reproducible and not test:
        raise VerificationError("the release was made with a seed, so its noise can be undone; for tests say --test")
    yield "made with a seed, accepted as a test" if manifest.reproducible else "made without a seed"
