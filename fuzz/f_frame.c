/* fuzz/f_frame.c — a hostile peer on the link: any bytes through the frame decoders.
 *
 * The input is cut into frames; each known frame goes through its decoder, and every byte of the
 * decoder's output is read. A frame that was accepted is encoded again, and must come out the same.
 */
#include "base/buf.h"
#include "base/err.h"
#include "wire/frame/frame_call.h"
#include "wire/frame/frame_policy.h"
#include "wire/frame/frame_router.h"
#include "wire/frame/frame_services.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Volatile, so that the reads below are not optimised away: they are what a sanitizer watches. */
static volatile unsigned sink;

static void touch(const void *p, size_t n)
{
    const uint8_t *b = p;
    unsigned sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += b[i];
    sink = sum;
}

static void touch_str(struct as_str s)
{
    touch(s.p, s.n);
}

/* Reads every slice of the decoder's output, as the link does. `inside`: the body is in the frame,
 * so the tensors' bytes can be read, too. */
static void touch_msg(const struct as_msg *msg, const struct as_tensor_params *own, bool inside)
{
    touch_str(msg->id);
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];

        touch_str(t->name);
        touch(t->shape, 8 * (size_t)t->ndim);
        if (inside)
            touch(t->data, t->nbytes);
        /* a datatype that was accepted is a valid index for the tables */
        AS_ASSERT(as_dtype_of(as_str_of(as_dtype_name(t->dtype))) == t->dtype);
    }
    for (uint32_t i = 0; i < msg->n_params; i++) {
        touch_str(msg->params[i].name);
        if (msg->params[i].type == AS_PARAM_STRING)
            touch_str(msg->params[i].str);
    }
    for (uint32_t i = 0; i < own->n; i++) {
        AS_ASSERT(own->at[i].tensor < msg->n_tensors);
        touch_str(own->at[i].param.name);
        if (own->at[i].param.type == AS_PARAM_STRING)
            touch_str(own->at[i].param.str);
    }
    for (uint32_t i = 0; i < msg->n_meta; i++) {
        touch_str(msg->meta[i].key);
        touch_str(msg->meta[i].value);
    }
}

/* Bodies that follow in frames of their own are not rebuilt: their size is only a claim. */
static void message(const struct as_frame *f)
{
    struct as_frame_msg m;
    struct as_arena a;
    struct as_outq q;
    struct as_msg msg;
    const char *why;

    as_arena_init(&a, NULL, 0);
    if (as_frame_get_msg(f, &a, &m, &msg, &why) == 0) {
        bool inside = m.body || !m.body_len;

        touch_msg(&msg, &m.tensor_params, inside);
        /* Encodes again: an accepted message has exactly one encoding. A second one could bypass a
         * check that is made on the first. */
        if (inside) {
            struct iovec v;
            struct as_frame again;

            as_outq_init(&q);
            AS_ASSERT(as_frame_put_msg(&q, f->type, f->stream, &m, &msg, NULL) == 0);
            AS_ASSERT(as_outq_iov(&q, &v, 1) == 1);
            AS_ASSERT(as_frame_next(v.iov_base, v.iov_len, &again) == (int64_t)v.iov_len);
            AS_ASSERT(again.n == f->n);
            /* without the padding, which may be anything */
            AS_ASSERT(memcmp(again.p, f->p, AS_FRAME_FIXED) == 0);
            as_outq_fini(&q);
        }
    } else {
        /* the link logs it when it ends the worker */
        AS_ASSERT(why);
    }
    as_arena_fini(&a);
}

/* A declared signature lives as long as the deployment: its slices must be complete. */
static void touch_specs(const struct as_tensor_spec *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        touch_str(s[i].name);
        if (s[i].ndim != AS_ANY_RANK)
            touch(s[i].shape, 8 * (size_t)s[i].ndim);
        for (uint32_t k = 0; k < s[i].n_labels; k++)
            touch_str(s[i].labels[k]);
    }
}

static void registration(const struct as_frame *f)
{
    struct as_frame_register r;
    struct as_frame again;
    struct as_arena a;
    struct as_outq q;
    struct iovec v;
    const char *why;

    as_arena_init(&a, NULL, 0);
    /* as for messages: what is accepted is encoded again and is as long */
    if (as_frame_get_register(f, &a, &r, &why) == 0) {
        touch_str(r.name);
        touch_str(r.version);
        touch_str(r.platform);
        touch_specs(r.inputs, r.n_inputs);
        touch_specs(r.outputs, r.n_outputs);
        as_outq_init(&q);
        AS_ASSERT(as_frame_put_register(&q, &r) == 0);
        AS_ASSERT(as_outq_iov(&q, &v, 1) == 1);
        AS_ASSERT(as_frame_next(v.iov_base, v.iov_len, &again) == (int64_t)v.iov_len);
        AS_ASSERT(again.n == f->n);
        as_outq_fini(&q);
    }
    as_arena_fini(&a);
}

