"""sfumato: publish a table of people with a stated guarantee, ask it SQL, get every answer with its error."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from . import datasets, errors
    from .answering.answer import Answer
    from .choosing.compare import compare
    from .choosing.foresee import plan
    from .choosing.look import look
    from .choosing.recommend import recommend
    from .engines.source import Source
    from .methods.anatomy import Anatomy
    from .methods.distribution_draw import DistributionDraw
    from .methods.l_diversity import LDiversity
    from .methods.randomized_response.plan import RandomizedResponse
    from .methods.small_domain.method import SmallDomain
    from .methods.splu import Splu
    from .methods.subset_response import SubsetResponse
    from .methods.target_distribution.method import TargetDistribution
    from .methods.uniform import UniformPerturbation
    from .model.public import Roles
    from .publish import publish
    from .query import Release, open_release
    from .release.verify import verify

# Public names and where they live; loaded on first use, so that `import sfumato` is quick.
_PUBLIC = {
    "Anatomy": "methods.anatomy",
    "Answer": "answering.answer",
    "DistributionDraw": "methods.distribution_draw",
    "LDiversity": "methods.l_diversity",
    "RandomizedResponse": "methods.randomized_response.plan",
    "Release": "query",
    "Roles": "model.public",
    "SmallDomain": "methods.small_domain.method",
    "Source": "engines.source",
    "Splu": "methods.splu",
    "SubsetResponse": "methods.subset_response",
    "TargetDistribution": "methods.target_distribution.method",
    "UniformPerturbation": "methods.uniform",
    "compare": "choosing.compare",
    "datasets": "",
    "errors": "",
    "look": "choosing.look",
    "open_release": "query",
    "plan": "choosing.foresee",
    "recommend": "choosing.recommend",
    "verify": "release.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    module = import_module(f".{_PUBLIC[name] or name}", __name__)
    value = module if not _PUBLIC[name] else getattr(module, name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """`sfumato.publish` is the function, also after something has imported the module `sfumato.publish`."""

    @property
    def publish(self) -> Any:
        return import_module(".publish", __name__).publish

    @publish.setter
    def publish(self, _: object) -> None:
        """The import system sets the submodule here; the function stays."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC, "publish"])


__all__ = [
    "Anatomy",
    "Answer",
    "DistributionDraw",
    "LDiversity",
    "RandomizedResponse",
    "Release",
    "Roles",
    "SmallDomain",
    "Source",
    "Splu",
    "SubsetResponse",
    "TargetDistribution",
    "UniformPerturbation",
    "__version__",
    "compare",
    "datasets",
    "errors",
    "look",
    "open_release",
    "plan",
    "publish",
    "recommend",
    "verify",
]
