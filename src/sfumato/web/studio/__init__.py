"""The custodian's page: `sfumato studio`, on her own machine only."""
