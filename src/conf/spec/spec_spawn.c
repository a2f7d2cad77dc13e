#include "conf/spec/spec_spawn.h"

#define WHOLE 1000

/* --- devices --- */

/* A position in a list as "0-3,8". */
struct cursor {
    const char *p;
    unsigned long next, last; /* of the range that was read; next above last: it is used up */
    bool begun;
};

/* 1: *ret_v is the next number of the list; 0: there is none; AS_EINVALID: it is not a list. */
static int next_id(struct cursor *c, uint32_t *ret_v)
{
    if (!c->begun || c->next > c->last) {
        if (*c->p == 0)
            return 0;
        if (c->begun && *c->p++ != ',')
            return AS_EINVALID;
        if (!as_str_range(&c->p, &c->next, &c->last) || c->last > UINT16_MAX)
            return AS_EINVALID;
        c->begun = true;
    }
    *ret_v = (uint32_t)c->next++;
    return 1;
}

int as_spec_devices_init(struct as_spec_devices *ret_d, const char *list)
{
    struct cursor c = {.p = list};
    uint32_t v, n = 0;
    int more;

    while ((more = next_id(&c, &v)) > 0) {
        if (n == AS_SPEC_DEVICES_MAX)
            return AS_EINVALID;
        ret_d->id[n] = (uint16_t)v;
        ret_d->used[n++] = 0;
    }
    ret_d->n = n;
    return more;
}

static void append_id(struct as_buf *list, size_t from, uint16_t id)
{
    as_buf_printf(list, "%s%u", list->n > from ? "," : "", id);
}

/* Allocates a part on the fullest device that has room, so that whole devices stay free. */
static int allocate_part(struct as_spec_devices *d, uint16_t part, struct as_buf *ret_list)
{
    uint32_t best = d->n;

    for (uint32_t i = 0; i < d->n; i++) {
        if (d->used[i] + part <= WHOLE && (best == d->n || d->used[i] > d->used[best]))
            best = i;
    }
    if (best == d->n)
        return AS_EFULL;
    d->used[best] = (uint16_t)(d->used[best] + part);
    append_id(ret_list, ret_list->n, d->id[best]);
    return 0;
}

int as_spec_devices_allocate(struct as_spec_devices *d, int64_t thousandths,
                             struct as_buf *ret_list)
{
    int64_t wanted = thousandths / WHOLE, there = 0;
    size_t from = ret_list->n;

    if (thousandths < WHOLE)
        return thousandths ? allocate_part(d, (uint16_t)thousandths, ret_list) : 0;
    for (uint32_t i = 0; i < d->n; i++)
        there += d->used[i] == 0;
    if (there < wanted)
        return AS_EFULL;
    for (uint32_t i = 0; i < d->n && wanted; i++) {
        if (d->used[i] == 0) {
            d->used[i] = WHOLE;
            append_id(ret_list, from, d->id[i]);
            wanted--;
        }
    }
    return 0;
}

/* sign: 1 allocates, -1 releases. */
static int adjust(struct as_spec_devices *d, int64_t thousandths, const char *list, int sign)
{
    int each = (int)AS_MIN(thousandths, (int64_t)WHOLE);
    struct as_spec_devices then = *d;
    struct cursor c = {.p = list};
    int64_t sum = 0;
    uint32_t v;
    int more;

    while ((more = next_id(&c, &v)) > 0) {
        uint32_t i = 0;
        int used;

        while (i < then.n && then.id[i] != v)
            i++;
        used = i < then.n ? then.used[i] + sign * each : -1;
        if (used < 0 || used > WHOLE)
            return AS_EINVALID;
        then.used[i] = (uint16_t)used;
        sum += each;
    }
    if (more < 0 || sum != thousandths)
        return AS_EINVALID;
    *d = then;
    return 0;
}

int as_spec_devices_claim(struct as_spec_devices *d, int64_t thousandths, const char *list)
{
    return adjust(d, thousandths, list, 1);
}

int as_spec_devices_release(struct as_spec_devices *d, int64_t thousandths, const char *list)
{
    return adjust(d, thousandths, list, -1);
}

/* --- the process --- */

/* The variables that limit the threads of the libraries below numpy and torch. With more threads
 * than CPUs all threads wait for each other. */
static const char *const thread_variables[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS",
                                               "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                                               "VECLIB_MAXIMUM_THREADS"};

static bool env_has(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    }
    return false;
}

void as_spec_spawn_init(struct as_spec_spawn *ret_s, const struct as_spec_object *app,
                        const struct as_spec_object *deployment, const char *gpus, const char *cpus,
                        uint32_t threads)
{
    const char **user = as_spec_env(app, deployment), **env, *at;
    const char *affinity = as_spec_str(deployment, AS_SPEC_DEPLOYMENT_CPU_AFFINITY);
    struct as_buf own = {0}; /* lines, each with a NUL */
    size_t n = 0, k = 0;

    if (as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_NUM_CPUS))
        threads =
            (uint32_t)((as_spec_thousandths(deployment, AS_SPEC_DEPLOYMENT_NUM_CPUS) + WHOLE - 1) /
                       WHOLE);
    for (size_t i = 0; threads && i < AS_COUNT(thread_variables); i++) {
        if (!env_has(user, thread_variables[i])) {
            as_buf_printf(&own, "%s=%u", thread_variables[i], threads);
            as_buf_add(&own, "", 1);
            k++;
        }
    }
    if (gpus && !env_has(user, "CUDA_VISIBLE_DEVICES")) {
        as_buf_printf(&own, "CUDA_VISIBLE_DEVICES=%s", gpus);
        as_buf_add(&own, "", 1);
        k++;
    }
    while (user[n])
        n++;
    env = as_xrealloc(user, (n + k + 1) * sizeof(*env));
    at = (const char *)own.p;
    for (size_t i = 0; i < k; i++, at += strlen(at) + 1)
        env[n + i] = at;
    env[n + k] = NULL;
    *ret_s = (struct as_spec_spawn){
        .env = env,
        .dir = as_spec_working_dir(app, deployment),
        .cpus = affinity && strcmp(affinity, "auto") != 0 ? affinity : cpus,
        .memory = as_spec_is_set(deployment, AS_SPEC_DEPLOYMENT_MEMORY)
                      ? (uint64_t)as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_MEMORY)
                      : 0,
        .owned = (char *)own.p, /* ownership of the buffer's memory moves here */
    };
}

void as_spec_spawn_fini(struct as_spec_spawn *s)
{
    free(s->env);
    free(s->owned);
    *s = (struct as_spec_spawn){0};
}
