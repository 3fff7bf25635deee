/* ingot_entry.h: the checks that the entries of generated modules make. Internal to them; all static. */
#ifndef INGOT_ENTRY_H
#define INGOT_ENTRY_H

#include "ingot_module.h"

#if defined(__GNUC__)
#define INGOT_CHECK static __attribute__((unused))
#else
#define INGOT_CHECK static
#endif

/* ---- messages: each function appends to error->text, of which `at` characters are written, and returns their new
 * number; error may be NULL */

INGOT_CHECK size_t ingot_say(ingot_error *error, size_t at, const char *text)
{
    if (error == NULL) return 0;
    while (*text != '\0' && at + 1 < sizeof error->text) error->text[at++] = *text++;
    error->text[at] = '\0';
    return at;
}

INGOT_CHECK size_t ingot_say_int(ingot_error *error, size_t at, int64_t value)
{
    char digits[21];
    int n = 20;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    digits[n] = '\0';
    do {
        digits[--n] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest != 0);
    if (value < 0) digits[--n] = '-';
    return ingot_say(error, at, digits + n);
}

INGOT_CHECK size_t ingot_say_type(ingot_error *error, size_t at, ingot_type type)
{
    static const char *const names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool", "float8_e3m4",
        "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
        "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"};
    at = ingot_say(error, at, type.code < sizeof names / sizeof *names ? names[type.code] : "unknown");
    if (type.code < 6) at = ingot_say_int(error, at, type.bits);
    if (type.lanes != 1) at = ingot_say_int(error, ingot_say(error, at, "x"), type.lanes);
    return at;
}

/* "add: argument B " */
INGOT_CHECK size_t ingot_say_argument(ingot_error *error, const ingot_function *f, int32_t n)
{
    size_t at = ingot_say(error, 0, f->name);
    if (error != NULL) error->argument = n;
    at = ingot_say(error, ingot_say(error, at, ": argument "), f->params[n].name);
    return ingot_say(error, at, " ");
}

/* What a parameter is: "float32[n, 4]", or "a number (int32)". */
INGOT_CHECK size_t ingot_say_param(ingot_error *error, size_t at, const ingot_param *p)
{
    if (p->ndim < 0) return ingot_say(error, ingot_say(error, ingot_say(error, at, "a number ("), p->dtype), ")");
    at = ingot_say(error, ingot_say(error, at, p->dtype), "[");
    for (int32_t i = 0; i < p->ndim; ++i) at = ingot_say(error, ingot_say(error, at, i > 0 ? ", " : ""), p->dims[i]);
    return ingot_say(error, at, "]");
}

/* "add: argument B <problem>, expected float32[n, 4]" */
INGOT_CHECK ingot_status ingot_unfit(const ingot_function *f, int32_t n, const char *problem, ingot_status status,
    ingot_error *error)
{
    size_t at = ingot_say(error, ingot_say_argument(error, f, n), problem);
    ingot_say_param(error, ingot_say(error, at, ", expected "), &f->params[n]);
    return status;
}

/* "add: argument B has <what> <axis> = <got>, expected <name><want><advice>"; axis -1: none */
INGOT_CHECK ingot_status ingot_wrong(const ingot_function *f, int32_t n, const char *what, int32_t axis, int64_t got,
    const char *name, int64_t want, const char *advice, ingot_error *error)
{
    size_t at = ingot_say(error, ingot_say(error, ingot_say_argument(error, f, n), "has "), what);
    if (axis >= 0) at = ingot_say_int(error, ingot_say(error, at, " "), axis);
    at = ingot_say_int(error, ingot_say(error, at, " = "), got);
    at = ingot_say(error, ingot_say(error, at, ", expected "), name);
    ingot_say(error, ingot_say_int(error, at, want), advice);
    return INGOT_ERR_ARGUMENT;
}

INGOT_CHECK ingot_status ingot_wrong_count(const ingot_function *f, int32_t n_args, ingot_error *error)
{
    size_t at = ingot_say_int(error, ingot_say(error, ingot_say(error, 0, f->name), " takes "), f->n_params);
    at = ingot_say(error, at, f->n_params == 1 ? " argument (" : " arguments (");
    for (int32_t i = 0; i < f->n_params; ++i)
        at = ingot_say(error, ingot_say(error, at, i > 0 ? ", " : ""), f->params[i].name);
    ingot_say_int(error, ingot_say(error, at, "), got "), n_args);
    return INGOT_ERR_ARGUMENT;
}

