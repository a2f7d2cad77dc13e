/* GPUs and CPUs that replicas have for themselves. */
#include "ctl/reconcile/reconciler_internal.h"

#include <inttypes.h>

#define WHOLE 1000

static const char *const device_nouns[AS_RECONCILER_DEVICE_KINDS] = {
    [AS_RECONCILER_GPUS] = "GPUs", [AS_RECONCILER_CPUS] = "CPUs"};
static const char *const device_keys[AS_RECONCILER_DEVICE_KINDS] = {
    [AS_RECONCILER_GPUS] = " gpus=", [AS_RECONCILER_CPUS] = " cpus="};

/* In thousandths; -1: the deployment asks for none. CPUs are assigned with cpu_affinity `auto`: as
 * many as num_cpus says, rounded up. */
static int64_t count_wanted_devices(const struct as_spec_object *d,
                                    enum as_reconciler_device_kind kind)
{
    const char *affinity = as_spec_str(d, AS_SPEC_DEPLOYMENT_CPU_AFFINITY);
    int64_t n = WHOLE;

    if (kind == AS_RECONCILER_GPUS)
        return as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_GPUS)
                   ? as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_GPUS)
                   : -1;
    if (as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_CPUS))
        n = as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_CPUS);
    return affinity && strcmp(affinity, "auto") == 0 ? (n + WHOLE - 1) / WHOLE * WHOLE : -1;
}

static void write_lack(const struct as_spec_devices *devices, int64_t n,
                       enum as_reconciler_device_kind kind, struct as_buf *why)
{
    as_buf_printf(why, "it needs %g %s for itself, but fewer of the %u are free", (double)n / WHOLE,
                  device_nouns[kind], devices->n);
}

static void return_devices(struct as_spec_devices *devices, const struct as_reconciler_devices *t)
{
    if (t->list && t->n)
        as_spec_devices_release(devices, t->n, t->list);
}

/* Tries the assignment in a copy, with the devices that the plan could free. */
static void check_free_devices(const struct as_reconciler_deployment *d,
                               enum as_reconciler_device_kind kind, int64_t n,
                               const struct as_plan_headroom *room, struct as_buf *why)
{
    struct as_spec_devices devices = d->reconciler->devices[kind];
    const struct as_reconciler_reserved *reserved = &d->reserved[kind];
    struct as_buf list = {0};

    if (n <= 0 || n > (int64_t)devices.n * WHOLE)
        return;
    for (uint32_t i = 0; room->kept && i < reserved->n; i++)
        return_devices(&devices, &reserved->all[i]);
    for (uint32_t i = 0; i < room->n; i++) {
        const struct as_reconciler_process *proc = as_reconciler_process(room->ended[i]);

        if (proc)
            return_devices(&devices, &proc->devices[kind]);
    }
    if (as_spec_devices_allocate(&devices, n, &list) < 0)
        write_lack(&devices, n, kind, why);
    as_buf_fini(&list);
}

struct as_str as_reconciler_missing_devices(void *ctx, const struct as_replica_slot *slot,
                                            const struct as_plan_headroom *room)
{
    struct as_reconciler_deployment *d = ctx;
    const struct as_reconciler_process *proc = as_reconciler_process(slot);
    struct as_generations_deployment specs;

    d->missing.n = 0;
    if (!as_generations_find(&d->reconciler->generations, as_replica_slot_facts(slot)->generation,
                             as_str_of(d->name), &specs))
        return AS_STR(""); /* its start fails with the reason */
    for (enum as_reconciler_device_kind kind = 0;
         kind < AS_RECONCILER_DEVICE_KINDS && !d->missing.n; kind++) {
        if (!proc || !proc->devices[kind].list)
            check_free_devices(d, kind, count_wanted_devices(specs.deployment, kind), room,
                               &d->missing);
    }
    return as_buf_slice(&d->missing);
}

static bool release_last_reserved(struct as_reconciler_deployment *d,
                                  enum as_reconciler_device_kind kind)
{
    struct as_reconciler_reserved *reserved = &d->reserved[kind];

    if (reserved->n == 0)
        return false;
    return_devices(&d->reconciler->devices[kind], &reserved->all[--reserved->n]);
    free(reserved->all[reserved->n].list);
    return true;
}

