"""Programs that run here leave the machine as it is."""
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("tests", "benchmarks", "codegen", "runtime", "templates")
# A compiler that fails removes its output: as root also a device.
TO_A_DEVICE = re.compile(r"""-o["',\s]*f?["']?/dev/""")


@pytest.mark.parametrize("place", PLACES)
def test_no_compiler_writes_to_a_device(place):
    files = [path for path in (ROOT / place).rglob("*") if path.suffix in (".py", ".sh", "") and path.is_file()]
    assert files
    assert [str(path.relative_to(ROOT)) for path in files if TO_A_DEVICE.search(path.read_text())] == []


def test_objects_are_not_kept_in_the_users_cache(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    assert Path(os.environ["INGOT_CACHE_DIR"]).parent in (base, base.parent)
