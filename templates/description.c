/* ---- description -------------------------------------------------------------------------------------------- */

[% for t in inputs + outputs %]
[% if t.dims %]
static const int64_t dims_of_[[ t.name ]][] = {[[ t.dims|join(", ") ]]};
static const char *const dim_names_of_[[ t.name ]][] = {[[ t.dim_names|join(", ") ]]};
[% endif %]
[% endfor %]
[% for kind, tensors in (("inputs", inputs), ("outputs", outputs)) if tensors %]
static const ingot_tensor_info [[ kind ]][] = {
[% for t in tensors %]
    {"[[ t.source_name ]]", [[ t.dtype_enum ]], [[ t.dims|length ]], [[ "dims_of_" + t.name + ", dim_names_of_" + t.name if t.dims else "NULL, NULL" ]]},
[% endfor %]
};
[% endfor %]
[% if dims %]
static const char *const dim_names[] = {[[ quoted_dims ]]};
[% endif %]

const ingot_model_info [[ name ]]_info = {
    INGOT_ABI, (uint32_t)sizeof(ingot_model_info), "[[ name ]]",
    [[ inputs|length ]], [[ outputs|length ]], [[ dims|length ]], [[ "inputs" if inputs else "NULL" ]], outputs, [[ "dim_names" if dims else "NULL" ]],
    [[ 0 if dims else arena_bytes ]], [[ upper ]]_ARENA_ALIGN, [[ upper ]]_WEIGHTS_BYTES, [[ flops ]],
    "[[ model_hash ]]", "[[ target ]]"
};

