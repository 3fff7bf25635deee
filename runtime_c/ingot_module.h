/* ingot_module.h: how functions built by Ingot are called - tensors, arguments, errors, descriptions.
 *
 *   float x[8], y[8];
 *   int64_t shape[] = {8};
 *   ingot_tensor tx = ingot_tensor_of(x, INGOT_FLOAT32, 1, shape), ty = ingot_tensor_of(y, INGOT_FLOAT32, 1, shape);
 *   ingot_arg args[] = {ingot_arg_tensor(&tx), ingot_arg_tensor(&ty)};
 *   ingot_error error;
 *   if (double_it(args, 2, NULL, 0, &error) != INGOT_OK) puts(error.text);
 *
 * C99 and C++. As ingot.h, nothing here allocates, prints, aborts or keeps state. */
#ifndef INGOT_MODULE_H
#define INGOT_MODULE_H

#include "ingot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tensors: in memory the same as DLPack's DLDataType, DLDevice and DLTensor ------------------------------ */

typedef struct ingot_type {
    uint8_t code; /* 0 int, 1 uint, 2 float, 3 handle, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2 */
    uint8_t bits;
    uint16_t lanes;
} ingot_type;

typedef struct ingot_device {
    int32_t device_type; /* 1: the CPU */
    int32_t device_id;
} ingot_device;

typedef struct ingot_tensor {
    void *data;
    ingot_device device;
    int32_t ndim;
    ingot_type type;
    int64_t *shape;   /* [ndim] */
    int64_t *strides; /* [ndim], in elements; NULL: compact and row-major */
    uint64_t byte_offset;
} ingot_tensor;

/* A compact tensor in the CPU's memory. */
INGOT_INLINE ingot_tensor ingot_tensor_of(void *data, ingot_dtype dtype, int32_t ndim, int64_t *shape)
{
    /* By ingot_dtype; the first is none. */
    static const ingot_type types[] = {{3, 0, 0}, {2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {4, 16, 1}, {0, 8, 1}, {0, 16, 1},
        {0, 32, 1}, {0, 64, 1}, {1, 8, 1}, {1, 16, 1}, {1, 32, 1}, {1, 64, 1}, {6, 8, 1}};
    ingot_tensor t;
    t.data = data;
    t.device.device_type = 1;
    t.device.device_id = 0;
    t.ndim = ndim;
    t.type = types[(int)dtype > 0 && (int)dtype <= INGOT_BOOL ? (int)dtype : 0];
    t.shape = shape;
    t.strides = NULL;
    t.byte_offset = 0;
    return t;
}

/* ---- arguments and errors ---------------------------------------------------------------------------------- */

typedef enum ingot_kind { INGOT_TENSOR = 0, INGOT_INT = 1, INGOT_REAL = 2, INGOT_TEXT = 3 } ingot_kind;

/* One argument: a tensor, an integer (also a bool), a floating-point number or a text, as kind says. */
typedef struct ingot_arg {
    int32_t kind;
    union {
        const ingot_tensor *tensor;
        int64_t integer;
        double real;
        const char *text; /* UTF-8 */
    } value;
} ingot_arg;

/* What ingot_arg_tensor takes: a compact tensor at `data`, of a type with these code and bits, and its shape. */
#define INGOT_DENSE(data, code, bits, ndim, ...) \
    (&(const ingot_tensor){(void *)(data), {1, 0}, (ndim), {(code), (bits), 1}, (int64_t[]){__VA_ARGS__}, NULL, 0})

INGOT_INLINE ingot_arg ingot_arg_tensor(const ingot_tensor *tensor)
{
    ingot_arg arg;
    arg.kind = INGOT_TENSOR;
    arg.value.tensor = tensor;
    return arg;
}

INGOT_INLINE ingot_arg ingot_arg_int(int64_t value)
{
    ingot_arg arg;
    arg.kind = INGOT_INT;
    arg.value.integer = value;
    return arg;
}

INGOT_INLINE ingot_arg ingot_arg_real(double value)
{
    ingot_arg arg;
    arg.kind = INGOT_REAL;
    arg.value.real = value;
    return arg;
}

INGOT_INLINE ingot_arg ingot_arg_text(const char *text)
{
    ingot_arg arg;
    arg.kind = INGOT_TEXT;
    arg.value.text = text;
    return arg;
}

/* Why a call did nothing (or, after INGOT_ERR_ASSERT, stopped): one English sentence that names the argument. */
typedef struct ingot_error {
    int32_t argument; /* its position; -1: none */
    char text[252];   /* cut where it would be longer */
} ingot_error;

/* A function: n_args arguments in declared order; workspace_bytes of memory at a multiple of 64 that it may use during
 * the call (NAME_workspace_bytes says how many; NULL and 0 where it needs none); error may be NULL. Arguments are
 * checked before anything is computed. */
typedef ingot_status (*ingot_entry)(const ingot_arg *args, int32_t n_args, void *workspace, size_t workspace_bytes,
    ingot_error *error);

/* ---- descriptions ------------------------------------------------------------------------------------------ */

/* In ingot_param.shape: a dimension that the arguments decide, held in 32 or 64 bits. */
#define INGOT_DIM32 (-1)
#define INGOT_DIM64 (-2)

typedef struct ingot_param {
    const char *name;
    const char *dtype;          /* "float32" */
    ingot_type type;
    int32_t ndim;               /* -1: a number, no tensor */
    const int64_t *shape;       /* [ndim]; constants, INGOT_DIM32 or INGOT_DIM64 */
    const char *const *dims;    /* [ndim]; the same as text: "128", "n", "n * 4" */
    const char *const *strides; /* [ndim]; NULL: compact */
    int32_t align;              /* bytes that the address of the data must be a multiple of */
    int32_t is_output;          /* 1: the function writes it; 2: a tensor of one element, which the function returns */
    int32_t is_wide;            /* whether elements are counted in 64 bits, not 32 */
} ingot_param;

typedef struct ingot_function {
    const char *name;
    int32_t n_params;
    const ingot_param *params;
    ingot_entry call;
    /* Bytes of workspace that a call with these arguments needs; 0 when they do not fit. NULL: never any. */
    size_t (*workspace_bytes)(const ingot_arg *args, int32_t n_args);
} ingot_function;

/* What a shared library holds under the name ingot_module_info. abi and struct_bytes stay first in every version. */
typedef struct ingot_module {
    uint32_t abi;
    uint32_t struct_bytes;
    const char *target;
    const char *entry; /* the function that stands for the module; "" when there is none */
    int32_t n_functions;
    const ingot_function *const *functions; /* [n_functions] */
} ingot_module;

#ifdef __cplusplus
}
#endif

#endif /* INGOT_MODULE_H */
