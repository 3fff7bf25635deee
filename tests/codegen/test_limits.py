"""--ram-limit and --flash-limit: what counts, what is given up to keep them, and what errors say."""
import pytest

import ingot
from ingot.codegen.compile import Options, compile_module
from ingot.codegen.limits import LimitError, bytes_of, flash_use, ram_use
from networks import attention_net, feeds_of, onnxruntime_outputs, relative_error, residual_net

WINOGRAD = {"target": "x86-64-v3", "threads": "none"}


def compiled(model=None, **options):
    return compile_module(ingot.from_onnx(model or residual_net()), Options.check(**options))


@pytest.mark.parametrize("text, size", [("65536", 65536), ("64K", 65536), ("64k", 65536), ("1.5M", 3 << 19),
                                        ("2G", 2 << 30), ("64KB", 65536), ("64KiB", 65536)])
def test_sizes(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "K", "0", "-1", "1.5", "64T", "1e400", "nan", "sixty"])
def test_no_sizes(text):
    with pytest.raises(ValueError, match="expected bytes, as 65536, 64K, 1.5M or 2G, not"):
        bytes_of(text)


def test_ram_is_what_the_header_says():
    model = compiled(target="cortex-m4f")
    assert f"_RAM_BYTES {ram_use(model).bytes}u" in model.files()["residual_net.h"]


def test_winograd_where_its_tables_fit():
    free = compiled(**WINOGRAD)
    assert any("winograd" in k.comment for k in free.kernels.values())
    size = flash_use(free).bytes
    assert flash_use(compiled(**WINOGRAD, flash_limit=size)).bytes == size
    tight = compiled(**WINOGRAD, flash_limit=size - 1)
    assert flash_use(tight).bytes < size
    least = compiled(**WINOGRAD, flash_limit=flash_use(compiled(**WINOGRAD, accuracy="strict")).bytes)
    assert not any("winograd" in k.comment for k in least.kernels.values())


@pytest.mark.parametrize("limit", ["ram_limit", "flash_limit"])
def test_what_is_given_up_changes_no_result(limit):
    """The least that the error names can be had, and computes the same."""
    model = residual_net()
    with pytest.raises(LimitError) as error:
        compiled(model, **WINOGRAD, **{limit: 1000})
    least = int(str(error.value).rsplit(" ", 1)[1])
    feeds = feeds_of(model)
    with ingot.compile(model, **WINOGRAD, **{limit: least}) as library:
        found = library(*feeds.values())
        assert LIMITS_OF[limit](library.model).bytes == least
    for got, want in zip(found if isinstance(found, tuple) else (found,), onnxruntime_outputs(model, feeds)):
        assert relative_error(got, want) < 1e-5


LIMITS_OF = {"ram_limit": ram_use, "flash_limit": flash_use}


@pytest.mark.parametrize("limit, layer", [("ram_limit", "Relu"), ("flash_limit", "Conv")])
def test_the_error_says_how_many_and_which_layer(limit, layer):
    with pytest.raises(LimitError, match=rf"takes at least \d+ bytes .* more than {limit}=1000; what sets it is "
                                         rf".*{layer}.* allow as many: --{limit.replace('_', '-')} \d+"):
        compiled(target="cortex-m4f", **{limit: 1000})


def test_both_at_once():
    model = compiled(target="cortex-m4f")
    limits = {"ram_limit": ram_use(model).bytes, "flash_limit": flash_use(model).bytes}
    assert compiled(target="cortex-m4f", **limits).files() == model.files()


def test_symbolic_sizes_are_refused():
    with pytest.raises(LimitError, match="ram_limit needs sizes with bounds: .* --bound length=N"):
        compiled(attention_net(), target="cortex-m4f", ram_limit=1 << 20)


def test_options():
    with pytest.raises(ValueError, match="ram_limit must be a number of bytes, at least 1, not '64K'"):
        Options.check(ram_limit="64K")
    with pytest.raises(ValueError, match="flash_limit must be a number"):
        Options.check(flash_limit=0)
    with pytest.raises(ValueError, match="of programs on CPUs, not of cuda"):
        Options.check(target="cuda", ram_limit=1 << 20)
