"""Attributes and inputs of a node, checked against the operator's schema at the model's opset (onnx.defs)."""
from __future__ import annotations

from onnx import AttributeProto, defs, helper

from .errors import OnnxImportError
from .load import DOMAINS
from .msft_schemas import IN_STANDARD_DOMAIN, MICROSOFT, schemas

_TYPE_NAMES = {v: k.lower() for k, v in AttributeProto.AttributeType.items()}
# Attributes that say yes or no: others than 0 and 1 mean what each runtime makes of them.
FLAGS = frozenset("""allowzero antialias ceil_mode count_include_pad exclude_outside fmod input_forget keepdims layout
    linear_before_reset noop_with_empty_axes select_last_index storage_order training_mode transA transB
    upper""".split())


def schema_of(op_type, opset, domain=""):
    """The operator's schema at `opset`, or None when its domain has no such operator there."""
    if domain == MICROSOFT or domain in DOMAINS and op_type in IN_STANDARD_DOMAIN:
        return schemas().get(op_type)
    try:
        return defs.get_schema(op_type, opset, "" if domain in DOMAINS else domain)
    except defs.SchemaError:
        return None


def first_version(op_type, domain=""):
    """The opset in which the operator appeared, or None when no opset has it."""
    domain = "" if domain in DOMAINS else domain
    versions = [s.since_version for s in defs.get_all_schemas_with_history()
                if s.domain == domain and s.name == op_type]
    return min(versions, default=None)


def read_attributes(node, schema, title):
    """{attribute: value} with the schema's defaults filled in; strings are str, lists are tuples, absent ones None.

    Raises OnnxImportError for an attribute that is unknown, missing, given twice or of the wrong type.
    """
    values = {}
    for a in node.attribute:
        if a.name not in schema.attributes:
            known = ", ".join(sorted(schema.attributes)) or "none"
            raise OnnxImportError(f"{title} has an attribute {a.name!r}, which the operator does not have in this "
                                  f"opset; it has {known}")
        expected = int(schema.attributes[a.name].type.value)
        if a.type != expected:
            raise OnnxImportError(f"{title}: attribute {a.name!r} is a {_TYPE_NAMES.get(a.type, a.type)}, and must "
                                  f"be a {_TYPE_NAMES[expected]}")
        if a.name in values:
            raise OnnxImportError(f"{title}: attribute {a.name!r} is given twice")
        values[a.name] = _plain(a, title)
        if a.name in FLAGS and values[a.name] not in (0, 1):
            raise OnnxImportError(f"{title}: attribute {a.name!r} is {values[a.name]!r}, and must be 0 or 1")
    for name, declared in schema.attributes.items():
        if name in values:
            continue
        if declared.required:
            raise OnnxImportError(f"{title} lacks the attribute {name!r} "
                                  f"({_TYPE_NAMES[int(declared.type.value)]}), which the operator needs")
        default = declared.default_value
        values[name] = _plain(default, title) if default.type else None
    return values


def _plain(attribute, title):
    value = helper.get_attribute_value(attribute)
    try:
        if isinstance(value, bytes):
            return value.decode()
        if attribute.type == AttributeProto.STRINGS:
            return tuple(v.decode() for v in value)
    except UnicodeDecodeError as error:
        raise OnnxImportError(f"{title}: attribute {attribute.name!r} is no UTF-8 text") from error
    return tuple(value) if isinstance(value, list) else value


def check_inputs(node, schema, title):
    """The node has as many inputs and outputs as the schema wants, and no required one is empty."""
    if not schema.min_input <= len(node.input) <= schema.max_input:
        many = schema.max_input > 1000
        wanted = f"at least {schema.min_input}" if many else f"{schema.min_input} to {schema.max_input}"
        raise OnnxImportError(f"{title} has {len(node.input)} inputs, and must have {wanted}")
    if not schema.min_output <= len(node.output) <= schema.max_output:
        raise OnnxImportError(f"{title} has {len(node.output)} outputs, and must have {schema.min_output} to "
                              f"{schema.max_output}")
    for position, name in enumerate(node.input):
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]  # a variadic one is the last
        if not name and formal.option != defs.OpSchema.FormalParameterOption.Optional:
            raise OnnxImportError(f"{title}: input {position} ({formal.name}) is missing")
