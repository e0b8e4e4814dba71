"""Tables to try things on: a real one, carried in the package, and a generator of any size."""

from .adult import adult
from .census import census, census_table

__all__ = ["adult", "census", "census_table"]
