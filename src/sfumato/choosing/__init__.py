"""Which method: the setting, its workload, errors foreseen and measured, compare, recommend. For the custodian."""
