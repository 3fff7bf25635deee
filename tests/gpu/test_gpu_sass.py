"""The instructions that device functions become, as NVIDIA's disassembler shows them."""
import pytest
import sass
from test_gpu_header import SOURCES, compiled, needs_nvcc

pytestmark = [needs_nvcc, pytest.mark.skipif(sass.find_nvdisasm() is None, reason="no nvdisasm")]


@pytest.mark.parametrize("name, arch, wanted", [
    ("copies", "sm_80", {"LDGSTS": 3, "LDGDEPBAR": 1, "BAR.ARV": 1}),
    ("mma", "sm_80", {"LDSM": 2, "HMMA": 7, "IMMA": 5}),
    ("tma", "sm_90a", {"UTMALDG.2D": 1, "UTMASTG.2D": 1, "SYNCS": 3}),
    ("wgmma", "sm_90a", {"HGMMA.64x128x16": 2, "HGMMA.64x256x16": 2, "HGMMA.64x64x8": 2,
                         "IGMMA.64x96x32": 2}),
])
def test_instructions(tmp_path, name, arch, wanted):
    compiled(tmp_path, SOURCES[name], arch)
    found = sum(sass.instructions(tmp_path / "k.cubin").values(), start=sass.Counter())
    counts = {start: sass.count(found, start) for start in wanted}
    assert all(counts[start] >= least for start, least in wanted.items()), (counts, sorted(found))
