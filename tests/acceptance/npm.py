"""Packages from the registry of npm, for examples in JavaScript. Where Node is missing their tests are skipped, so no
requirement rests on them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.shape.tree import ROOT


def node_modules(name: str, *packages: str, node_min: int) -> Path:
    """The folder with these packages, fetched once and kept beside the environment under a name."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node.js is not installed; install nodejs and npm")
    if int(subprocess.check_output([node, "--version"], text=True).lstrip("v").split(".")[0]) < node_min:
        pytest.skip(f"{', '.join(packages)} needs Node.js {node_min} or newer")
    folder = ROOT / ".venv" / f"node-{name}"
    note = folder / "ready"
    if not note.exists() or note.read_text() != "\n".join(packages):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
        install = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", *packages]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.skip(f"npm could not fetch {', '.join(packages)}: {done.stderr.strip()[-200:]}")
        note.write_text("\n".join(packages))
    return folder / "node_modules"
