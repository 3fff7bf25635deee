"""A bill of materials for a folder: NAME.spdx.json, in SPDX 2.3. The same model and options give the same bytes."""
from __future__ import annotations

import hashlib
import json
import os
from datetime import datetime, timezone
from pathlib import Path

RUNTIME = Path(__file__).parent.parent / "runtime_c"
LICENSE = "Apache-2.0"  # of Ingot, and so of its runtime
UNKNOWN = "NOASSERTION"
FILE_TYPES = {"c": "SOURCE", "h": "SOURCE", "S": "SOURCE", "ino": "SOURCE", "py": "SOURCE", "bin": "BINARY",
              "md": "DOCUMENTATION"}
NETWORK, MODEL, INGOT = (f"SPDXRef-Package-{what}" for what in ("network", "model", "ingot"))


def bill_of_materials(model, version, files, name=None, target=None):
    """The text of NAME.spdx.json for `files`, {path: text, bytes or what gives these by pieces()}, of a CompiledModel.
    version: that of the network's package; name, target: the network's, where they are not the model's."""
    name, target = name or model.name, target or model.target.name
    listed = [_file(n, path, content) for n, (path, content) in enumerate(sorted(files.items()))]
    sums = sorted(f["checksums"][0]["checksumValue"] for f in listed)
    options = ", ".join(f"{option}={value}" for option, value in _options(model, target))
    digest = hashlib.sha256("\n".join([model.model_hash, options, *sums]).encode()).hexdigest()
    network = _package(NETWORK, name, version, "LIBRARY", UNKNOWN, filesAnalyzed=True, comment=f"Cast by Ingot "
                       f"with {options}. Its licence is for the owner of the model to say; files of Ingot's runtime "
                       f"are {LICENSE}.",
                       packageVerificationCode={"packageVerificationCodeValue": _sha1("".join(sums))},
                       licenseInfoFromFiles=sorted({f["licenseInfoInFiles"][0] for f in listed}))
    origin = _package(MODEL, model.title, None, "OTHER", UNKNOWN, comment="The model that the network was cast from.",
                      checksums=[{"algorithm": "SHA256", "checksumValue": model.model_hash}])
    tool = _package(INGOT, "ingot", model.version, "APPLICATION", LICENSE)
    related = [("SPDXRef-DOCUMENT", "DESCRIBES", NETWORK), (NETWORK, "GENERATED_FROM", MODEL),
               (INGOT, "BUILD_TOOL_OF", NETWORK), *((NETWORK, "CONTAINS", f["SPDXID"]) for f in listed)]
    return json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/ingot-{name}-{digest[:32]}",
        "creationInfo": {"created": _created(), "creators": [f"Tool: ingot-{model.version}"],
                         "comment": "The time is that of SOURCE_DATE_EPOCH, or else the start of 1970."},
        "packages": [network, origin, tool], "files": listed,
        "relationships": [{"spdxElementId": a, "relationshipType": what, "relatedSpdxElement": b}
                          for a, what, b in related]}, indent=2) + "\n"


def _package(identity, name, version, purpose, declared, **more):
    return {"SPDXID": identity, "name": name, **({"versionInfo": version} if version else {}),
            "downloadLocation": UNKNOWN, "filesAnalyzed": False, "licenseConcluded": UNKNOWN,
            "licenseDeclared": declared, "copyrightText": UNKNOWN, "primaryPackagePurpose": purpose, **more}


def _file(number, path, content):
    name = path.rpartition("/")[2]
    sha1, sha256 = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
    for part in _parts(content):
        sha1.update(part)
        sha256.update(part)
    return {"SPDXID": f"SPDXRef-File-{number}", "fileName": f"./{path}",
            "fileTypes": [FILE_TYPES.get(name.rpartition(".")[2], "TEXT")],
            "checksums": [{"algorithm": "SHA1", "checksumValue": sha1.hexdigest()},
                          {"algorithm": "SHA256", "checksumValue": sha256.hexdigest()}],
            "licenseConcluded": UNKNOWN, "licenseInfoInFiles": [LICENSE if (RUNTIME / name).exists() else UNKNOWN],
            "copyrightText": UNKNOWN}


def _parts(content):
    if hasattr(content, "pieces"):
        return content.pieces()
    return [content.encode() if isinstance(content, str) else content]


def _sha1(text):
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _options(model, target):
    """What it was cast with, as far as it says what the C is: [(option, value)]."""
    return [("target", target), ("threads", model.threads), ("weights", model.weights),
            ("byte-order", model.target.byte_order), ("accuracy", model.accuracy), ("dtype", model.dtype),
            *model.options]


def _created():
    """The time that a document states. Raises ValueError for a SOURCE_DATE_EPOCH that is no number of seconds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "0")
    try:
        time = datetime.fromtimestamp(int(epoch), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"SOURCE_DATE_EPOCH must be a number of seconds, not {epoch!r}") from None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
