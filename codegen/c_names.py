"""C names that are free: beside those of the generated files themselves, and of the C library that they include."""
from __future__ import annotations

import re

from .c_types import identifier
from .reserved import BUILD, HEADER_FAMILIES, HEADERS, PREFIXES

# Where tensors and dimensions have names of their own, NAME_run, main of the example and of the self-test, these are
# used, too: as variables, as types, or as functions and macros of the C library.
BESIDE_TENSORS = frozenset("""
net arena arena_bytes weights weights_block block status best bad file repeat start seconds argc argv i m w inputs
outputs dim_names tolerance transfer now compare_float compare_double stdin stdout stderr EOF clock_gettime fclose
fopen fprintf fread free fwrite malloc memcmp printf size_t ptrdiff_t timespec FILE times keep_time CALLS
worker call from once scratch took microseconds infer
""".split())
# Where host code drives a device, these too, in lower case: of its own, and types of CUDA.
BESIDE_LAUNCHES = frozenset("""
host device stream graph executable stop milliseconds check failed cuda event dim3 threadidx blockidx blockdim griddim
warpsize ingot_stream arguments attributes error grid shared half
""".split()) | {f"{kind}{n}" for kind in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
                                         "longlong", "ulonglong", "float", "double") for n in (1, 2, 3, 4)}
BESIDE = {"c": frozenset(), "cuda": BESIDE_LAUNCHES}  # by a target's kind
# What <stdio.h>, <stdlib.h>, <string.h> and <time.h> declare beside the names above: a network's name is a type.
LIBRARY = frozenset("""
abort abs asctime atexit atof atoi atol atoll bsearch calloc clearerr clock clock_t ctime difftime div div_t exit feof
ferror fflush fgetc fgetpos fgets fpos_t fputc fputs freopen fscanf fseek fsetpos ftell getc getchar getenv gets
gmtime index labs ldiv ldiv_t llabs lldiv lldiv_t localtime mblen mbstowcs mbtowc memchr memcpy memmove memset mktime
perror putc putchar puts qsort raise rand random read realloc remove rename rewind scanf setbuf setvbuf signal
snprintf sprintf srand sscanf strcat strchr strcmp strcoll strcpy strcspn strerror strftime strlen strncat strncmp
strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol strtold strtoll strtoul strtoull strxfrm system time
time_t tm tmpfile tmpnam ungetc vfprintf vprintf vsnprintf vsprintf wcstombs wctomb write y0 y1 yn j0 j1 jn gamma
""".split())
# Of every folder the programs, NAME_example.c ..., which no library has, and other files beside NAME.h and NAME.c.
PROGRAMS = re.compile(r"(.*_)?(example|selftest|selftest_data|serve|server)")
FILES = re.compile(PROGRAMS.pattern + r"|simd|ingot|ingot_\w+|profile|roofline|(.*_)?kernels(_\d+)?")
# Names that NAME.c and NAME_selftest.c derive from those of tensors.
DERIVED = re.compile(r"(dims_of|dim_names_of|compare)_.*|.*_again")
# Letters of a network's name: files, macros and functions are called NAME_something, and have at most 63.
MOST_NETWORK = 40
MOST_TENSOR = 48
# NAME_run and the other symbols that NAME.h and the blobs define; kernels are called NAME_something, too.
INTERFACE = ("init", "init_", "run", "info", "arena_bytes", "arena_bytes_", "set_weights", "weights", "selftest_data",
             "set_profile", "set_reader", "call_names", "device_error")


def network_name(text, fallback="model", kind="c"):
    """`text` as the prefix of a network's C names and files: an identifier of at most MOST_NETWORK letters, with _
    behind it where a file, function, library or target called so would be taken for another. kind: the target's."""
    name = identifier(text, fallback, MOST_NETWORK)
    file = name.lower()  # some file systems have one case
    taken = (name in BESIDE_TENSORS or name in LIBRARY or file in HEADERS or file in BUILD or file in PREFIXES
             or HEADER_FAMILIES.fullmatch(file) or FILES.fullmatch(file) or file in BESIDE.get(kind, ()))
    return name.rstrip("_") + "_" if taken else name


def taken_names(network, kernels=()):
    """Names that a network's tensor or dimension must not have, in lower case: each would hide a function in NAME.c,
    or another name there."""
    return {network.lower(), *(f"{network}_{suffix}".lower() for suffix in INTERFACE), *(k.lower() for k in kernels)}


def most_letters(network):
    """Letters of a tensor's name, so that NETWORK_TENSOR_SIZE has at most 63 with a number behind the tensor."""
    return min(MOST_TENSOR, 54 - len(network))


def new_name(hint, taken, most=MOST_TENSOR):
    """`hint` as a C identifier of at most `most` letters, with _1, _2 ... behind it when it is in `taken`; the result
    is added to `taken`.

    Names in upper case are macros' (NET_IMAGE_SIZE), so two that differ by case alone are not different.
    """
    base = name = identifier(hint, most=most)
    if DERIVED.fullmatch(f"{base}_1"):  # no number behind it would help
        base = name = identifier(f"t_{base}", most=most)
    n = 0
    while name in BESIDE_TENSORS or DERIVED.fullmatch(name) or name.lower() in taken:
        n += 1
        name = f"{base}_{n}"
    taken.add(name.lower())
    return name
