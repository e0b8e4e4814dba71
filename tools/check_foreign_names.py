"""Names that an upgrade of another package may change in silence: `python -m tools.check_foreign_names [FOLDER]`.

Refused in the source: private names of other packages (imported, or as attributes of what was imported), attributes of
other packages that are assigned to, changes of `sys.modules` and `sys.meta_path`, ctypes, and walks over frames.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

OURS = "sfumato"
DOCUMENTED = {"os._exit"}  # private by its name only
REDIRECTED = {"sys.stdin", "sys.stdout", "sys.stderr"}  # which are there to be assigned to
FRAMES = {"inspect.currentframe", "inspect.stack", "inspect.trace", "inspect.getouterframes", "inspect.getinnerframes"}
FRAME_ATTRIBUTES = {"f_back", "f_locals", "f_globals", "tb_frame", "gi_frame", "cr_frame"}
MODULES, IMPORTERS = "sys.modules", {"sys.meta_path", "sys.path_hooks"}
CHANGES = {"pop", "popitem", "update", "setdefault", "clear"}  # what a dictionary lets do to itself


def breaches(source: str) -> Iterator[tuple[int, str]]:
    """Line number and what stands there that must not, in order of the syntax tree."""
    tree = ast.parse(source)
    imported: dict[str, str] = {}  # name in the file -> full name in another package
    for node in ast.walk(tree):
        for name, full in _imports(node):
            imported[name] = full
            if full.split(".")[0] == "ctypes":
                yield node.lineno, "ctypes"
            elif _is_private(full):
                yield node.lineno, f"{full} is private"
    for node in ast.walk(tree):
        yield from ((node.lineno, what) for what in _found(node, imported))


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Every name that an import statement binds to something of another package, and its full name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.split(".")[0]
            yield bound, alias.name if alias.asname else bound
            yield alias.asname or alias.name, alias.name  # the whole path may be private below its first part
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module and node.module.split(".")[0] != OURS:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _found(node: ast.AST, imported: dict[str, str]) -> Iterator[str]:
    """What one node of the tree does that must not be done."""
    full = _full_name(node, imported)
    changed = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
    if full is not None and full in FRAMES:
        yield f"{full} walks frames"
    if isinstance(node, ast.Attribute):
        if node.attr in FRAME_ATTRIBUTES:
            yield f"{node.attr} walks frames"
        if full is not None and _is_private(f".{node.attr}") and full not in DOCUMENTED:
            yield f"{full} is private"
        if full is not None and changed and full not in REDIRECTED:
            yield f"{full} is assigned to"
        if full in IMPORTERS or (node.attr in CHANGES and _full_name(node.value, imported) == MODULES):
            yield f"{full} changes what imports find"
    elif isinstance(node, ast.Subscript) and changed and _full_name(node.value, imported) == MODULES:
        yield f"{MODULES} is assigned to"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"setattr", "delattr"}:
        patched = _full_name(node.args[0], imported) if node.args else None
        if patched is not None:
            yield f"{patched} is assigned to"


def _full_name(node: ast.AST, imported: dict[str, str]) -> str | None:
    """The dotted name of something that was imported from another package; None for anything else."""
    if isinstance(node, ast.Attribute):
        before = _full_name(node.value, imported)
        return None if before is None else f"{before}.{node.attr}"
    return imported.get(node.id) if isinstance(node, ast.Name) else None


def _is_private(full: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in full.split(".")) and full not in DOCUMENTED


def main(folder: Path) -> int:
    """Print every breach in the files of the folder; 1 where there is one."""
    lines = [
        f"{file}:{line}: {what}"
        for file in sorted(folder.rglob("*.py"))
        for line, what in breaches(file.read_text(encoding="utf-8"))
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "src")))
