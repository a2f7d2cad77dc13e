/* Reads the elements of tensors whose data are in the JSON text. All of them share one allocation,
 * in which each is 64-byte aligned. */
#include "wire/oip/oip_json_internal.h"

/* An element takes at least one byte and a separator. If the shape has more elements than the text
 * can hold, no memory is allocated, and the elements are only counted for the error. */
static bool fits_in_text(const struct as_oip_json_source *s)
{
    return s->elements <= s->len / 2 + 1;
}

static uint64_t bytes_needed(const struct as_tensor *t, const struct as_oip_json_source *s)
{
    if (t->dtype == AS_DT_BYTES)
        return AS_JSON_BYTES_ROOM(s->len);
    return fits_in_text(s) ? s->elements * as_dtype_size(t->dtype) : 0;
}

static int read_tensor_data(struct as_oip_json_parse *q, uint32_t i, uint8_t *out, uint64_t room)
{
    struct as_oip_json_source *s = &q->sources[i];
    struct as_tensor *t = &q->tensors[i];
    uint64_t max = fits_in_text(s) ? s->elements : 0;
    char text[AS_OIP_SHAPE_TEXT];
    struct as_json_elements e;
    int err = as_json_elements(q->j, &s->data, t->dtype, max, out, (size_t)room, &e);

    if (err == AS_EINVALID)
        return as_oip_json_refuse_tensor(q, i, "%s", e.why);
    if (err)
        return as_oip_json_reader_error(q, err, "");
    if (!e.ndim && t->ndim && !s->allow_scalar)
        return as_oip_json_refuse_tensor(q, i, "data must be an array");
    if (e.count != s->elements)
        return as_oip_json_refuse_tensor(q, i, "%llu elements in data, shape %s needs %llu",
                                         (unsigned long long)e.count, as_oip_shape_text(text, t),
                                         (unsigned long long)s->elements);
    t->data = out;
    t->nbytes = e.bytes;
    return 0;
}

int as_oip_json_fill(struct as_oip_json_parse *q, struct as_blob **ret_blob)
{
    struct as_blob *blob = NULL;
    uint64_t total = 0;
    uint8_t *out;
    int err = 0;

    for (uint32_t i = 0; i < q->n_tensors; i++) {
        if (!q->sources[i].has_data)
            continue;
        total += AS_ALIGN(bytes_needed(&q->tensors[i], &q->sources[i]), AS_BLOB_ALIGN);
        if (total > q->c.typed_max)
            return as_oip_json_refuse_tensor(
                q, i, "the data take too much memory; send them as binary data");
    }
    if (total > AS_COPY_MAX)
        blob = as_blob_new((size_t)total);
    out = total <= AS_COPY_MAX ? as_arena_alloc(q->c.arena, (size_t)total, AS_BLOB_ALIGN)
          : blob               ? blob->data
                               : NULL;
    if (!out)
        return as_oip_json_reader_error(q, AS_ENOMEM, "");
    for (uint32_t i = 0; i < q->n_tensors && !err; i++) {
        uint64_t room = bytes_needed(&q->tensors[i], &q->sources[i]);

        if (!q->sources[i].has_data)
            continue;
        err = read_tensor_data(q, i, out, room);
        out += AS_ALIGN(room, AS_BLOB_ALIGN);
    }
    if (err) {
        as_blob_unref(blob);
        return err;
    }
    q->c.typed_bytes += total;
    *ret_blob = blob;
    return 0;
}
