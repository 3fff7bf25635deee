"""A process of its own that runs a network in memory between pages that nobody may touch: guarded_run.py JOB.json.

The job: library (path), name, dims (values of symbolic dimensions), align, weights (a path or null), inputs and outputs
([path of an .npy]; an output file holds what is expected), rooms (bytes that each output may take), found (how many
dimensions a run reports), arenas (fractions of the bytes needed that must be refused).
Arena, weights, inputs and outputs begin where a page does
("begin") or end where one ends ("end"), with a page that may not be accessed on either side: an access outside of them
kills the process. Prints "ok".
"""
import ctypes
import json
import mmap
import sys

import numpy as np

PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded(size, align, end, fill=0):
    """The address of `size` bytes, all `fill`, at a multiple of `align`; the page before and the one behind are not
    accessible, nor are the bytes between them and those pages more than `align` asks for."""
    pages = -(-max(size, 1) // PAGE)
    base = libc.mmap(None, (pages + 2) * PAGE, mmap.PROT_READ | mmap.PROT_WRITE,
                     mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert base not in (None, ctypes.c_void_p(-1).value), "mmap"
    for page in (base, base + (pages + 1) * PAGE):
        assert libc.mprotect(page, PAGE, 0) == 0, "mprotect"
    address = base + PAGE + ((pages * PAGE - size) // align * align if end else 0)
    ctypes.memset(address, fill, size)
    return address


def held(array, align, end):
    """The address of a guarded copy of an array."""
    address = guarded(array.nbytes, align, end)
    rows = np.ascontiguousarray(array)  # it lives until it is copied
    ctypes.memmove(address, rows.ctypes.data, rows.nbytes)
    return address


def view(address, like):
    return np.frombuffer((ctypes.c_char * like.nbytes).from_address(address), like.dtype).reshape(like.shape)


def check_refusals(init, net, size, align):
    """An arena that is too small, crooked or none: an error, and not a byte of it is touched."""
    for fewer, crooked in ((1, 0), (size, 0), (0, 1), (0, align // 2)):
        address = guarded(size + crooked, align, False, fill=0xA5) + crooked
        assert init(net, address, size - fewer) < 0, f"an arena of {fewer} bytes less, {crooked} off, is taken"
        assert set(ctypes.string_at(address, size)) <= {0xA5}, "an arena that was refused is touched"
    assert init(net, None, size) < 0 and init(None, guarded(size, align, False), size) < 0


def check_small_arenas(start, run, fractions, size, results, rooms):
    """With an arena of each fraction of its bytes, init or the run returns INGOT_ERR_ARENA_SIZE, and no output is
    touched."""
    for fraction in fractions:
        fewer = int(size * fraction)
        status = start(fewer, True) or run(results)
        assert status == -2, f"an arena of {fewer} of {size} bytes gives {status}"
        assert all(set(ctypes.string_at(address, room)) <= {0xFF} for address, room in zip(results, rooms)), \
            "an output is written without an arena"


def main(job):
    library = ctypes.CDLL(job["library"])
    name, dims = job["name"], [ctypes.c_int64(d) for d in job["dims"]]
    arena_bytes = getattr(library, f"{name}_arena_bytes_")
    arena_bytes.restype = ctypes.c_uint64
    size, align = arena_bytes(*dims), job["align"]

    def init(net, arena, length):
        return getattr(library, f"{name}_init_")(net, ctypes.c_void_p(arena), ctypes.c_size_t(length),
                                                 ctypes.c_uint32(job["abi"]), ctypes.c_size_t(job["info_bytes"]))

    inputs, expected = ([np.load(path) for path in job[which]] for which in ("inputs", "outputs"))
    net = ctypes.c_void_p()
    if not dims:
        check_refusals(init, ctypes.byref(net), size, align)
    found = (ctypes.c_int64 * max(job["found"], 1))()
    cells = [ctypes.byref(found, 8 * k) for k in range(job["found"])]

    def run(arrays):
        return getattr(library, f"{name}_run")(net, *dims, *map(ctypes.c_void_p, arrays), *cells)

    def start(length, end):
        """Make an instance in so many bytes, with its weights; the status."""
        status = init(ctypes.byref(net), guarded(length, align, end, fill=0xFF), length)
        if status == 0 and job["weights"]:
            blob = np.fromfile(job["weights"], np.uint8)
            status = getattr(library, f"{name}_set_weights")(net, ctypes.c_void_p(held(blob, 64, end)),
                                                             ctypes.c_size_t(blob.size))
        return status

    given = [held(a, a.itemsize, True) for a in inputs]
    untouched = [guarded(room, a.itemsize, True, fill=0xFF) for a, room in zip(expected, job["rooms"])]
    check_small_arenas(start, lambda results: run(given + results), job["arenas"], size, untouched, job["rooms"])
    for end in (False, True):
        assert start(size, end) == 0, "init or set_weights"
        arrays = [held(a, a.itemsize, end) for a in inputs]
        results = [guarded(room, a.itemsize, end, fill=0xFF) for a, room in zip(expected, job["rooms"])]
        for _ in range(2):
            status = run(arrays + results)
            assert status == 0, f"run returned {status}"
            for address, array in zip(arrays, inputs):
                assert view(address, array).tobytes() == array.tobytes(), "an input is written"
            for address, array in zip(results, expected):
                np.testing.assert_array_equal(view(address, array), array)
    print("ok")


if __name__ == "__main__":
    main(json.loads(open(sys.argv[1]).read()))
