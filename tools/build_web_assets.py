"""Build the vendored files of the web pages from the npm registry.

    python tools/build_web_assets.py            # needs npm and node 20 or newer; no step of it runs for users

Versions are pinned in tools/web/package.json. Scripts are bundled and minified by esbuild as ES modules, fonts are
copied as they are, and every package that went into a file is listed in VERSIONS.txt with its licence in LICENSES.txt.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "tools" / "web"
VENDOR = ROOT / "src" / "sfumato" / "web" / "static" / "vendor"
AXE = ROOT / "tests" / "browser" / "axe"
BUNDLES = ("codemirror", "vega")
COPIES = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "idiomorph-ext.min.js": "idiomorph/dist/idiomorph-ext.min.js",
    "source-serif.woff2": "@fontsource-variable/source-serif-4/files/source-serif-4-latin-wght-normal.woff2",
    "source-sans.woff2": "@fontsource-variable/source-sans-3/files/source-sans-3-latin-wght-normal.woff2",
}
LICENCE_NAMES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "license", "COPYING")


def main() -> None:
    """Install the pinned packages in a temporary folder, bundle, copy, and list what was used."""
    with tempfile.TemporaryDirectory(prefix="sfumato-web-") as scratch:
        work = Path(scratch)
        for recipe in RECIPES.iterdir():
            shutil.copy(recipe, work)
        run(work, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
        modules = work / "node_modules"
        shutil.rmtree(VENDOR, ignore_errors=True)
        VENDOR.mkdir(parents=True)
        used = {package_of(modules / source) for source in COPIES.values()}
        for target, source in COPIES.items():
            shutil.copy(modules / source, VENDOR / target)
        for name in BUNDLES:
            used |= bundle(work, name)
        describe(used, VENDOR)
        AXE.mkdir(parents=True, exist_ok=True)
        shutil.copy(modules / "axe-core" / "axe.min.js", AXE)
        describe({modules / "axe-core"}, AXE)


def bundle(work: Path, name: str) -> set[Path]:
    """Bundle one recipe; the packages that esbuild drew from."""
    meta = work / f"{name}.meta.json"
    options = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--legal-comments=none"]
    options += [f"--outfile={VENDOR / name}.js", f"--metafile={meta}"]
    run(work, "npx", "--no-install", "esbuild", f"{name}.js", *options)
    sources = json.loads(meta.read_text())["inputs"]
    return {package_of(work / source) for source in sources if source.startswith("node_modules/")}


def package_of(file: Path) -> Path:
    """The folder of the package that a file belongs to: the nearest one with a named package.json."""
    for folder in file.parents:
        manifest = folder / "package.json"
        if manifest.exists() and "version" in json.loads(manifest.read_text()):
            return folder
    message = f"{file.name} belongs to no package"
    raise RuntimeError(message)


def describe(packages: set[Path], target: Path) -> None:
    """Write VERSIONS.txt and LICENSES.txt for these packages."""
    versions, texts = [], []
    for folder in sorted(packages):
        facts = json.loads((folder / "package.json").read_text())
        title = f"{facts['name']} {facts['version']} ({facts.get('license', 'see text')})"
        versions.append(title)
        found = next((folder / name for name in LICENCE_NAMES if (folder / name).exists()), None)
        text = found.read_text(encoding="utf-8").strip() if found else "The package ships no licence text."
        texts.append(f"{'=' * 80}\n{title}\n{'=' * 80}\n{text}\n")
    (target / "VERSIONS.txt").write_text("\n".join(versions) + "\n", encoding="utf-8")
    (target / "LICENSES.txt").write_text("\n".join(texts), encoding="utf-8")


def run(folder: Path, *command: str) -> None:
    """Run a command in the folder; stop at its first failure."""
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - fixed commands


if __name__ == "__main__":
    main()
