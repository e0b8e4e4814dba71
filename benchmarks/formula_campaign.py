"""Formulas of random and hostile words: each is read or refused by us, and nothing of it runs.

Every text goes through the parser, and each `FITTED`-th on to a fit. The interpreter's own audit hook listens: while a
text is read nothing may be executed, imported or opened; while it is fitted nothing that the text names.
"""

from __future__ import annotations

import builtins
import gc
import random
import sys
import threading
from collections import Counter
from functools import partial

import sfumato as sf
from benchmarks.fault_campaign import METHODS, ROLES, table
from benchmarks.fuzz_campaign import tried
from sfumato.analysis.formula import read_formula
from sfumato.methods.registry import build

FITTED = 50  # each so many-th text is fitted too
NAME = "zq_canary"  # a function that must never be called, a module that must never be looked for
RUNS = frozenset({"exec", "open", "import", "os.system", "subprocess.Popen", "marshal.loads", "socket.connect"})
SEEDS = (
    "age ~ C(sex) + C(disease)",
    "{disease == 'a'} ~ age * sex",
    "age ~ I(age**2) + np.log(age + 1) + C(disease, contr.treatment(base='b'))",
    "sex ~ (age + C(disease))**2 - age:C(disease)",
    "disease ~ age / sex",
)
WORDS = tuple(
    "~ + - * / : ** ^ ( ) { } [ ] , . ; = == != < <= % @ | & ! ? # \\ ' \" ` $ 0 1 2 -1 1e308 1e-999 9999999999999999 "
    "age sex disease `age` `sex` C( I( Q( np. np.log( np.exp( np.load( np.sqrt( np.log1p( C(disease) I(age) "
    "contr.treatment(base= Treatment( poly( center( scale( bs( hashed( 'a' 'f' \"b\" None True nan inf lambda: for in "
    "if else and or not is await yield import global exec( eval( open( __import__( getattr( globals() breakpoint() "
    "__class__ .__subclasses__() .__globals__ f'{age}' b'x' 1j ... := *age **age \x00 \ud800 \u202e \n \t é Ω "
    f"{NAME}() {NAME} __import__('{NAME}') eval('{NAME}()') open('{NAME}','w') I({NAME}()) C({NAME}()) "
    f"{{{NAME}()}} f'{{{NAME}()}}' `{NAME}()` np.exp({NAME}()) age.__class__.__base__.__subclasses__()".split(" ")
)


class Listener:
    """What this thread runs while `reading`, and anything of our name while `fitting`."""

    def __init__(self) -> None:
        self.reading = self.fitting = False
        self._thread = threading.get_ident()
        self.heard: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        named = self.fitting and event in RUNS - {"exec"} and any(isinstance(a, str) and NAME in a for a in arguments)
        if ((self.reading and event in RUNS) or named) and threading.get_ident() == self._thread:
            self.heard.append(event)


def formula(rng: random.Random) -> str:
    """Random words, or a formula with some of its words changed, cut or doubled."""
    if rng.random() < 0.3:
        return rng.choice(("age ~ ", "", "sex ~ ")) + rng.choice(("", " ")).join(
            rng.choices(WORDS, k=rng.randint(1, 12))
        )
    words = rng.choice(SEEDS).split(" ")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(words))
        words[at] = rng.choice((rng.choice(WORDS), words[at] + rng.choice(WORDS), words[at][: rng.randint(0, 5)]))
    return " ".join(words)


def formulas(count: int, rng: random.Random, found: Counter[str] | None = None) -> Counter[str]:
    """So many formulas, read and in part fitted."""
    found = Counter() if found is None else found
    release = sf.publish(table(), roles=ROLES, method=build("uniform", METHODS["uniform"]), seed=1)
    columns, listener = ("age", "sex", "disease"), Listener()
    setattr(builtins, NAME, lambda: listener.heard.append("the canary"))
    try:
        for i in range(count):
            text = formula(rng)
            gc.disable()  # what is collected just then may remove a folder of its own, which opens it
            listener.reading = True
            tried(found, "formula", partial(read_formula, text, columns))
            listener.reading = False
            gc.enable()
            if i % FITTED == 0:
                family = rng.choice(("gaussian", "binomial", "poisson", "multinomial"))
                listener.fitting = True
                tried(found, "fit", partial(release.fit, text, family=family))
                listener.fitting = False
            for event in listener.heard:
                found[f"! formula: {event} while it was read or fitted"] += 1
            listener.heard.clear()
    finally:
        listener.reading = listener.fitting = False
        gc.enable()
        delattr(builtins, NAME)
    return found
