"""Bills of materials: valid SPDX 2.3, the same each time, and right about every file."""
import hashlib
import json
from functools import lru_cache

import pytest

import ingot
from ingot.codegen.package_forms import FORMS
from networks import load


@lru_cache(maxsize=None)
def library():
    return ingot.compile(load("conv_net"), name="conv_net", target="c", threads="none")


@pytest.mark.parametrize("options", [{"sbom": True}, {"sbom": True, "single_file": True},
                                     *({"package": form} for form in FORMS)], ids=str)
def test_it_lists_every_file(tmp_path, options):
    folder = library().export(tmp_path / "net", **options)
    document = json.loads((folder / "conv_net.spdx.json").read_text())
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {f["fileName"] for f in document["files"]} == {f"./{file}" for file in found - {"conv_net.spdx.json"}}
    for file in document["files"]:
        data = (folder / file["fileName"]).read_bytes()
        sums = {c["algorithm"]: c["checksumValue"] for c in file["checksums"]}
        assert sums == {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}
    licenses = {f["fileName"].rpartition("/")[2]: f["licenseInfoInFiles"] for f in document["files"]}
    assert licenses["conv_net.c"] == ["NOASSERTION"] and licenses.get("ingot.h", ["Apache-2.0"]) == ["Apache-2.0"]


def test_it_is_valid(tmp_path):
    parser = pytest.importorskip("spdx_tools.spdx.parser.parse_anything")
    validator = pytest.importorskip("spdx_tools.spdx.validation.document_validator")
    folder = library().export(tmp_path / "net", sbom=True)
    document = parser.parse_file(str(folder / "conv_net.spdx.json"))
    assert validator.validate_full_spdx_document(document) == []


def test_it_says_where_the_network_is_from():
    document = json.loads(library().model.files(sbom=True)["conv_net.spdx.json"])
    network, model, tool = document["packages"]
    assert (tool["name"], tool["licenseDeclared"]) == ("ingot", "Apache-2.0")
    assert model["checksums"] == [{"algorithm": "SHA256", "checksumValue": library().model.model_hash}]
    assert "target=c, threads=none, weights=incbin" in network["comment"] and "opt-level=2" in network["comment"]
    assert {(r["relationshipType"]) for r in document["relationships"]} == {"DESCRIBES", "GENERATED_FROM",
                                                                            "BUILD_TOOL_OF", "CONTAINS"}


def test_a_folder_for_several_targets(tmp_path):
    library = ingot.compile(load("conv_net"), name="conv_net", target="x86-64-v2+x86-64-v3", threads="none")
    folder = library.export(tmp_path / "net", sbom=True)
    network, *_ = json.loads((folder / "conv_net.spdx.json").read_text())["packages"]
    assert network["name"] == "conv_net" and "target=x86-64-v3+x86-64-v2, " in network["comment"]
    with pytest.raises(ValueError, match="zephyr builds a package with the flags of one target"):
        library.export(tmp_path / "package", package="zephyr")


def test_it_is_the_same_each_time(monkeypatch):
    first = library().model.files(sbom=True)["conv_net.spdx.json"]
    assert first == library().model.files(sbom=True)["conv_net.spdx.json"] and "1970-01-01T00:00:00Z" in first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert library().model.files(sbom=True)["conv_net.spdx.json"] == first.replace("1970-01-01", "1970-01-02")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH must be a number of seconds, not 'today'"):
        library().model.files(sbom=True)


def test_other_files_are_as_without_it():
    files = library().model.files(sbom=True)
    assert files.pop("conv_net.spdx.json") and {*files} == {*library().model.files()}
