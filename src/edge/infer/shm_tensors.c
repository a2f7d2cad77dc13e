#include "edge/infer/shm_tensors.h"

#include "edge/exchange/offload.h"
#include "io/socket/peer.h"

#define WHY_MAX     512
#define OFFLOAD_MIN (1u << 20) /* bytes: copying them takes a fraction of a millisecond */

static bool fail_tensor(struct as_exchange *x, int err, const char *side, struct as_str name,
                        const char *why)
{
    as_exchange_fail(x, err == AS_ENOTFOUND ? AS_EINVALID : err, "%s '%.*s': %s", side,
                     AS_STR_CUT(name, 64), why);
    return false;
}

int as_shm_tensors_user(struct as_exchange *x, uid_t *ret_user, const char **ret_why)
{
    struct as_conn *c = x->conn;
    int err = c ? 0 : AS_EIO;

    *ret_why = "shared memory: the server runs without --allow-client-shm";
    if (!x->edge->conf.shm)
        return AS_EDENIED;
    if (c && !c->has_user)
        err = as_peer_user(c->sock.fd, &c->user);
    *ret_why = err == AS_EDENIED
                   ? "shared memory is for clients of this machine, over a loopback "
                     "address or a unix socket"
                   : "shared memory: the system does not say whose connection this is";
    if (err)
        return err;
    c->has_user = true;
    *ret_user = c->user;
    return 0;
}

/* False: the request was failed. */
static bool find_user(struct as_exchange *x, uid_t *ret_user)
{
    const char *why;
    int err = as_shm_tensors_user(x, ret_user, &why);

    if (err)
        as_exchange_fail(x, AS_EDENIED, "%s", why);
    return !err;
}

static bool is_shared(const struct as_exchange *x, uint32_t i)
{
    return x->infer.ranges && x->infer.ranges[i].region.n;
}

/* True: inputs of the message are copied as well, so that all inputs lie in one blob. Not if they
 * lie in a blob already; then all inputs are copied when the call is sent. */
static bool copies_all_inputs(const struct as_exchange *x)
{
    return !x->body.blob && !x->body.inputs;
}

/* Charges the bytes of the copies, each aligned, and returns their sum. UINT64_MAX: the request was
 * failed. */
static uint64_t charge_inputs(struct as_exchange *x)
{
    uint64_t room = 0, lent = 0, most = x->edge->conf.max_message;

    for (uint32_t i = 0; i < x->infer.n_inputs; i++) {
        uint64_t n = x->infer.inputs[i].nbytes;

        if (is_shared(x, i))
            lent += n;
        if (n > most || lent > most) {
            as_exchange_fail(x, AS_ETOOBIG,
                             "inputs in shared memory are over --max-message-bytes %lu",
                             (unsigned long)most);
            return UINT64_MAX;
        }
        if (is_shared(x, i) || copies_all_inputs(x))
            room += AS_ALIGN(n, AS_BLOB_ALIGN);
    }
    return as_exchange_charge(x, room, "copy of inputs in shared memory,") ? room : UINT64_MAX;
}

/* The copying of inputs; in the exchange's arena. */
struct fetch {
    struct as_offload offload;
    void (*then)(struct as_exchange *x);
    uid_t user;          /* owner of the regions */
    struct as_tensor *t; /* the inputs with their new places */
    uint8_t *p;
    uint64_t room; /* bytes at p */
    bool all;      /* inputs of the message are copied as well */
    int err;
    const struct as_tensor *culprit;
    char why[WHY_MAX];
};

/* Copies the bytes of one tensor to p. range: NULL if it lies in the message. */
static int copy_input(struct fetch *f, const struct as_oip_shm_range *range, struct as_tensor *t,
                      uint8_t *p)
{
    uint64_t n;
    int err;

    if (!range) {
        if (t->nbytes)
            memcpy(p, t->data, t->nbytes);
        t->data = p;
        return 0;
    }
    err = as_shm_read(f->offload.x->edge->conf.shm, f->user, range->region, range->offset, p,
                      t->nbytes, f->why, sizeof(f->why));
    if (err)
        return err;
    t->data = p;
    if (t->dtype != AS_DT_BYTES)
        return 0;
    if (as_tensor_elements(t->dtype, t->shape, t->ndim, &n) ||
        as_tensor_check_bytes(p, t->nbytes, n)) {
        snprintf(f->why, sizeof(f->why), "%zu bytes of shared memory are not its BYTES elements",
                 t->nbytes);
        return AS_EINVALID;
    }
    return 0;
}

