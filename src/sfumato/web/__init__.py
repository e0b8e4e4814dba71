"""Pages and a JSON API over releases: arguments in, rendering out; every number comes from the library."""