INGOT_CHECK ingot_status ingot_wrong_type(const ingot_function *f, int32_t n, ingot_type got, ingot_error *error)
{
    size_t at = ingot_say(error, ingot_say_argument(error, f, n), "has dtype ");
    at = ingot_say(error, ingot_say_type(error, at, got), ", expected ");
    ingot_say(error, at, f->params[n].dtype);
    return INGOT_ERR_ARGUMENT;
}

/* The message of a failed assertion of the program itself. */
INGOT_CHECK ingot_status ingot_failed(const ingot_function *f, const char *message, ingot_error *error)
{
    ingot_say(error, ingot_say(error, ingot_say(error, 0, f->name), ": "), message);
    return INGOT_ERR_ASSERT;
}

/* ---- facts about a tensor ---------------------------------------------------------------------------------- */

/* Elements from one index of a dimension to the next; 1 where there is only one index, so that it does not matter. */
INGOT_CHECK int64_t ingot_stride(const ingot_tensor *t, int32_t axis)
{
    int64_t step = 1;
    if (t->shape[axis] == 1) return 1;
    if (t->strides != NULL) return t->strides[axis];
    for (int32_t i = t->ndim - 1; i > axis; --i) step *= t->shape[i];
    return step;
}

INGOT_CHECK uint64_t ingot_element_bytes(ingot_type type)
{
    return ((uint64_t)type.bits + 7) / 8 * type.lanes;
}

INGOT_CHECK void *ingot_data(const ingot_tensor *t)
{
    return (unsigned char *)t->data + t->byte_offset;
}

/* Elements from the first to behind the last one; -1 when they are more than `most`. Strides are positive. */
INGOT_CHECK int64_t ingot_span(const ingot_tensor *t, int64_t most)
{
    int64_t span = 1;
    for (int32_t i = t->ndim - 1; i >= 0; --i) {
        const int64_t step = t->strides == NULL ? span : t->strides[i];
        if (t->shape[i] < 1) return 0;
        if (t->shape[i] == 1) continue;
        if (step > (most - span) / (t->shape[i] - 1)) return -1;
        span += (t->shape[i] - 1) * step;
    }
    return span;
}

/* ---- checks ------------------------------------------------------------------------------------------------ */

INGOT_CHECK ingot_status ingot_check_number(const ingot_function *f, int32_t n, const ingot_arg *arg,
    ingot_error *error)
{
    const ingot_type type = f->params[n].type;
    const int is_integer = type.code == 0 || type.code == 1 || type.code == 6;
    const int bits = type.code == 6 ? 1 : type.code == 0 ? type.bits - 1 : type.bits;
    const int64_t high = bits >= 63 ? INT64_MAX : (INT64_C(1) << (bits & 63)) - 1, low = type.code == 0 ? -high - 1 : 0;
    int64_t value;
    if (arg->kind == INGOT_TENSOR) return ingot_unfit(f, n, "is a tensor", INGOT_ERR_ARGUMENT, error);
    if (!is_integer) return INGOT_OK;
    if (arg->kind != INGOT_INT) return ingot_unfit(f, n, "is no integer", INGOT_ERR_ARGUMENT, error);
    value = arg->value.integer;
    if (value < low) return ingot_wrong(f, n, "value", -1, value, "at least ", low, "", error);
    if (value > high) return ingot_wrong(f, n, "value", -1, value, "at most ", high, "", error);
    return INGOT_OK;
}

INGOT_CHECK ingot_status ingot_check_shape(const ingot_function *f, int32_t n, const ingot_tensor *t,
    ingot_error *error)
{
    const ingot_param *p = &f->params[n];
    for (int32_t i = 0; i < t->ndim; ++i) {
        const int64_t most = p->shape[i] == INGOT_DIM64 ? INT64_MAX : INT32_MAX;
        if (p->shape[i] >= 0 && t->shape[i] != p->shape[i])
            return ingot_wrong(f, n, "dimension", i, t->shape[i], "", p->shape[i], "", error);
        if (p->shape[i] < 0 && t->shape[i] < 0)
            return ingot_wrong(f, n, "dimension", i, t->shape[i], "at least ", 0, "", error);
        if (p->shape[i] < 0 && t->shape[i] > most)
            return ingot_wrong(f, n, "dimension", i, t->shape[i], "at most ", most, "", error);
    }
    return INGOT_OK;
}

