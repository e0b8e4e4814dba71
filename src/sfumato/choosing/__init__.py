"""Which method: the setting, its workload, errors foreseen and measured, compare, recommend. For the custodian."""

DEFAULT = "subset-response"  # what `publish` runs where no method is named; tests/unit/test_default_choice.py says why
