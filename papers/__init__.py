"""The papers' tables and figures again, published numbers beside ours: `python -m papers pp`, from the repository."""
