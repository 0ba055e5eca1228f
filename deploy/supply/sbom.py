"""`python -m deploy.supply.sbom [FILE]`: the packages that Dray's wheel needs, as CycloneDX 1.6. Equal input, equal output."""

from __future__ import annotations

import json
import sys
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.supply.locked import LOCK, OURSELVES, Package, extras, needed_for, read_lock

PLACE = Path("build/sbom.cdx.json")
_NAMESPACE = uuid.UUID("5b2c7a52-0a43-4f6e-9d3c-3a5be0d3c0f1")
Document = dict[str, Any]


def sbom(lock: str, project: str, optional: Sequence[str]) -> Document:
    """The document. `optional` are the packages of extras; what only they need is marked so."""
    packages = read_lock(lock)
    always = {one.name for one in needed_for(packages, OURSELVES)}
    wanted = needed_for(packages, OURSELVES, *optional)
    root = _ourselves(project)
    graph = [
        {"ref": root["bom-ref"], "dependsOn": [_url(one) for one in wanted if _is_direct(one, optional)]}
    ]
    for one in wanted:
        below = [_url(other) for other in wanted if one.name in other.needed_by]
        graph.append({"ref": _url(one), "dependsOn": below})
    document: Document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": [_component(one, "required" if one.name in always else "optional") for one in wanted],
        "dependencies": graph,
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{serial}", **document}


def _is_direct(package: Package, optional: Sequence[str]) -> bool:
    return OURSELVES in package.needed_by or package.name in optional


def _ourselves(project: str) -> Document:
    facts = tomllib.loads(project)["project"]
    url = f"pkg:pypi/{facts['name']}@{facts['version']}"
    return {
        "type": "application",
        "bom-ref": url,
        "name": facts["name"],
        "version": facts["version"],
        "description": facts["description"],
        "licenses": [{"license": {"id": facts["license"]}}],
        "purl": url,
    }


def _component(package: Package, scope: str) -> Document:
    """The hashes are those of its files, of which an installation takes one: so they are not the package's own."""
    return {
        "type": "library",
        "bom-ref": _url(package),
        "name": package.name,
        "version": package.version,
        "scope": scope,
        "purl": _url(package),
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{package.name}/{package.version}/#files",
                "hashes": [{"alg": "SHA-256", "content": one} for one in package.hashes],
            }
        ],
    }


def _url(package: Package) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def main() -> int:
    """Write it."""
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    place.parent.mkdir(parents=True, exist_ok=True)
    document = sbom(LOCK.read_text(), Path("pyproject.toml").read_text(), extras())
    place.write_text(json.dumps(document, indent=2) + "\n")
    sys.stdout.write(f"{place}: {len(document['components'])} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
