/* bench/load_shape.c — the bytes of a request, encoded once; see load_h2.h. */
#include "load_h2.h"
#include "wire/grpc/grpc.h"
#include "wire/oip/oip.h"

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

static struct as_tensor input(const char *name, const int64_t *shape, uint32_t ndim,
                              const void *data)
{
    size_t n = sizeof(float);

    for (uint32_t i = 0; i < ndim; i++)
        n *= (size_t)shape[i];
    return (struct as_tensor){.name = as_str_of(name),
                              .dtype = AS_DT_FP32,
                              .ndim = ndim,
                              .shape = shape,
                              .data = data,
                              .nbytes = n};
}

/* gRPC's prefix, and ModelInferRequest with the inputs' bytes in raw_input_contents. */
static void put_message(struct as_buf *b, const char *model, const struct as_tensor *inputs,
                        uint32_t n_inputs)
{
    struct as_oip_request r = {
        .head = {.model = as_str_of(model), .outputs = inputs, .n_outputs = n_inputs}};
    size_t n = as_oip_request_len(&r);

    as_grpc_prefix(as_buf_reserve(b, AS_GRPC_PREFIX + n), (uint32_t)n);
    as_oip_put_request(b->p + AS_GRPC_PREFIX, &r);
    b->n = AS_GRPC_PREFIX + n;
}

/* One input: "x" [1, n], any bytes. Two: "a" and "b" [n], small whole numbers, so that sums are
 * exact. */
static void encode_body(struct as_load_shape *s, const struct as_load_options *o)
{
    int64_t n = (int64_t)(o->payload / sizeof(float));
    float *a = as_xalloc(o->payload), *b = as_xalloc(o->payload);
    uint8_t *x = as_xalloc(o->payload);
    const struct as_tensor one = input("x", (int64_t[]){1, n}, 2, x);
    const struct as_tensor two[] = {input("a", &n, 1, a), input("b", &n, 1, b)};

    for (size_t i = 0; i < o->payload; i++)
        /* no period of 2^k: a shifted or repeated block would show */
        x[i] = (uint8_t)(i * 131 + (i >> 8));
    for (int64_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1000);
        b[i] = (float)(i * 7 % 1000);
    }
    put_message(&s->body, o->model, o->inputs == 1 ? &one : two, o->inputs);
    memcpy(s->answer, o->inputs == 1 ? x : (uint8_t *)b, o->payload);
    for (int64_t i = 0; i < n && o->is_sum; i++) {
        float sum = a[i] + b[i];

        memcpy(s->answer + (size_t)i * sizeof(sum), &sum, sizeof(sum));
    }
    if (o->is_sum)
        memcpy(s->stamp_add, a, sizeof(s->stamp_add)); /* the stamp lies over b */
    free(x);
    free(b);
    free(a);
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
