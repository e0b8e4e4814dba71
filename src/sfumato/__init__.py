"""sfumato: publish a table of people with a stated guarantee, ask it SQL, get every answer with its error."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets as datasets
    from . import errors as errors
    from .answering.answer import Answer as Answer
    from .choosing.compare import compare as compare
    from .choosing.foresee import plan as plan
    from .choosing.look import look as look
    from .choosing.recommend import recommend as recommend
    from .engines.source import Source as Source
    from .methods.anatomy import Anatomy as Anatomy
    from .methods.distribution_draw import DistributionDraw as DistributionDraw
    from .methods.l_diversity import LDiversity as LDiversity
    from .methods.randomized_response.plan import RandomizedResponse as RandomizedResponse
    from .methods.small_domain.method import SmallDomain as SmallDomain
    from .methods.splu import Splu as Splu
    from .methods.subset_response import SubsetResponse as SubsetResponse
    from .methods.target_distribution.method import TargetDistribution as TargetDistribution
    from .methods.uniform import UniformPerturbation as UniformPerturbation
    from .model.public import Roles as Roles
    from .publish import publish as publish
    from .query import Release as Release
    from .query import open_release as open_release
    from .release.verify import verify as verify
    from .version import __version__ as __version__

# Public names and where they live; loaded on first use, so that `import sfumato` is quick.
_PUBLIC = {
    "__version__": "version",
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
    "publish": "publish",
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
    return sorted({*globals(), *_PUBLIC})


__all__ = list(_PUBLIC)
