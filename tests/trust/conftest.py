"""The rules of design section 6, each with a test that fails when it is broken."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("sfumato.cli") else ["test_[!h]*"]
