/* bench/load_shape.c — the bytes of a request, encoded once; see load_h2.h. */
#include "load_h2.h"

#define STATIC_AUTHORITY    1u /* rows of the static table of HPACK (RFC 7541, appendix A) */
#define STATIC_POST         3u
#define STATIC_PATH         4u
#define STATIC_SCHEME_HTTP  6u
#define STATIC_CONTENT_TYPE 31u
#define STATIC_USER_AGENT   58u
#define DYNAMIC_FIRST       62u

static void put(struct as_buf *b, unsigned byte)
{
    as_buf_add(b, &(uint8_t){(uint8_t)byte}, 1);
}

/* A string literal without Huffman coding (RFC 7541, 5.2). A length of 127 and more would need more
 * bytes than one. */
static void put_text(struct as_buf *b, const char *text)
{
    AS_ASSERT(strlen(text) < 127);
    put(b, (unsigned)strlen(text));
    as_buf_str(b, text);
}

/* As grpc's own clients do: every field enters the dynamic table once and is an index from then on.
 */
static void encode_head(struct as_load_shape *s, const struct as_load_options *o)
{
    char timeout[32];
    const struct {
        unsigned row;
        const char *name, *value;
    } fields[] = {
        {STATIC_PATH, NULL, "/inference.GRPCInferenceService/ModelInfer"},
        {STATIC_AUTHORITY, NULL, o->authority},
        {0, "te", "trailers"},
        {STATIC_CONTENT_TYPE, NULL, "application/grpc"},
        {STATIC_USER_AGENT, NULL, "anyserve-bench"},
        {0, "grpc-timeout", timeout},
    };
    unsigned n = (unsigned)AS_COUNT(fields) - (o->timeout_ms ? 0 : 1);

    snprintf(timeout, sizeof(timeout), "%um", o->timeout_ms);
    put(&s->head, 0x80 | STATIC_POST);
    put(&s->head, 0x80 | STATIC_SCHEME_HTTP);
    put(&s->head_next, 0x80 | STATIC_POST);
    put(&s->head_next, 0x80 | STATIC_SCHEME_HTTP);
    for (unsigned i = 0; i < n; i++) {
        /* literal with incremental indexing (6.2.1), and from then on an index (6.1): the newest
         * entry has the lowest */
        put(&s->head, 0x40 | fields[i].row);
        if (!fields[i].row)
            put_text(&s->head, fields[i].name);
        put_text(&s->head, fields[i].value);
        put(&s->head_next, 0x80 | (DYNAMIC_FIRST + n - 1 - i));
    }
}

static void put_varint(struct as_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put(b, (unsigned)(v & 0x7f) | 0x80);
    put(b, (unsigned)v);
}

static void put_field(struct as_buf *b, unsigned number, const void *p, size_t n)
{
    put(b, number << 3 | 2);
    put_varint(b, n);
    as_buf_add(b, p, n);
}

/* ModelInferRequest.InferInputTensor: name, datatype, shape. */
static void put_input(struct as_buf *message, const char *name, const uint64_t *dims, size_t n_dims)
{
    struct as_buf shape, input;

    as_buf_init(&shape);
    as_buf_init(&input);
    for (size_t i = 0; i < n_dims; i++)
        put_varint(&shape, dims[i]);
    put_field(&input, 1, name, strlen(name));
    put_field(&input, 2, "FP32", 4);
    put_field(&input, 3, shape.p, shape.n);
    put_field(message, 5, input.p, input.n);
    as_buf_fini(&input);
    as_buf_fini(&shape);
}

/* One input: "x" [1, n], any bytes. Two: "a" and "b" [n], small whole numbers, so that sums are
 * exact. */
static void encode_inputs(struct as_load_shape *s, const struct as_load_options *o,
                          struct as_buf *message)
{
    size_t n = o->payload / sizeof(float);
    float *a = as_xalloc(o->payload), *b = as_xalloc(o->payload);
    uint8_t *x = as_xalloc(o->payload);

    for (size_t i = 0; i < o->payload; i++)
        /* no period of 2^k: a shifted or repeated block would show */
        x[i] = (uint8_t)(i * 131 + (i >> 8));
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1000);
        b[i] = (float)(i * 7 % 1000);
    }
    if (o->inputs == 1) {
        put_input(message, "x", (uint64_t[]){1, n}, 2);
        put_field(message, 7, x, o->payload);
    } else {
        put_input(message, "a", (uint64_t[]){n}, 1);
        put_input(message, "b", (uint64_t[]){n}, 1);
        put_field(message, 7, a, o->payload);
        put_field(message, 7, b, o->payload);
    }
    memcpy(s->answer, o->inputs == 1 ? x : (uint8_t *)b, o->payload);
    for (size_t i = 0; i < n && o->is_sum; i++) {
        float sum = a[i] + b[i];

        memcpy(s->answer + i * sizeof(sum), &sum, sizeof(sum));
    }
    if (o->is_sum)
        memcpy(s->stamp_add, a, sizeof(s->stamp_add)); /* the stamp lies over b */
    free(x);
    free(b);
    free(a);
}

/* ModelInferRequest: model_name, the inputs, their bytes in raw_input_contents. */
static void encode_body(struct as_load_shape *s, const struct as_load_options *o)
{
    struct as_buf message;

    as_buf_init(&message);
    put_field(&message, 1, o->model, strlen(o->model));
    encode_inputs(s, o, &message);
    /* gRPC's prefix: not compressed, length in four bytes */
    put(&s->body, 0);
    for (unsigned shift = 32; shift > 0; shift -= 8)
        put(&s->body, (unsigned)(message.n >> (shift - 8)) & 0xff);
    as_buf_add(&s->body, message.p, message.n);
    as_buf_fini(&message);
}

void as_load_shape_init(struct as_load_shape *s, const struct as_load_options *o)
{
    *s = (struct as_load_shape){.streams = o->streams,
                                .is_open = o->is_open,
                                .payload = o->payload,
                                .answer = as_xalloc(o->payload)};
    encode_head(s, o);
    encode_body(s, o);
}

void as_load_shape_fini(struct as_load_shape *s)
{
    as_buf_fini(&s->head);
    as_buf_fini(&s->head_next);
    as_buf_fini(&s->body);
    free(s->answer);
}
