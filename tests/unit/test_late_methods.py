"""Methods of dataclasses that are compiled late are the ones that Python makes."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOUNS = """
import dataclasses, json, pickle, sys
from dataclasses import dataclass, field

def nouns():
    global __name__
    __name__ = "sfumato.nouns"  # classes of other packages are made as ever
    sys.modules[__name__] = sys.modules["__main__"]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Frozen:
        a: int
        b: list = field(default_factory=list, hash=False, repr=False)

    @dataclass(order=True)
    class Open:
        x: float
        y: str = "why"

    @dataclass(frozen=True)
    class Above(Frozen):
        c: int = 3

    @dataclass(frozen=True, slots=True, eq=False)
    class Same:
        z: int

    @dataclass
    class Inside:
        of: object = None

    @dataclass
    class Named:
        self: int
        cls: int

    return Frozen, Open, Above, Same, Inside, Named

def error(what):
    try:
        what()
    except Exception as told:
        return type(told).__name__, str(told)

def seen():
    frozen, open_, above, same, inside, named = nouns()
    one, two, other = frozen(a=1), frozen(a=1), frozen(a=2)
    loop = inside()
    loop.of = loop
    for _ in range(2):  # the first call compiles, the second does not
        yield repr(one), repr(above(a=1)), repr(open_(2.5)), repr(loop), repr(same(1))
        yield one == two, one == other, one != other, one == 1, above(a=1) == one, above(a=1) == above(a=1)
        yield hash(one) == hash(two), hash(one) == hash((1,)), len({one, two, other}), same(1) == same(1)
        yield error(lambda: setattr(one, "a", 3)), error(lambda: delattr(one, "a")), error(lambda: hash(open_(1)))
        yield error(lambda: setattr(above(a=1), "c", 3)), error(lambda: setattr(same(1), "z", 3))
        yield open_(1) < open_(2), [*map(repr, sorted([open_(2), open_(1)]))]
        yield dataclasses.asdict(one), repr(dataclasses.replace(one, a=5)), error(lambda: frozen(1))
        yield frozen.__eq__.__qualname__, frozen.__repr__.__name__, frozen.__hash__.__name__, frozen.__init__.__name__
        yield error(lambda: frozen(a=1, c=2)), error(frozen), error(lambda: open_()), repr(named(self=1, cls=2))
"""
LATE = "from sfumato.cli.late_methods import compile_late\ncompile_late()\ncompile_late()\n"


def told(before: str, after: str) -> str:
    done = subprocess.run([sys.executable, "-c", before + NOUNS + after], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_they_do_what_pythons_own_do() -> None:
    show = "for line in seen():\n    print(line)\n"
    ours = told(LATE, show)
    assert ours == told("", show)
    assert ours.count("FrozenInstanceError") >= 8


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python compiles the methods of a class together")
def test_they_are_compiled_when_they_are_called() -> None:
    after = """
frozen = nouns()[0]
late = frozen.__eq__
assert late.__module__ == "sfumato.cli.late_methods", "compiled at once"
assert frozen(a=1) == frozen(a=1) and frozen.__eq__ is not late
assert frozen.__hash__.__module__ == "sfumato.cli.late_methods"
assert frozen.__init__.__module__ != "sfumato.cli.late_methods", "not put in its place"
assert nouns()[0].__init__.__module__ == "sfumato.cli.late_methods", "compiled at once"
"""
    told(LATE, after)


def test_classes_of_other_packages_tell_their_signature() -> None:
    after = """
import inspect
@dataclass
class Other:
    x: int
assert str(inspect.signature(Other)) == "(x: int) -> None" and Other.__doc__ == "Other(x: int)", Other.__doc__
"""
    told(LATE, after)


def test_another_python_is_left_alone() -> None:
    text = "import dataclasses\nvars(dataclasses).pop('_create_fn', None)\n" + LATE
    text += "assert not hasattr(dataclasses, '_create_fn')\n"
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_whoever_imports_the_library_has_pythons_own() -> None:
    text = "import dataclasses, sfumato, sfumato.cli\nfrom sfumato import publish, open_release\n"
    text += "made = getattr(dataclasses, '_create_fn', None)\nassert made is None or made.__module__ == 'dataclasses'\n"
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