/* Strides of a compact parameter are those of its shape, others positive; and all elements can be counted. */
INGOT_CHECK ingot_status ingot_check_strides(const ingot_function *f, int32_t n, const ingot_tensor *t,
    ingot_error *error)
{
    const ingot_param *p = &f->params[n];
    const int64_t most = p->is_wide ? INT64_MAX / 64 : INT32_MAX;
    int64_t step = 1;
    for (int32_t i = t->ndim - 1; i >= 0; --i) {
        if (t->shape[i] < 1) return INGOT_OK; /* no elements */
        if (t->strides != NULL && t->shape[i] > 1) {
            if (p->strides == NULL && t->strides[i] != step)
                return ingot_wrong(f, n, "stride", i, t->strides[i], "", step,
                    ": the tensor must be compact, pass a contiguous copy", error);
            if (t->strides[i] < 1)
                return ingot_wrong(f, n, "stride", i, t->strides[i], "at least ", 1, ": pass a contiguous copy", error);
        }
        if (t->shape[i] > most / step) break;
        step *= t->shape[i];
    }
    if (ingot_span(t, most) < 0) return ingot_unfit(f, n, "has more elements than its index type counts",
        INGOT_ERR_ARGUMENT, error);
    return INGOT_OK;
}

INGOT_CHECK ingot_status ingot_check_tensor(const ingot_function *f, int32_t n, const ingot_arg *arg,
    ingot_error *error)
{
    const ingot_param *p = &f->params[n];
    const ingot_tensor *t = arg->value.tensor;
    ingot_status status;
    if (arg->kind != INGOT_TENSOR) return ingot_unfit(f, n, "is a number", INGOT_ERR_ARGUMENT, error);
    if (t == NULL) return ingot_unfit(f, n, "is NULL", INGOT_ERR_NULL, error);
    if (t->device.device_type != 1)
        return ingot_wrong(f, n, "device type", -1, t->device.device_type, "", 1, ", the CPU", error);
    if (t->type.code != p->type.code || t->type.bits != p->type.bits || t->type.lanes != p->type.lanes)
        return ingot_wrong_type(f, n, t->type, error);
    if (t->ndim != p->ndim) return ingot_wrong(f, n, "ndim", -1, t->ndim, "", p->ndim, "", error);
    if (t->ndim > 0 && t->shape == NULL) return ingot_unfit(f, n, "has shape NULL", INGOT_ERR_NULL, error);
    if ((status = ingot_check_shape(f, n, t, error)) != INGOT_OK) return status;
    if ((status = ingot_check_strides(f, n, t, error)) != INGOT_OK) return status;
    if (t->data == NULL && ingot_span(t, INT64_MAX) != 0) return ingot_unfit(f, n, "has data NULL", INGOT_ERR_NULL, error);
    if ((uintptr_t)ingot_data(t) % (uintptr_t)p->align != 0)
        return ingot_wrong(f, n, "data at an address with the remainder", -1,
            (int64_t)((uintptr_t)ingot_data(t) % (uintptr_t)p->align), "a multiple of ", p->align, "", error);
    return INGOT_OK;
}

/* Whether the memory of two tensors overlaps: of strided ones only the first element counts, as rows may interleave. */
INGOT_CHECK int ingot_overlap(const ingot_tensor *a, const ingot_tensor *b, int is_strided)
{
    const uintptr_t pa = (uintptr_t)ingot_data(a), pb = (uintptr_t)ingot_data(b);
    if (is_strided) return pa == pb;
    return pa < pb + (uintptr_t)ingot_span(b, INT64_MAX) * ingot_element_bytes(b->type) &&
        pb < pa + (uintptr_t)ingot_span(a, INT64_MAX) * ingot_element_bytes(a->type);
}