/* One encoding here, too. */
static void check_traffic(const struct as_frame *f, const struct as_frame_traffic *t)
{
    struct as_frame again;
    struct as_outq q;
    struct iovec v;

    as_outq_init(&q);
    as_frame_put_traffic(&q, t);
    AS_ASSERT(as_outq_iov(&q, &v, 1) == 1);
    AS_ASSERT(as_frame_next(v.iov_base, v.iov_len, &again) == (int64_t)v.iov_len);
    AS_ASSERT(again.n == f->n && memcmp(again.p, f->p, f->n) == 0);
    AS_ASSERT(as_frame_handling_of(&again) == AS_FRAME_KNOWN);
    as_outq_fini(&q);
}

/* What was accepted is in its bounds, and is written as it was read. */
static void check_router(const struct as_frame *f)
{
    struct as_frame_router r, again;
    struct as_outq q;
    struct as_buf b;
    struct as_frame copy;

    if (as_frame_get_router(f, &r))
        return;
    as_outq_init(&q);
    as_buf_init(&b);
    as_frame_put_router(&q, &r);
    as_outq_peek(&q, &b);
    AS_ASSERT(as_frame_next(b.p, b.n, &copy) > 0);
    AS_ASSERT(as_frame_get_router(&copy, &again) == 0);
    AS_ASSERT(as_frame_router_eq(&r, &again));
    as_buf_fini(&b);
    as_outq_fini(&q);
}

/* One encoding here, too. */
static void check_services(const struct as_frame *f)
{
    struct as_frame_services s;
    struct as_frame again;
    struct as_outq q;
    struct as_arena a;
    struct iovec v;
    const char *why;

    as_arena_init(&a, NULL, 0);
    if (as_frame_get_services(f, &a, &s, &why) == 0) {
        touch_str(s.descriptors);
        as_outq_init(&q);
        AS_ASSERT(as_frame_put_services(&q, &s) == 0);
        AS_ASSERT(as_outq_iov(&q, &v, 1) == 1);
        AS_ASSERT(as_frame_next(v.iov_base, v.iov_len, &again) == (int64_t)v.iov_len);
        AS_ASSERT(again.n == f->n && memcmp(again.p, f->p, f->n) == 0);
        as_outq_fini(&q);
    }
    as_arena_fini(&a);
}

/* Reads a record of POLICY, and encodes it again: it has one encoding. */
static bool encode_policy(const struct as_policy_record *r, struct as_buf *b)
{
    static struct as_policy_count counts[AS_POLICY_COUNTS];
    struct as_policy_replica replica;
    struct as_policy_choice choice;
    struct as_policy_event event;
    struct as_policy_ready ready;
    struct as_policy_route route;
    struct as_policy_body body;
    uint32_t n;

    if (r->kind == AS_POLICY_REPLICA && !as_policy_get_replica(r->body, &replica)) {
        as_policy_put_replica(b, &replica);
    } else if (r->kind == AS_POLICY_ONGOING && !as_policy_get_ongoing(r->body, &n)) {
        for (uint32_t i = 0; i < n; i++)
            counts[i] = as_policy_count_at(r->body, i);
        as_policy_put_ongoing(b, counts, n);
    } else if (r->kind == AS_POLICY_ROUTE && !as_policy_get_route(r->body, &route)) {
        as_policy_put_route(b, &route);
    } else if (r->kind == AS_POLICY_BODY && !as_policy_get_body(r->body, &body)) {
        as_policy_put_body(b, &body);
    } else if (r->kind == AS_POLICY_READY && !as_policy_get_ready(r->body, &ready)) {
        as_policy_put_ready(b, &ready);
    } else if (r->kind == AS_POLICY_CHOICE && !as_policy_get_choice(r->body, &choice)) {
        as_policy_put_choice(b, &choice);
    } else if ((r->kind == AS_POLICY_GONE || r->kind == AS_POLICY_MORE) &&
               !as_policy_get_event(r->body, &event)) {
        as_policy_put_event(b, (enum as_policy_kind)r->kind, &event);
    }
    return b->n > 0;
}