/* From the free devices, else also from the reserved ones: the plan starts a slot only when both
 * together suffice. */
static int assign_from_free(struct as_reconciler_process *proc, enum as_reconciler_device_kind kind,
                            int64_t n, struct as_buf *why)
{
    struct as_reconciler_deployment *d = proc->deployment;
    struct as_spec_devices *devices = &d->reconciler->devices[kind];
    struct as_buf list = {0};
    int rc;

    if (n < 0 || proc->devices[kind].list)
        return 0;
    do
        rc = as_spec_devices_allocate(devices, n, &list);
    while (rc < 0 && release_last_reserved(d, kind));
    if (rc < 0) {
        as_buf_fini(&list);
        write_lack(devices, n, kind, why);
        as_buf_str(why, "\n");
        return rc;
    }
    proc->devices[kind] = (struct as_reconciler_devices){n, as_buf_cstr(&list)};
    return 0;
}

int as_reconciler_assign_devices(struct as_reconciler_process *proc,
                                 const struct as_spec_object *deployment, struct as_buf *why)
{
    for (enum as_reconciler_device_kind kind = 0; kind < AS_RECONCILER_DEVICE_KINDS; kind++) {
        int rc = assign_from_free(proc, kind, count_wanted_devices(deployment, kind), why);

        if (rc < 0)
            return rc;
    }
    return 0;
}

void as_reconciler_reserve_devices(struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);

    for (enum as_reconciler_device_kind kind = 0; kind < AS_RECONCILER_DEVICE_KINDS; kind++) {
        struct as_reconciler_reserved *reserved = &proc->deployment->reserved[kind];

        if (proc->devices[kind].n) {
            reserved->all = as_xrealloc(reserved->all, (reserved->n + 1) * sizeof(*reserved->all));
            reserved->all[reserved->n++] = proc->devices[kind];
        } else {
            free(proc->devices[kind].list);
        }
        proc->devices[kind] = (struct as_reconciler_devices){0};
    }
}

bool as_reconciler_release_devices(void *ctx)
{
    struct as_reconciler_deployment *d = ctx;
    bool some = false;

    for (enum as_reconciler_device_kind kind = 0; kind < AS_RECONCILER_DEVICE_KINDS; kind++) {
        while (release_last_reserved(d, kind))
            some = true;
        free(d->reserved[kind].all);
        d->reserved[kind] = (struct as_reconciler_reserved){0};
    }
    return some;
}

/* --- how many replicas the machine can have --- */

struct startable {
    const struct as_reconciler_deployment *d;
    uint32_t n; /* replicas that lack nothing */
};

static void count_startable(void *arg, struct as_replica_slot *slot)
{
    struct startable *s = arg;
    enum as_replica_slot_state state = as_replica_slot_state(slot);

    s->n += state != AS_REPLICA_SLOT_DRAINING && state != AS_REPLICA_SLOT_STOPPING &&
            !as_replica_slot_lack(slot).n;
}

/* Bytes that the limits of all replicas with a process leave of the machine's memory. */
struct memory_sum {
    const struct as_reconciler_deployment *d;
    uint64_t used;
};

static void add_memory(void *arg, struct as_replica_slot *slot)
{
    struct memory_sum *sum = arg;
    struct as_generations_deployment specs;

    if (as_replica_slot_has_process(slot) &&
        as_generations_find(&sum->d->reconciler->generations,
                            as_replica_slot_facts(slot)->generation, as_str_of(sum->d->name),
                            &specs) &&
        as_spec_is_set(specs.deployment, AS_SPEC_DEPLOYMENT_MEMORY))
        sum->used += (uint64_t)as_spec_i64(specs.deployment, AS_SPEC_DEPLOYMENT_MEMORY);
}

