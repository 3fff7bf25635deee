"""Which operators are imported, from which opset to which, and what of them is refused: rows, and the page of them,
docs/onnx.md."""
from __future__ import annotations

from dataclasses import dataclass

from onnx import defs

from .converter import converter_for, qualified
from .functions import has_function
from .load import KNOWN_DOMAINS, MOST_OPSET
from .msft_schemas import IN_STANDARD_DOMAIN, MICROSOFT, schemas

TITLES = {"": "ai.onnx", "ai.onnx.ml": "ai.onnx.ml: classic models", "ai.onnx.preview": "ai.onnx.preview",
          "ai.onnx.preview.training": "ai.onnx.preview.training: optimizers",
          MICROSOFT: "com.microsoft: operators that onnxruntime adds"}
# What of an operator is refused, and the way out; tests have a model for each.
LIMITS = {
    "BatchNormalization": "training mode before opset 14, and attribute `spatial` 0: export for inference",
    "If": "branches that a run chooses give tensors of one dtype and rank, or sequences of one length",
    "Loop": "values whose shape changes from turn to turn, and sequences, where a run decides how many turns there are",
    "Scan": "in opset 8 `sequence_lens`: convert the model to opset 9",
    "SequenceAt": "a position that a run decides: make it an initializer",
    "SequenceInsert": "a position that a run decides: make it an initializer",
    "SplitToSequence": "a length of parts that a run decides: make it an initializer",
    "TfIdfVectorizer": "words (`pool_strings`): encode them as numbers",
    "Upsample": "opset 1: convert the model",
    "ai.onnx.ml::LabelEncoder": "text as an input or output: encode it outside of the network",
    "ai.onnx.ml::ZipMap": "the maps: the result is the matrix of scores",
    "com.microsoft::MatMulNBits": "the order of columns `g_idx`, and `weight_prepacked`: export without them",
}
# Why an operator is refused, and the way out.
STRINGS = "works on text, which is no tensor here: run it before the network, or after it"
REFUSED = {
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), STRINGS),
    "ImageDecoder": "reads files of images: decode them before the network",
    "ai.onnx.ml::CastMap": "takes maps: take it out, with a tensor as the input",
    "ai.onnx.ml::DictVectorizer": "takes maps: take it out, with a tensor as the input",
    "ai.onnx.preview.training::Gradient": "differentiates a graph: export the gradients as a graph",
}


@dataclass(frozen=True)
class Row:
    """An operator. first, last: the opsets of its domain from and to which it is imported, last None for the newest;
    expanded: in the newest by the standard's definition; without: kinds of elements that it has in the standard alone;
    limits: what else is refused."""

    domain: str
    name: str
    first: int
    last: int | None = None
    expanded: bool = False
    without: tuple = ()
    limits: str = ""


def rows():
    """The Rows of all operators that are imported, in order."""
    found = [_row(domain, name, versions) for (domain, name), versions in sorted(_standard().items())
             if qualified(name, domain) not in REFUSED]
    own = [Row(MICROSOFT, name, 1, limits=LIMITS.get(qualified(name, MICROSOFT), ""))
           for name in sorted(schemas()) if name not in IN_STANDARD_DOMAIN]
    return [r for r in found if r is not None] + own


def refused():
    """(domain, name) of the operators of the domains that onnx knows that are never imported."""
    return [(domain, name) for (domain, name), versions in sorted(_standard().items())
            if qualified(name, domain) in REFUSED or _row(domain, name, versions) is None]


def _standard():
    """{(domain, operator): its schemas, oldest first}."""
    found = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        if schema.domain in KNOWN_DOMAINS:
            found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def _row(domain, name, versions):
    """The Row of an operator; None where no version of it is imported."""
    able = [s for s in versions if not s.deprecated
            and (converter_for(name, s.since_version, domain) is not None or has_function(s))]
    if not able:
        return None
    later = [s.since_version for s in versions if s.since_version > able[-1].since_version]
    return Row(domain, name, able[0].since_version, later[0] - 1 if later else None,
               converter_for(name, able[-1].since_version, domain) is None, _without(able[-1]),
               LIMITS.get(qualified(name, domain), ""))


def _without(schema):
    types = {t for c in schema.type_constraints for t in c.allowed_type_strs}
    return tuple(text for word, text in (("string", "text"), ("complex", "complex")) if any(word in t for t in types))


# ---------------------------------------------------------------- the page

_PAGE = """# Operators of ONNX

What Ingot imports. This page is made from the tables of converters:
`INGOT_UPDATE_ONNX=1 python -m pytest tests/onnx_backend/test_onnx_support.py` rewrites it.

"opsets" are those of the domain in which an operator is imported; "+" is the newest that the installed onnx knows, here
{opset}. What the standard defines as a function, and has no converter, is expanded ("by definition"), and fused again
like other nodes. Element types are the standard's but for those that are named; complex numbers and text are no
elements of tensors. Operators keep their limits for shapes that only a run knows in [memory.md](memory.md).

What is refused is one error, which names the node, and nothing is written. GPUs (`cuda`, `opencl`) refuse no operator
that CPUs compile: all of ONNX's node tests that pass there pass as CUDA C ([architecture.md](architecture.md)). Kernels
that call C functions of one's own are for CPUs.
"""


def page():
    """docs/onnx.md."""
    parts = [_PAGE.format(opset=MOST_OPSET)]
    for domain, title in TITLES.items():
        head = f"## {title}\n\n| operator | opsets | what is refused, and the way out |\n|---|---|---|\n"
        parts.append(head + "".join(
            f"| {r.name} | {r.first}{'+' if r.last is None else f' to {r.last}'}"
            f"{', by definition' if r.expanded else ''} | {_refusals(r)} |\n" for r in rows() if r.domain == domain))
    parts.append("## Refused\n\n| operator | why, and the way out |\n|---|---|\n" + "".join(
        f"| {qualified(name, domain)} | {REFUSED[qualified(name, domain)]} |\n" for domain, name in refused()))
    return "\n".join(parts)


def _refusals(row):
    return "; ".join(filter(None, (f"elements: {' and '.join(row.without)}" if row.without else "", row.limits)))
