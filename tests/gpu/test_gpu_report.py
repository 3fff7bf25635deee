"""The command that says what kernels cost."""
import report
import pytest
from emulated import MISSING
from folders import folder_of
from networks import conv_net

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def test_a_line_of_each_kernel(tmp_path, capsys):
    made = folder_of(conv_net(), tmp_path / "net", "conv_net")
    assert report.main([str(tmp_path / "net"), "--json", str(tmp_path / "sites.json")]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [*report.COLUMNS]
    assert {line.split()[0] for line in lines[:len(made.kernels)]} == set(made.kernels)
    assert "_kernels_0.cu:" in (tmp_path / "sites.json").read_text()
    with pytest.raises(SystemExit):
        report.main([str(tmp_path)])
    assert "has no CUDA C" in capsys.readouterr().err


@pytest.mark.parametrize("threads, registers, shared, share", [
    (128, 32, 0, 1.0), (256, 64, 0, 0.5), (128, 32, 48 << 10, 3 / 16), (1024, 64, 0, 0.5), (32, 16, 0, 0.5)])
def test_occupancy(threads, registers, shared, share):
    assert report.occupancy("sm_80", threads, registers, shared) == share