/* How many more replicas with this limit fit into the memory that no replica's limit takes. */
static uint32_t count_memory(const struct as_reconciler *r, const struct as_spec_object *deployment,
                             uint32_t most, struct as_buf *lack)
{
    struct memory_sum sum = {0};
    uint64_t each, n;

    if (!r->conf.memory || !as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_MEMORY))
        return most;
    for (uint32_t i = 0; i < r->n; i++) {
        sum.d = r->deployments[i];
        as_plan_each(r->deployments[i]->plan, add_memory, &sum);
    }
    each = (uint64_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_MEMORY);
    n = sum.used < r->conf.memory ? (r->conf.memory - sum.used) / each : 0;
    if (n < most)
        as_buf_printf(lack,
                      "it needs %" PRIu64 " MiB of memory, but %" PRIu64 " of %" PRIu64
                      " MiB are taken by replicas",
                      each >> 20, sum.used >> 20, r->conf.memory >> 20);
    return (uint32_t)AS_MIN(n, (uint64_t)most);
}

/* How many more can have devices: tried in a copy, with those that are kept for the deployment. */
static uint32_t count_devices(const struct as_reconciler_deployment *d,
                              enum as_reconciler_device_kind kind,
                              const struct as_spec_object *deployment, uint32_t most,
                              struct as_buf *lack)
{
    struct as_spec_devices devices = d->reconciler->devices[kind];
    const struct as_reconciler_reserved *reserved = &d->reserved[kind];
    int64_t each = count_wanted_devices(deployment, kind);
    struct as_buf list = {0};
    uint32_t n = 0;

    if (each <= 0)
        return most;
    for (uint32_t i = 0; i < reserved->n; i++)
        return_devices(&devices, &reserved->all[i]);
    while (n < most && as_spec_devices_allocate(&devices, each, &list) == 0)
        n++;
    if (n < most)
        write_lack(&devices, each, kind, lack);
    as_buf_fini(&list);
    return n;
}

uint32_t as_reconciler_startable(const struct as_reconciler_deployment *d, uint32_t most,
                                 struct as_buf *lack)
{
    struct startable s = {.d = d};
    struct as_generations_deployment specs;
    uint32_t more;

    as_plan_each(d->plan, count_startable, &s);
    if (s.n >= most ||
        !as_generations_find(&d->reconciler->generations, as_plan_target(d->plan)->generation,
                             as_str_of(d->name), &specs))
        return AS_AUTOSCALE_ANY;
    more = count_memory(d->reconciler, specs.deployment, most - s.n, lack);
    for (enum as_reconciler_device_kind kind = 0; kind < AS_RECONCILER_DEVICE_KINDS; kind++) {
        struct as_buf why = {0};
        uint32_t n = count_devices(d, kind, specs.deployment, more, &why);

        if (n < more)
            as_buf_set(lack, as_buf_slice(&why));
        more = n;
        as_buf_fini(&why);
    }
    return s.n + more;
}

/* --- the note --- */

void as_reconciler_write_devices(const struct as_reconciler_process *proc, struct as_buf *note)
{
    for (enum as_reconciler_device_kind kind = 0; kind < AS_RECONCILER_DEVICE_KINDS; kind++) {
        const struct as_reconciler_devices *t = &proc->devices[kind];

        if (t->list)
            as_buf_printf(note, "%s%" PRId64 "/%s", device_keys[kind], t->n, t->list);
    }
}

/* " NAME=N/LIST" */
static void adopt_device_list(struct as_spec_devices *devices, struct as_reconciler_devices *t,
                              const char *key, const char *note)
{
    const char *at = strstr(note, key);
    char *slash;
    int64_t n = at ? strtoll(at + strlen(key), &slash, 10) : 0;

    if (!at || *slash != '/' || n < 0)
        return;
    *t = (struct as_reconciler_devices){
        n, as_str_dup((struct as_str){slash + 1, strcspn(slash + 1, " ")})};
    /* the machine has the device no longer: it is not returned later */
    if (n && as_spec_devices_claim(devices, n, t->list) < 0)
        t->n = 0;
}

void as_reconciler_adopt_devices(struct as_reconciler *r, struct as_reconciler_process *proc,
                                 struct as_str note)
{
    char *text = as_str_dup(note);

    for (enum as_reconciler_device_kind kind = 0; kind < AS_RECONCILER_DEVICE_KINDS; kind++)
        adopt_device_list(&r->devices[kind], &proc->devices[kind], device_keys[kind], text);
    free(text);
}
