"""Every built-in method, with settings that leave analyses something to tell of a sensitive column s of 4 values."""

from __future__ import annotations

import sfumato as sf

METHODS = {
    "uniform": sf.UniformPerturbation(rho1="1/3", rho2="2/3"),
    "small-domain": sf.SmallDomain(rho1="1/3", rho2="2/3", min_size=300),
    "splu": sf.Splu(gamma=2),
    "anatomy": sf.Anatomy(l=2),
    "randomized-response": sf.RandomizedResponse(scope="s", keep={"s": 0.8}),
    "subset-response": sf.SubsetResponse(rho1="1/3", rho2="2/3"),
    "l-diversity": sf.LDiversity(l=2),
    "target-distribution": sf.TargetDistribution(),
    "distribution-draw": sf.DistributionDraw(),
}
SILENT = {"target-distribution", "distribution-draw"}  # no errors of sums over true rows
