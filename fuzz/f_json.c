/* fuzz/f_json.c — any bytes as JSON: reading and skipping accept the same texts, and results
 * are as wire/json/json.h promises.
 *
 * The first byte selects the datatype for reading the text as elements of a tensor.
 */
#include "wire/json/json.h"
#include "wire/name_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct as_json *reader;

/* Reads all values, each with the reader of its type. 0 or AS_EPROTO. */
static int read_all(struct as_json_value *v)
{
    struct as_json_value again = *v;
    struct as_json_items it;
    struct as_str s;
    int more, err;
    double d;
    int64_t i;
    bool b;

    switch (v->type) {
    case AS_JSON_STRING:
        err = as_json_string(reader, v, &s);
        AS_ASSERT(err || as_name_check_utf8(s));
        return err;
    case AS_JSON_BOOL:
        return as_json_bool(reader, v, &b);
    case AS_JSON_NUMBER:
        err = as_json_i64(reader, v, &i);
        if (err == AS_EINVALID)
            err = as_json_f64(reader, &again, &d);
        return err == AS_EINVALID ? 0 : err; /* 1e999 */
    case AS_JSON_NULL:
        return as_json_skip(reader, v);
    case AS_JSON_ARRAY:
    case AS_JSON_OBJECT:
    default:
        break;
    }
    err = as_json_items(reader, v, &it);
    if (err)
        return err;
    while ((more = as_json_next(reader, &it)) > 0) {
        AS_ASSERT(as_name_check_utf8(it.key));
        err = read_all(&it.value);
        if (err)
            return err;
    }
    return more;
}

static int walk(struct as_arena *a, const uint8_t *p, size_t n, bool read)
{
    struct as_json_value root;
    int err = as_json_open(reader, a, p, n, &root);

    if (!err)
        err = read ? read_all(&root) : as_json_skip(reader, &root);
    if (!err)
        err = as_json_expect_end(reader);
    as_json_close(reader);
    AS_ASSERT(err == 0 || err == AS_EPROTO);
    AS_ASSERT(!err || strlen(as_json_why(reader)) > 0);
    return err;
}

/* Reads the text as elements into a block of exactly the documented size. The printed elements must
 * read the same again. */
static void elements(struct as_arena *a, enum as_dtype t, const uint8_t *p, size_t n)
{
    size_t room = t == AS_DT_BYTES ? AS_JSON_BYTES_ROOM(n) : (n / 2 + 1) * as_dtype_size(t);
    uint8_t *out = malloc(room), *text, *again;
    struct as_json_elements e, e2;
    struct as_json_value root;
    uint64_t max;
    size_t len, room2;
    int err = as_json_open(reader, a, p, n, &root);

    if (!err) {
        err = as_json_elements(reader, &root, t, n / 2 + 1, out, room, &e);
        AS_ASSERT(err != AS_EINVALID || strlen(e.why) > 0);
    }
    as_json_close(reader);
    if (!err) {
        max = as_json_elements_max(t, out, e.bytes);
        AS_ASSERT(max != UINT64_MAX);
        text = calloc(1, max + 2 + AS_JSON_PADDING);
        text[0] = '[';
        len = as_json_put_elements(text + 1, t, out, e.bytes);
        AS_ASSERT(len <= max);
        text[len + 1] = ']';
        room2 = t == AS_DT_BYTES ? AS_JSON_BYTES_ROOM(len + 2) : e.bytes;
        again = malloc(room2);
        AS_ASSERT(as_json_open(reader, a, text, len + 2, &root) == 0);
        AS_ASSERT(as_json_elements(reader, &root, t, e.count, again, room2, &e2) == 0);
        AS_ASSERT(as_json_expect_end(reader) == 0);
        as_json_close(reader);
        AS_ASSERT(e2.count == e.count && e2.bytes == e.bytes && !memcmp(out, again, e.bytes));
        free(again);
        free(text);
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_arena a;
    uint8_t *p;
    int err;

    if (!size)
        return 0;
    if (!reader)
        reader = as_json_new();
    p = malloc(size - 1 + AS_JSON_PADDING);
    memcpy(p, data + 1, size - 1);
    memset(p + size - 1, data[0], AS_JSON_PADDING); /* any value: the padding must not matter */
    as_arena_init(&a, NULL, 0);
    err = walk(&a, p, size - 1, false);
    AS_ASSERT(walk(&a, p, size - 1, true) == err);
    elements(&a, (enum as_dtype)(1 + data[0] % (AS_DT_COUNT - 1)), p, size - 1);
    as_arena_fini(&a);
    free(p);
    return 0;
}
