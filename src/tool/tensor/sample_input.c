#include "tool/tensor/sample_input.h"

#include "tool/tensor/number.h"

#define WORD_LEN 8u /* bytes of a BYTES element */

static void add_word(struct as_buf *b, struct as_rand *r)
{
    uint32_t len = WORD_LEN;

    as_buf_add(b, &len, 4);
    for (uint32_t i = 0; i < WORD_LEN; i++)
        as_buf_add(b, &(char){(char)('a' + as_rand_below(r, 26))}, 1);
}

static void add_number(struct as_buf *b, enum as_dtype t, struct as_rand *r)
{
    char text[8];
    uint8_t bytes[8];

    snprintf(text, sizeof(text), "%u", (unsigned)as_rand_below(r, t == AS_DT_BOOL ? 2 : 100));
    AS_ASSERT(as_number_read(t, as_str_of(text), bytes) == 0);
    as_buf_add(b, bytes, as_dtype_size(t));
}

int as_sample_input_make(const struct as_tensor_spec *spec, uint64_t any_size, struct as_rand *r,
                         struct as_input *in, struct as_buf *why)
{
    size_t size = spec->dtype == AS_DT_BYTES ? 4 + WORD_LEN : as_dtype_size(spec->dtype);
    uint32_t ndim = spec->ndim == AS_ANY_RANK ? 0 : spec->ndim;
    uint64_t n;

    in->tensor = (struct as_tensor){
        .name = spec->name, .dtype = spec->dtype, .ndim = ndim, .shape = in->shape};
    for (uint32_t i = 0; i < ndim; i++)
        in->shape[i] = spec->shape[i] < 0 ? (int64_t)any_size : spec->shape[i];
    if (spec->dtype == AS_DT_INVALID) {
        as_buf_printf(why, "input '%.*s' has an unknown datatype: give its value with --input",
                      AS_STR_FMT(spec->name));
        return AS_EINVALID;
    }
    if (as_tensor_elements(spec->dtype, in->shape, ndim, &n) || n > AS_SAMPLE_INPUT_MAX / size) {
        as_buf_printf(why,
                      "input '%.*s' would be over %llu bytes: use a smaller --any-size, or --input",
                      AS_STR_FMT(spec->name), (unsigned long long)AS_SAMPLE_INPUT_MAX);
        return AS_EINVALID;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (spec->dtype == AS_DT_BYTES)
            add_word(&in->data, r);
        else
            add_number(&in->data, spec->dtype, r);
    }
    in->tensor.data = in->data.p;
    in->tensor.nbytes = in->data.n;
    return 0;
}