static void policy(const struct as_frame *f)
{
    struct as_str rest = {(const char *)f->p, f->n};
    struct as_policy_record r;

    while (as_policy_next(&rest, &r) > 0) {
        struct as_buf b = {0};

        touch_str(r.body);
        if (encode_policy(&r, &b))
            AS_ASSERT(b.n >= AS_POLICY_RECORD + r.body.n &&
                      memcmp(b.p + AS_POLICY_RECORD, r.body.p, r.body.n) == 0);
        as_buf_fini(&b);
    }
}

/* The type is not checked first: a decoder must not rely on its caller for that. */
static void small(const struct as_frame *f)
{
    uint64_t ids[AS_FRAME_IDS], opaque;
    struct as_frame_registered registered;
    struct as_frame_control control;
    struct as_frame_batch batch;
    struct as_frame_credit credit;
    struct as_frame_hello hello;
    struct as_frame_error error;
    struct as_frame_options options;
    struct as_frame_traffic traffic;
    struct as_str text;
    uint32_t n;

    if (as_frame_get_hello(f, &hello) == 0) {
        touch_str(hello.token);
        touch_str(hello.replica);
        touch_str(hello.deployment);
        touch_str(hello.peer);
    }
    if (as_frame_get_registered(f, &registered) == 0)
        touch_str(registered.message);
    if (as_frame_get_error(f, &error) == 0)
        touch_str(error.message);
    if (as_frame_get_control(f, &control) == 0)
        touch_str(control.text);
    if (as_frame_get_text(f, &text) == 0)
        touch_str(text);
    if (as_frame_get_reserved(f, &text) == 0) {
        AS_ASSERT(text.n >= 1 && text.n <= AS_FRAME_NAME);
        touch_str(text);
    }
    (void)as_frame_call_uses_slot(f);
    if (as_frame_get_ids(f, ids, AS_FRAME_IDS, &n) == 0)
        touch(ids, 8 * (size_t)n);
    if (as_frame_get_credit(f, &credit) == 0)
        touch(&credit.slots, sizeof(credit.slots));
    if (as_frame_get_batch(f, &batch) == 0) /* the worker counts streams up to the last */
        AS_ASSERT(batch.n >= 2 && batch.first + 2 * (uint64_t)(batch.n - 1) > batch.first);
    if (as_frame_get_options(f, &options) == 0) {
        /* set values are within their limits: timers depend on them */
        for (uint32_t key = 1; key < AS_FRAME_OPTION_END; key++)
            AS_ASSERT(
                !(options.has >> key & 1) || options.value[key] <= AS_FRAME_OPTION_MAX ||
                (key == AS_FRAME_OPT_MAX_QUEUED && options.value[key] == AS_FRAME_QUEUED_ANY));
        AS_ASSERT(!(options.has & 1) && options.has >> AS_FRAME_OPTION_END == 0);
    }
    check_router(f);
    if (as_frame_get_traffic(f, &traffic) == 0) {
        AS_ASSERT(traffic.canary <= AS_FRAME_SHARE && traffic.mirror <= AS_FRAME_SHARE);
        touch_str(traffic.fallback);
        check_traffic(f, &traffic);
    }
    check_services(f);
    policy(f);
    if (as_frame_get_cancel(f, &n) == 0)
        /* a gRPC status, which indexes a table */
        AS_ASSERT(n >= 1 && n <= 16);
    if (as_frame_get_ping(f, &opaque) == 0)
        touch(&opaque, sizeof(opaque));
}

/* As the link does: unknown and optional frames are skipped, reserved ones refused before any
 * decoder sees them. */
static void decode(const struct as_frame *f)
{
    touch(as_frame_type_name(f->type), 1);
    if (as_frame_handling_of(f) != AS_FRAME_KNOWN)
        return;
    switch (f->type) {
    case AS_FRAME_OPEN:
    case AS_FRAME_DATA:
        message(f);
        break;
    case AS_FRAME_REGISTER:
        registration(f);
        break;
    default:
        small(f); /* every small decoder: each must stand any payload */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = NULL;
    struct as_frame f;
    size_t at = 0;

    /* Exactly as large as the input, so that a sanitizer sees one byte too far. */
    if (posix_memalign((void **)&copy, AS_FRAME_ALIGN, size ? size : 1))
        return 0;
    if (size)
        memcpy(copy, data, size);
    /* As a read buffer is walked: whole frames from the front, the rest waits for more bytes. */
    for (;;) {
        int64_t used = as_frame_next(copy + at, size - at, &f);

        if (used <= 0)
            break;
        at += (size_t)used;
        decode(&f);
    }
    free(copy);
    return 0;
}