/* What an output holds is nothing that another argument is read from. */
INGOT_CHECK ingot_status ingot_check_overlap(const ingot_function *f, const ingot_arg *args, ingot_error *error)
{
    for (int32_t i = 0; i < f->n_params; ++i)
        for (int32_t k = 0; k < f->n_params; ++k) {
            const ingot_param *a = &f->params[i], *b = &f->params[k];
            if (i == k || a->ndim < 0 || b->ndim < 0 || !a->is_output || (b->is_output && k < i)) continue;
            if (ingot_overlap(args[i].value.tensor, args[k].value.tensor, a->strides != NULL || b->strides != NULL)) {
                size_t at = ingot_say(error, ingot_say_argument(error, f, i), "is written, and shares memory with ");
                ingot_say(error, ingot_say(error, at, b->name), ": pass a copy of one");
                return INGOT_ERR_ARGUMENT;
            }
        }
    return INGOT_OK;
}

/* All that the description says: number and kinds of arguments, dtypes, shapes as far as they are constant, strides. */
INGOT_CHECK ingot_status ingot_check_args(const ingot_function *f, const ingot_arg *args, int32_t n_args,
    ingot_error *error)
{
    if (error != NULL) error->argument = -1;
    if (n_args != f->n_params) return ingot_wrong_count(f, n_args, error);
    if (args == NULL && n_args > 0) return ingot_wrong_count(f, 0, error);
    for (int32_t i = 0; i < n_args; ++i) {
        const ingot_status status = f->params[i].ndim < 0 ? ingot_check_number(f, i, &args[i], error)
            : ingot_check_tensor(f, i, &args[i], error);
        if (status != INGOT_OK) return status;
    }
    return ingot_check_overlap(f, args, error);
}

/* Whether a call has nothing to write: it has outputs, and all of them have no elements. */
INGOT_CHECK int ingot_is_idle(const ingot_function *f, const ingot_arg *args)
{
    int outputs = 0;
    for (int32_t i = 0; i < f->n_params; ++i) {
        if (f->params[i].ndim < 0 || !f->params[i].is_output) continue;
        if (ingot_span(args[i].value.tensor, INT64_MAX) != 0) return 0;
        outputs = 1;
    }
    return outputs;
}

/* Loops rely on it that symbolic dimensions are at least 1. */
INGOT_CHECK ingot_status ingot_check_extents(const ingot_function *f, const ingot_arg *args, ingot_error *error)
{
    for (int32_t n = 0; n < f->n_params; ++n)
        for (int32_t i = 0; i < f->params[n].ndim; ++i)
            if (f->params[n].shape[i] < 0 && args[n].value.tensor->shape[i] < 1)
                return ingot_wrong(f, n, "dimension", i, args[n].value.tensor->shape[i], "at least ", 1, "", error);
    return INGOT_OK;
}

/* A dimension that other arguments decide. name: "n * 4 = ", or "". */
INGOT_CHECK ingot_status ingot_check_dimension(const ingot_function *f, const ingot_arg *args, int32_t n, int32_t axis,
    const char *name, int64_t want, ingot_error *error)
{
    const int64_t got = args[n].value.tensor->shape[axis];
    return got == want ? INGOT_OK : ingot_wrong(f, n, "dimension", axis, got, name, want, "", error);
}

/* A stride that the parameter declares; it does not matter where the dimension has one index only. */
INGOT_CHECK ingot_status ingot_check_stride(const ingot_function *f, const ingot_arg *args, int32_t n, int32_t axis,
    const char *name, int64_t want, ingot_error *error)
{
    const ingot_tensor *t = args[n].value.tensor;
    const int64_t got = ingot_stride(t, axis);
    if (got == want || t->shape[axis] == 1) return INGOT_OK;
    return ingot_wrong(f, n, "stride", axis, got, name, want, "", error);
}

/* A floating-point argument; integers convert. */
INGOT_CHECK double ingot_number(const ingot_arg *arg)
{
    return arg->kind == INGOT_INT ? (double)arg->value.integer : arg->value.real;
}

INGOT_CHECK ingot_status ingot_check_workspace(const ingot_function *f, const void *workspace, size_t have, size_t need,
    ingot_error *error)
{
    size_t at = ingot_say(error, 0, f->name);
    if (have >= need && workspace != NULL && (uintptr_t)workspace % 64 == 0) return INGOT_OK;
    at = ingot_say_int(error, ingot_say(error, at, ": the workspace has "), (int64_t)(workspace == NULL ? 0 : have));
    at = ingot_say_int(error, ingot_say(error, at, " bytes, expected "), (int64_t)need);
    ingot_say(error, at, " at a multiple of 64");
    return INGOT_ERR_WORKSPACE;
}

#endif /* INGOT_ENTRY_H */
