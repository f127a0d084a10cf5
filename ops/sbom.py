"""The bill of materials: every package of the lock, as CycloneDX.

`python -m ops.sbom` writes to standard output what `pyproject.toml` and `requirements.lock` say, and asks nobody else:
the same files make the same bytes. The lock's own comments tell who needs what.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

ROOT: Final = Path(__file__).resolve().parents[1]
DEVELOPMENT: Final = "dev"

_PIN = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[\w,.-]+\])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"\s+#(?: via |   )(?P<name>[\w.-]+)(?: \(pyproject\.toml\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One package of the lock, with whom it is there for."""

    name: str
    version: str
    marker: str | None
    hashes: tuple[str, ...]
    wanted_by: frozenset[str]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Pin]:
    """The packages of a lock that `make lock` wrote, in its order."""
    entries = [entry for entry in re.split(r"\n(?=\w)", f"\n{text}") if "==" in entry]
    return [_read_entry(entry) for entry in entries if not entry.startswith("\n#")]


def _read_entry(entry: str) -> Pin:
    first, *rest = entry.strip().splitlines()
    pin = _PIN.fullmatch(first)
    hashes = tuple(found for line in rest for found in _HASH.findall(line))
    wanted_by = {normal(found["name"]) for line in rest if (found := _VIA.fullmatch(line))}
    if pin is None or not hashes or not wanted_by:
        raise ValueError(f"requirements.lock: {first[:100]!r} has no pin, hash or reason; run `make lock`")
    return Pin(
        name=normal(pin["name"]),
        version=pin["version"],
        marker=pin["marker"],
        hashes=hashes,
        wanted_by=frozenset(wanted_by),
    )


def normal(name: str) -> str:
    """A name as the package index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reached(start: Iterable[str], needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Those and all that they need, and what that needs."""
    found: set[str] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += needs.get(name, ())
    return found


def bill_of(project: Mapping[str, Any], pins: Iterable[Pin], *, at: datetime | None = None) -> dict[str, Any]:
    """The bill: what runs is `required`, what an extra brings `optional`, and what only builds and tests `excluded`."""
    pins = sorted(pins, key=lambda pin: pin.name)
    me, version = project["name"], project["version"]
    extras = project.get("optional-dependencies", {})
    direct = _names(project["dependencies"])
    offered = _names(each for name, given in extras.items() if name != DEVELOPMENT for each in given)
    needs = {pin.name: sorted(other.name for other in pins if pin.name in other.wanted_by) for pin in pins}
    required, optional = reached(direct, needs), reached(offered, needs)
    purls = {pin.name: pin.purl for pin in pins}
    own = f"pkg:pypi/{me}@{version}"
    components = [
        _component(
            pin, "required" if pin.name in required else "optional" if pin.name in optional else "excluded"
        )
        for pin in pins
    ]
    wanted = sorted(pin.name for pin in pins if me in pin.wanted_by)
    edges = [(own, wanted), *((pin.purl, needs[pin.name]) for pin in pins)]
    bill: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            **({} if at is None else {"timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ")}),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": me,
                "version": version,
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": own,
            },
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": [purls[name] for name in names]} for ref, names in edges],
    }
    # The same bill has the same number, and another one another.
    bill["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(bill, sort_keys=True)).urn
    return bill


def _names(requirements: Iterable[str]) -> set[str]:
    return {normal(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for text in requirements}


def _component(pin: Pin, scope: str) -> dict[str, Any]:
    # A hash of the lock is that of one file of a release, of which there are several: one for each kind of machine.
    files = {
        "type": "distribution",
        "url": pin.purl,
        "comment": "any one of these files",
        "hashes": [{"alg": "SHA-256", "content": each} for each in pin.hashes],
    }
    marker = [] if pin.marker is None else [{"name": "timebell:marker", "value": pin.marker}]
    return {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "scope": scope,
        "purl": pin.purl,
        "externalReferences": [files],
        **({"properties": marker} if marker else {}),
    }


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = read_lock((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    at = None if not epoch else datetime.fromtimestamp(int(epoch), UTC)
    sys.stdout.write(json.dumps(bill_of(project, pins, at=at), indent=2) + "\n")


if __name__ == "__main__":
    main()