static void copy_inputs(struct fetch *f)
{
    struct as_exchange *x = f->offload.x;
    uint8_t *p = f->p;

    for (uint32_t i = 0; i < x->infer.n_inputs && !f->err; i++) {
        if (!is_shared(x, i) && !f->all) /* it stays where it is */
            continue;
        f->err = copy_input(f, is_shared(x, i) ? &x->infer.ranges[i] : NULL, &f->t[i], p);
        f->culprit = &f->t[i];
        p += AS_ALIGN(f->t[i].nbytes, AS_BLOB_ALIGN);
    }
}

/* False: the request was failed. */
static bool finish_fetch(struct fetch *f)
{
    struct as_exchange *x = f->offload.x;

    if (f->err)
        return fail_tensor(x, f->err, "input", f->culprit->name, f->why);
    x->infer.inputs = f->t;
    return true;
}

/* Allocates and charges the memory of the copies. NULL: the request was failed. */
static struct fetch *new_fetch(struct as_exchange *x, uid_t user)
{
    uint64_t room = charge_inputs(x);
    bool own_blob = room > AS_COPY_MAX && copies_all_inputs(x);
    size_t size = x->infer.n_inputs * sizeof(struct as_tensor);
    struct fetch *f;

    if (room == UINT64_MAX)
        return NULL;
    f = as_arena_alloc(&x->arena, sizeof(*f), 16);
    if (f)
        *f = (struct fetch){.offload.x = x, .user = user, .room = room, .all = own_blob};
    if (f)
        f->t = as_arena_alloc(&x->arena, size, 8);
    if (f && own_blob && (x->body.inputs = as_blob_new((size_t)room)))
        f->p = x->body.inputs->data;
    else if (f && !own_blob)
        f->p = as_arena_alloc(&x->arena, (size_t)room + 1, 64);
    if (!f || !f->t || !f->p) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the inputs in shared memory");
        return NULL;
    }
    memcpy(f->t, x->infer.inputs, size);
    return f;
}

static void copy_on_helper(struct as_offload *a)
{
    copy_inputs(AS_CONTAINER(a, struct fetch, offload));
}

static void on_copied(struct as_offload *a)
{
    struct fetch *f = AS_CONTAINER(a, struct fetch, offload);

    if (finish_fetch(f))
        f->then(a->x);
}

static bool check_outputs(struct as_exchange *x, uid_t user)
{
    for (uint32_t i = 0; i < x->infer.n_outputs; i++) {
        const struct as_oip_requested_output *o = &x->infer.outputs[i];
        char why[WHY_MAX];
        int err = o->range.region.n ? as_shm_check(x->edge->conf.shm, user, o->range.region,
                                                   o->range.offset, o->range.size, why, sizeof(why))
                                    : 0;

        if (err)
            return fail_tensor(x, err, "output", o->name, why);
    }
    return true;
}

static bool check_access(struct as_exchange *x, uid_t *ret_user)
{
    return find_user(x, ret_user) && check_outputs(x, *ret_user);
}

bool as_shm_tensors_fetch_now(struct as_exchange *x)
{
    struct fetch *f;
    uid_t user;

    if (!check_access(x, &user))
        return false;
    if (!x->infer.ranges)
        return true;
    f = new_fetch(x, user);
    if (f)
        copy_inputs(f);
    return f && finish_fetch(f);
}

void as_shm_tensors_fetch(struct as_exchange *x, void (*then)(struct as_exchange *x))
{
    struct fetch *f = NULL;
    uid_t user;

    if (!check_access(x, &user) || (x->infer.ranges && !(f = new_fetch(x, user))))
        return;
    if (f && f->room > OFFLOAD_MIN) {
        f->then = then;
        f->offload.work = copy_on_helper;
        f->offload.done = on_copied;
        as_offload_start(&f->offload);
        return;
    }
    if (f)
        copy_inputs(f);
    if (!f || finish_fetch(f))
        then(x);
}

bool as_shm_tensors_store(struct as_exchange *x, const struct as_tensor *t,
                          const struct as_oip_shm_range *range)
{
    char why[WHY_MAX];
    uid_t user;
    int err;

    if (!find_user(x, &user))
        return false;
    if (t->nbytes > range->size) {
        snprintf(why, sizeof(why),
                 "its %zu bytes do not fit into the %llu of shared memory region '%.*s'", t->nbytes,
                 (unsigned long long)range->size, AS_STR_CUT(range->region, 64));
        return fail_tensor(x, AS_EINVALID, "output", t->name, why);
    }
    err = as_shm_write(x->edge->conf.shm, user, range->region, range->offset, t->data, t->nbytes,
                       why, sizeof(why));
    return err ? fail_tensor(x, err, "output", t->name, why) : true;
}
