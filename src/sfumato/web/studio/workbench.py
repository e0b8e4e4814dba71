"""What the studio's process does for each step: calls of the library, and nothing else. Private: it reads the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...choosing.look import look
from ...choosing.recommend import expected
from ...choosing.setting import Setting, make_setting
from ...engines import engine_named
from ...engines.contract import Engine
from ...engines.files import OPTIONS
from ...engines.source import paths_of
from ...errors import DataError, SfumatoError
from ...methods import REGISTRY
from ...methods.specifications import build
from ...model.option_names import option_name
from ...model.public import Candidate
from ...publish import check_covered, prepare, publish
from ...publishing.files import READERS
from ...publishing.randomness import Secret
from ...query import open_release
from ...release.verify import describe, unseen, verified_lines
from ...reports.documents import render_plan, share_text
from .hand import Tell
from .studio_choices import Choices

CONDITIONS = 60  # of the query pool, where the custodian asks no questions of her own: for a quick look


Stamp = tuple[int, int]  # what changes when a file does


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """A step to do with these choices."""

    kind: str  # a method of the workbench
    choices: Choices
    stamp: tuple[Stamp, ...] | None = None  # of the table when it was planned


class Workbench:
    """Does one task after the other; the table that errors were foreseen for last is kept open."""

    def __init__(self) -> None:
        self._kept: tuple[object, Setting] | None = None

    def __call__(self, task: Errand, tell: Tell) -> Any:
        """The result of a task, as plain values."""
        steps = {
            "look": self.look,
            "foresee": self.foresee,
            "plan": self.plan,
            "publish": self.publish,
            "verify": self.verify,
        }
        if task.stamp is not None and stamp(task.choices.source) not in {None, task.stamp}:
            raise DataError("the table has changed since it was planned; open it again and look at its plan")
        return steps[task.kind](task.choices, tell)

    def look(self, choices: Choices, _: Tell) -> dict[str, Any]:
        """The document of `sfumato look --json`."""
        return look(choices.as_source(), engine=engine()).to_dict()

    def foresee(self, choices: Choices, tell: Tell) -> dict[str, Any]:
        """Each candidate of each method is told as soon as its error is known; at the end, what was asked."""
        tell("progress", ("reading the table", 0, len(REGISTRY)))
        setting, secret = self._setting(choices), Secret.fresh()
        for k, name in enumerate(REGISTRY):
            tell("progress", (name, k, len(REGISTRY)))
            for result in expected(setting, name, secret):
                tell("part", _entry(result))
        return {
            "bound": str(setting.tau),
            "rho1": str(setting.rho1),
            "rows": setting.truth.rows,
            "workload": setting.workload.describe(),
        }

    def plan(self, choices: Choices, _: Tell) -> dict[str, Any]:
        """The document of `sfumato plan --json`, the same as text, and what speaks against publishing it."""
        seen = stamp(choices.source)
        prepared = prepare(**reading(choices), secret=Secret.fresh())
        report = prepared.report()
        try:
            check_covered(prepared)
            against = None
        except SfumatoError as error:
            against = str(error)
        return {
            "report": report,
            "text": render_plan(report),
            "against": against,
            "notes": list(prepared.notes),
            "stamp": seen,
        }

    def publish(self, choices: Choices, tell: Tell) -> dict[str, Any]:
        """What the release states about itself, and the notes that came with it."""
        notes: list[str] = []
        release = publish(
            out=choices.out,
            accept_unprotected=choices.accept_unprotected,
            progress=lambda stage, done, rows: tell("progress", (stage, done, rows)),
            notify=notes.append,
            **reading(choices),
        )
        return {"document": describe(release.opened), "notes": notes}

    def verify(self, choices: Choices, tell: Tell) -> dict[str, Any]:
        """The lines of `sfumato verify`, and what nobody can see from the bundle alone."""
        opened = open_release(choices.out).opened
        lines = []
        for line in verified_lines(opened):
            lines.append(line)
            tell("progress", ("verify", len(lines), 0))
        return {"lines": lines, "unseen": list(unseen(opened)), "document": describe(opened)}

    def _setting(self, choices: Choices) -> Setting:
        """The table with its workload at the bound; read again only where something that matters has changed."""
        how = tuple(choices[name] for name in OPTIONS)
        read = (choices.source, stamp(choices.source), how, choices.null_as_value)
        key = (read, choices.questions, tuple(choices.roles.items()), choices.rows_per_person)
        rho1 = choices.rho1 or None
        if self._kept is None or self._kept[0] != key:
            self._kept = None  # the old copy goes before the new one is made
            made = make_setting(
                choices.as_source(),
                roles=choices.as_roles(),
                bound=choices.bound,
                rho1=rho1,
                workload=choices.questions if choices.questions.strip() else None,
                conditions=CONDITIONS,
                engine=engine(),
                null_as_value=choices.null_as_value,
            )
            self._kept = (key, made)
            return made
        return self._kept[1].at(choices.bound, rho1)


def engine() -> Engine:
    """The engine of this machine."""
    return engine_named()


def reading(choices: Choices) -> dict[str, Any]:
    """The arguments that `prepare` and `publish` share."""
    return {
        "source": choices.as_source(),
        "roles": choices.as_roles(),
        "method": build(choices.method, choices.options, option_name=option_name, readers=READERS),
        "engine": engine(),
        "null_as_value": choices.null_as_value,
    }


def _entry(result: dict[str, Any]) -> dict[str, Any]:
    """A candidate as the page shows it."""
    kept = ("method", "variant", "trust", "guarantee", "expected_error", "readers", "holds_bound", "reason")
    entry = {name: result.get(name) for name in kept}
    if result.get("parameters") is not None:
        candidate = Candidate(method=result["method"], parameters=result["parameters"])
        entry |= {"options": candidate.texts(), "command": candidate.options()}
    entry["trust"] = entry["trust"] or str(REGISTRY[result["method"]].trust)
    errors = entry["expected_error"] or {}
    entry["error"] = next(iter(errors.values()), None)
    entry["said"] = share_text(entry["error"])
    return entry


def stamp(source: str) -> tuple[Stamp, ...] | None:
    """When the files of a source were last written, and their sizes; None where it is not made of files."""
    try:
        found = [path.stat() for path in paths_of(source)]
    except (OSError, ValueError, SfumatoError):
        return None
    return tuple((file.st_mtime_ns, file.st_size) for file in found) or None
