"""The papers' tables and figures again, published numbers beside ours."""
