#include "edge/region.h"

#define WHY_MAX 512

static bool fail(struct as_exchange *x, int err, const char *side, struct as_str name,
                 const char *why)
{
    as_exchange_fail(x, err == AS_ENOTFOUND ? AS_EINVALID : err, "%s '%.*s': %s", side,
                     (int)AS_MIN(name.n, (size_t)64), name.p, why);
    return false;
}

static bool is_lent(const struct as_exchange *x, uint32_t i)
{
    return x->infer.ranges && x->infer.ranges[i].region.n;
}

/* Small inputs of the message are copied beside those in shared memory, so that all of them can
 * travel together; large ones stay where they are, and then all are copied on their way out. */
static bool gathers(const struct as_exchange *x)
{
    return !x->blob && !x->inputs;
}

/* Bytes that they take side by side, each aligned. UINT64_MAX: refused. */
static uint64_t measure(struct as_exchange *x)
{
    uint64_t room = 0, lent = 0, most = x->edge->conf.max_message;

    for (uint32_t i = 0; i < x->infer.n_inputs; i++) {
        uint64_t n = x->infer.inputs[i].nbytes;

        if (is_lent(x, i))
            lent += n;
        if (n > most || lent > most) {
            as_exchange_fail(x, AS_ETOOBIG,
                             "inputs in shared memory are over --max-message-bytes %lu",
                             (unsigned long)most);
            return UINT64_MAX;
        }
        if (is_lent(x, i) || gathers(x))
            room += AS_ALIGN(n, AS_BLOB_ALIGN);
    }
    if (!as_budget_take(x->edge->budget, room)) {
        as_exchange_fail(x, AS_ETOOBIG,
                         "inputs in shared memory do not fit into --max-inflight-bytes %lu now",
                         (unsigned long)x->edge->budget->limit);
        return UINT64_MAX;
    }
    x->reserved += room;
    return room;
}

/* A copy of the tensor's bytes at p. */
static bool copy(struct as_exchange *x, uint32_t i, struct as_tensor *t, uint8_t *p)
{
    const struct as_oip_range *range = is_lent(x, i) ? &x->infer.ranges[i] : NULL;
    char why[WHY_MAX];
    uint64_t n;
    int err;

    if (!range) {
        if (t->nbytes)
            memcpy(p, t->data, t->nbytes);
        t->data = p;
        return true;
    }
    err = as_shm_read(x->edge->conf.shm, range->region, range->offset, p, t->nbytes, why,
                      sizeof(why));
    if (err)
        return fail(x, err, "input", t->name, why);
    t->data = p;
    if (t->dtype != AS_DT_BYTES)
        return true;
    if (as_tensor_elements(t->dtype, t->shape, t->ndim, &n) ||
        as_tensor_check_bytes(p, t->nbytes, n)) {
        snprintf(why, sizeof(why), "%zu bytes of shared memory are not its BYTES elements",
                 t->nbytes);
        return fail(x, AS_EINVALID, "input", t->name, why);
    }
    return true;
}

static bool fetch_inputs(struct as_exchange *x)
{
    uint64_t room = measure(x);
    bool own_blob = room > AS_COPY_MAX && gathers(x);
    struct as_blob *blob = NULL;
    struct as_tensor *t;
    uint8_t *p;

    if (room == UINT64_MAX)
        return false;
    t = as_arena_alloc(&x->arena, x->infer.n_inputs * sizeof(*t), 8);
    if (own_blob)
        blob = as_blob_new((size_t)room);
    p = blob ? blob->data : own_blob ? NULL : as_arena_alloc(&x->arena, (size_t)room + 1, 64);
    if (!t || !p) {
        as_blob_unref(blob);
        as_exchange_fail(x, AS_ENOMEM, "no memory for the inputs in shared memory");
        return false;
    }
    memcpy(t, x->infer.inputs, x->infer.n_inputs * sizeof(*t));
    for (uint32_t i = 0; i < x->infer.n_inputs; i++) {
        if (!is_lent(x, i) && !own_blob) /* large, or small already */
            continue;
        if (!copy(x, i, &t[i], p)) {
            as_blob_unref(blob);
            return false;
        }
        p += AS_ALIGN(t[i].nbytes, AS_BLOB_ALIGN);
    }
    x->infer.inputs = t;
    if (blob)
        x->inputs = blob;
    return true;
}

static bool check_outputs(struct as_exchange *x)
{
    for (uint32_t i = 0; i < x->infer.n_outputs; i++) {
        const struct as_oip_requested *o = &x->infer.outputs[i];
        char why[WHY_MAX];
        int err = o->range.region.n ? as_shm_check(x->edge->conf.shm, o->range.region,
                                                   o->range.offset, o->range.size, why, sizeof(why))
                                    : 0;

        if (err)
            return fail(x, err, "output", o->name, why);
    }
    return true;
}

bool as_region_fetch(struct as_exchange *x)
{
    if (!x->edge->conf.shm) {
        as_exchange_fail(x, AS_EDENIED,
                         "shared memory: the server runs without --allow-client-shm");
        return false;
    }
    return check_outputs(x) && (!x->infer.ranges || fetch_inputs(x));
}

bool as_region_store(struct as_exchange *x, const struct as_tensor *t,
                     const struct as_oip_range *range)
{
    char why[WHY_MAX];
    int err;

    if (t->nbytes > range->size) {
        snprintf(why, sizeof(why),
                 "its %zu bytes do not fit into the %llu of shared memory region '%.*s'", t->nbytes,
                 (unsigned long long)range->size, (int)AS_MIN(range->region.n, (size_t)64),
                 range->region.p);
        return fail(x, AS_EINVALID, "output", t->name, why);
    }
    err = as_shm_write(x->edge->conf.shm, range->region, range->offset, t->data, t->nbytes, why,
                       sizeof(why));
    return err ? fail(x, err, "output", t->name, why) : true;
}
