/* What replicas have of the machine for themselves: GPUs, CPUs. */
#include "ctl/reconcile/reconciler_internal.h"

#include <inttypes.h>

#define WHOLE 1000

static const char *const nouns[AS_CREW_KINDS] = {[AS_CREW_GPUS] = "GPUs", [AS_CREW_CPUS] = "CPUs"};
static const char *const keys[AS_CREW_KINDS] = {
    [AS_CREW_GPUS] = " gpus=", [AS_CREW_CPUS] = " cpus="};

/* In thousandths; -1: it says nothing of them. CPUs: `auto`, as many as num_cpus says, rounded up.
 */
static int64_t wanted(const struct as_spec_object *d, enum as_crew_kind kind)
{
    const char *affinity = as_spec_str(d, AS_SPEC_DEPLOYMENT_CPU_AFFINITY);
    int64_t n = WHOLE;

    if (kind == AS_CREW_GPUS)
        return as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_GPUS)
                   ? as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_GPUS)
                   : -1;
    if (as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_CPUS))
        n = as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_CPUS);
    return affinity && strcmp(affinity, "auto") == 0 ? (n + WHOLE - 1) / WHOLE * WHOLE : -1;
}

static void say_lack(const struct as_spec_devices *devices, int64_t n, enum as_crew_kind kind,
                     struct as_buf *why)
{
    as_buf_printf(why, "it needs %g %s of its own, and of %u there are not so many free",
                  (double)n / WHOLE, nouns[kind], devices->n);
}

static void add(struct as_spec_devices *devices, const struct as_crew_taken *t)
{
    if (t->list && t->n)
        as_spec_devices_return(devices, t->n, t->list, true);
}

/* What is free is counted in a copy. */
static void lacks(const struct as_crew_deployment *d, enum as_crew_kind kind, int64_t n,
                  const struct as_plan_room *room, struct as_buf *why)
{
    struct as_spec_devices devices = d->crew->devices[kind];
    const struct as_crew_kept *kept = &d->kept[kind];
    struct as_buf list;

    if (n <= 0 || n > (int64_t)devices.n * WHOLE)
        return;
    for (uint32_t i = 0; room->kept && i < kept->n; i++)
        add(&devices, &kept->all[i]);
    for (uint32_t i = 0; i < room->n; i++) {
        const struct as_crew_life *l = as_crew_life(room->ended[i]);

        if (l)
            add(&devices, &l->taken[kind]);
    }
    as_buf_init(&list);
    if (as_spec_devices_take(&devices, n, &list) < 0)
        say_lack(&devices, n, kind, why);
    as_buf_fini(&list);
}

struct as_str as_crew_lacks(void *ctx, const struct as_place *pl, const struct as_plan_room *room)
{
    struct as_crew_deployment *d = ctx;
    const struct as_crew_life *l = as_crew_life(pl);
    struct as_catalog_page page;

    as_buf_drop(&d->lack, d->lack.n);
    if (!as_catalog_find(&d->crew->catalog, as_place_facts(pl)->generation, as_str_of(d->name),
                         &page))
        return AS_STR(""); /* its start fails, and says why */
    for (enum as_crew_kind kind = 0; kind < AS_CREW_KINDS && !d->lack.n; kind++) {
        if (!l || !l->taken[kind].list)
            lacks(d, kind, wanted(page.deployment, kind), room, &d->lack);
    }
    return as_buf_slice(&d->lack);
}

static bool release_last(struct as_crew_deployment *d, enum as_crew_kind kind)
{
    struct as_crew_kept *kept = &d->kept[kind];

    if (kept->n == 0)
        return false;
    add(&d->crew->devices[kind], &kept->all[--kept->n]);
    free(kept->all[kept->n].list);
    return true;
}

/* Of what is free, else also of what is kept: the plan has asked, and there is enough. */
static int take(struct as_crew_life *l, enum as_crew_kind kind, int64_t n, struct as_buf *why)
{
    struct as_crew_deployment *d = l->deployment;
    struct as_spec_devices *devices = &d->crew->devices[kind];
    struct as_buf list;
    int rc;

    if (n < 0 || l->taken[kind].list)
        return 0;
    as_buf_init(&list);
    do
        rc = as_spec_devices_take(devices, n, &list);
    while (rc < 0 && release_last(d, kind));
    if (rc < 0) {
        as_buf_fini(&list);
        say_lack(devices, n, kind, why);
        as_buf_str(why, "\n");
        return rc;
    }
    as_buf_add(&list, "", 1);
    l->taken[kind] = (struct as_crew_taken){n, (char *)list.p};
    return 0;
}

int as_crew_take(struct as_crew_life *l, const struct as_spec_object *deployment,
                 struct as_buf *why)
{
    for (enum as_crew_kind kind = 0; kind < AS_CREW_KINDS; kind++) {
        int rc = take(l, kind, wanted(deployment, kind), why);

        if (rc < 0)
            return rc;
    }
    return 0;
}

void as_crew_give_back(struct as_place *pl)
{
    struct as_crew_life *l = as_crew_life(pl);

    for (enum as_crew_kind kind = 0; kind < AS_CREW_KINDS; kind++) {
        struct as_crew_kept *kept = &l->deployment->kept[kind];

        if (l->taken[kind].n) {
            kept->all = as_xrealloc(kept->all, (kept->n + 1) * sizeof(*kept->all));
            kept->all[kept->n++] = l->taken[kind];
        } else {
            free(l->taken[kind].list);
        }
        l->taken[kind] = (struct as_crew_taken){0};
    }
}

bool as_crew_release(void *ctx)
{
    struct as_crew_deployment *d = ctx;
    bool some = false;

    for (enum as_crew_kind kind = 0; kind < AS_CREW_KINDS; kind++) {
        while (release_last(d, kind))
            some = true;
        free(d->kept[kind].all);
        d->kept[kind] = (struct as_crew_kept){0};
    }
    return some;
}

/* --- the note --- */

void as_crew_note_taken(const struct as_crew_life *l, struct as_buf *note)
{
    for (enum as_crew_kind kind = 0; kind < AS_CREW_KINDS; kind++) {
        const struct as_crew_taken *t = &l->taken[kind];

        if (t->list)
            as_buf_printf(note, "%s%" PRId64 "/%s", keys[kind], t->n, t->list);
    }
}

/* " NAME=N/LIST" */
static void adopt(struct as_spec_devices *devices, struct as_crew_taken *t, const char *key,
                  const char *note)
{
    const char *at = strstr(note, key);
    char *slash;
    int64_t n = at ? strtoll(at + strlen(key), &slash, 10) : 0;

    if (!at || *slash != '/' || n < 0)
        return;
    *t = (struct as_crew_taken){n, as_str_dup((struct as_str){slash + 1, strcspn(slash + 1, " ")})};
    /* a device that is not there any more: nothing can be given back later */
    if (n && as_spec_devices_return(devices, n, t->list, false) < 0)
        t->n = 0;
}

void as_crew_adopt_taken(struct as_crew *c, struct as_crew_life *l, struct as_str note)
{
    char *text = as_str_dup(note);

    for (enum as_crew_kind kind = 0; kind < AS_CREW_KINDS; kind++)
        adopt(&c->devices[kind], &l->taken[kind], keys[kind], text);
    free(text);
}
