/* fuzz/f_oip.c — any bytes as a ModelInferRequest, a name/version request, and as responses that a
 * client parses.
 *
 * An accepted request is as wire/oip/oip.h promises and fits a frame of the link. Its inputs,
 * written as a response, have exactly the computed length and parse again.
 */
#include "wire/oip/oip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Volatile, so that the compiler keeps the reads below, which a sanitizer checks. */
static volatile unsigned sink;

static void touch(const void *p, size_t n)
{
    const uint8_t *b = p;
    unsigned sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += b[i];
    sink = sum;
}

/* Inputs in shared memory have a size but no data yet. Gives them zeros, so that the other checks
 * apply. False: too many bytes. */
static bool fill_ranges(struct as_oip_infer *r, struct as_arena *a)
{
    struct as_tensor *t = as_arena_alloc(a, r->n_inputs * sizeof(*t) + 1, 8);

    for (uint32_t i = 0; i < r->n_outputs; i++)
        AS_ASSERT(!r->outputs[i].range.region.n || !r->outputs[i].classification);
    if (!r->ranges)
        return true;
    AS_ASSERT(t);
    memcpy(t, r->inputs, r->n_inputs * sizeof(*t));
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        uint8_t *p;

        if (!r->ranges[i].region.n)
            continue;
        AS_ASSERT(!t[i].data && t[i].nbytes == r->ranges[i].size);
        touch(r->ranges[i].region.p, r->ranges[i].region.n);
        if (t[i].nbytes > 4096 || t[i].dtype == AS_DT_BYTES)
            return false;
        p = as_arena_alloc(a, t[i].nbytes + 1, 1);
        AS_ASSERT(p);
        memset(p, 0, t[i].nbytes);
        t[i].data = p;
    }
    r->inputs = t;
    return true;
}

/* The SDK's zero-copy views depend on this: the length is exactly the number of elements times
 * their size. */
static void check_inputs(const struct as_oip_infer *r)
{
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        const struct as_tensor *t = &r->inputs[i];
        uint64_t n;

        /* an unknown datatype must be refused */
        AS_ASSERT(t->name.n && t->dtype != AS_DT_INVALID);
        AS_ASSERT(as_tensor_elements(t->dtype, t->shape, t->ndim, &n) == 0);
        if (t->dtype == AS_DT_BYTES)
            AS_ASSERT(as_tensor_check_bytes(t->data, t->nbytes, n) == 0);
        else
            AS_ASSERT(t->nbytes == n * as_dtype_size(t->dtype));
        touch(t->name.p, t->name.n);
        touch(t->data, t->nbytes);
    }
}

/* The three ways to compute the length must agree: edge/infer/infer puts the first into the gRPC
 * prefix and sends the last. A difference would shift every later message. */
static void check_response(const struct as_oip_infer *r)
{
    struct as_oip_response out = {.model = r->model,
                                  .version = r->version,
                                  .id = r->id,
                                  .outputs = r->inputs,
                                  .n_outputs = r->n_inputs,
                                  .params = r->params,
                                  .n_params = r->n_params,
                                  .tensor_params = r->tensor_params};
    uint64_t n = as_oip_response_len(&out), sum = as_oip_response_head_len(&out);
    uint8_t head[AS_OIP_RAW_HEAD_MAX], *p;

    AS_ASSERT(n != UINT64_MAX);
    for (uint32_t i = 0; i < r->n_inputs; i++)
        sum += as_oip_put_raw_head(head, r->inputs[i].nbytes) + r->inputs[i].nbytes;
    AS_ASSERT(sum == n);
    p = malloc(n ? n : 1); /* exactly the size: a sanitizer detects a write beyond it */
    AS_ASSERT(p);
    as_oip_put_response(p, &out);
    touch(p, n);
    free(p);
}

/* An accepted request can be sent to a worker, which gets the same request. */
static void check_link(const struct as_oip_infer *r)
{
    struct as_msg in = {.id = r->id,
                        .tensors = r->inputs,
                        .params = r->params,
                        .n_tensors = r->n_inputs,
                        .n_params = r->n_params};
    /* no memory budget here: an accepted request must fit a frame, or it would be refused only
     * after admission */
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR, .tensor_params = r->tensor_params}, m;
    struct as_arena a;
    struct as_frame f;
    struct as_outq q;
    struct as_msg msg;
    struct iovec v;
    const char *why;

    as_outq_init(&q);
    as_arena_init(&a, NULL, 0);
    AS_ASSERT(as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &fixed, &in, NULL) == 0);
    AS_ASSERT(as_outq_iov(&q, &v, 1) == 1);
    AS_ASSERT(as_frame_next(v.iov_base, v.iov_len, &f) > 0);
    AS_ASSERT(as_frame_get_msg(&f, &a, &m, &msg, &why) == 0);
    AS_ASSERT(msg.n_tensors == r->n_inputs && msg.n_params == r->n_params);
    AS_ASSERT(m.tensor_params.n == r->tensor_params.n);
    as_arena_fini(&a);
    as_outq_fini(&q);
}

/* The outputs of an accepted response are checked like a request's inputs. */
static void check_answers(const uint8_t *data, size_t size, struct as_arena *a)
{
    struct as_oip_infer as_inputs = {0};
    struct as_oip_response r;
    struct as_oip_model m;
    char why[64];

    if (as_oip_parse_response(data, size, a, &r, why, sizeof(why)) == 0) {
        as_inputs.inputs = r.outputs;
        as_inputs.n_inputs = r.n_outputs;
        check_inputs(&as_inputs);
    }
    if (as_oip_parse_model(data, size, a, &m) == 0) {
        for (uint32_t i = 0; i < m.n_inputs + m.n_outputs; i++) {
            const struct as_tensor_spec *s =
                i < m.n_inputs ? &m.inputs[i] : &m.outputs[i - m.n_inputs];

            AS_ASSERT(s->ndim <= AS_MAX_DIMS);
            touch(s->shape, s->ndim * sizeof(*s->shape));
            touch(s->name.p, s->name.n);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_str name, version;
    struct as_oip_infer r;
    struct as_arena a;
    char why[64];
    int err;

    as_arena_init(&a, NULL, 0);
    err = as_oip_parse_infer(data, size, &a, &r, why, sizeof(why));
    if (err == 0 && !fill_ranges(&r, &a)) {
        /* nothing more to check */
    } else if (err == 0) {
        check_inputs(&r);
        check_response(&r);
        check_link(&r);
        touch(r.model.p, r.model.n);
        touch(r.version.p, r.version.n);
        /* Every refusal says why, within the buffer it was given: it becomes the client's
         * grpc-message.
         */
    } else {
        AS_ASSERT(err == AS_EINVALID || err == AS_EPROTO || err == AS_ENOMEM);
        AS_ASSERT(strlen(why) > 0 && strlen(why) < sizeof(why));
    }
    check_answers(data, size, &a);
    as_arena_fini(&a);
    if (as_oip_parse_name_version(data, size, &name, &version) == 0) {
        touch(name.p, name.n);
        touch(version.p, version.n);
    }
    return 0;
}
