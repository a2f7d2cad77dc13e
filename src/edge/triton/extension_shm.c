/* Registers, lists and unregisters regions of shared memory. For their use see
 * edge/infer/shm_tensors.h. */
#include "edge/infer/shm_tensors.h"
#include "edge/triton/extension.h"

#define WHY_MAX 512

struct region_list { /* rows: struct as_shm_region; their strings lie in the arena */
    struct as_arena *arena;
    struct as_buf rows;
    uint32_t n;
    bool starved;
};

static void add_region(void *arg, struct as_str name, struct as_str key, uint64_t offset,
                       uint64_t size)
{
    struct region_list *l = arg;
    struct as_shm_region r = {
        {as_arena_dup(l->arena, name), name.n}, {as_arena_dup(l->arena, key), key.n}, offset, size};

    if (!r.name.p || !r.key.p || !as_buf_try_reserve(&l->rows, sizeof(r))) {
        l->starved = true;
        return;
    }
    as_buf_add(&l->rows, &r, sizeof(r));
    l->n++;
}

/* A client that may not register regions has none, which is no error: clients query the status
 * before they start. */
void as_extension_shm_status(struct as_exchange *x, struct as_str name)
{
    struct region_list l = {.arena = &x->arena};
    struct as_buf out = {0};
    const char *why;
    uint32_t n = 0;
    uid_t user;
    int err = AS_ENOMEM;

    if (!as_shm_tensors_user(x, &user, &why))
        n = as_shm_each(x->edge->conf.shm, user, name, add_region, &l);
    if (name.n && !n) {
        as_exchange_fail(x, AS_ENOTFOUND, "there is no shared memory region '%.*s'",
                         AS_STR_CUT(name, 64));
    } else {
        const struct as_shm_region *rows = (const struct as_shm_region *)(void *)l.rows.p;

        if (!l.starved)
            err = as_shm_region_put(rows, l.n, &x->arena, !x->grpc, &out);
        as_extension_reply(x, err, &out);
    }
    as_buf_fini(&l.rows);
}

void as_extension_shm_register(struct as_exchange *x, const struct as_shm_region *r)
{
    struct as_buf out = {0};
    const char *refused;
    char why[WHY_MAX];
    uid_t user;
    int err;

    if (as_shm_tensors_user(x, &user, &refused)) {
        as_exchange_fail(x, AS_EDENIED, "%s", refused);
        return;
    }
    err = as_shm_register(x->edge->conf.shm, user, r->name, r->key, r->offset, r->size, why,
                          sizeof(why));
    if (err)
        as_exchange_fail(x, err, "failed to register: %s", why);
    else
        as_extension_reply(x, 0, &out);
}

/* Unregistering an unknown region is no error: clients clean up before they start. */
void as_extension_shm_unregister(struct as_exchange *x, struct as_str name)
{
    struct as_buf out = {0};
    const char *why;
    uid_t user;

    if (!as_shm_tensors_user(x, &user, &why))
        as_shm_unregister(x->edge->conf.shm, user, name);
    as_extension_reply(x, 0, &out);
}

/* --- GPU memory: not supported --- */

void as_extension_cuda_status(struct as_exchange *x)
{
    struct as_buf out = {0};

    as_extension_reply(x, as_shm_region_put(NULL, 0, &x->arena, !x->grpc, &out), &out);
}

void as_extension_cuda_register(struct as_exchange *x)
{
    as_exchange_fail(x, AS_EUNIMPLEMENTED, "CUDA shared memory is not supported");
}

void as_extension_cuda_unregister(struct as_exchange *x)
{
    struct as_buf out = {0};

    as_extension_reply(x, 0, &out);
}
