/* A process for a place: what it is started with, what it takes of the machine, and what it is told
 * later. */
#include "conf/spec_plan.h"
#include "ctl/context.h"
#include "ctl/crew_own.h"

#include <errno.h>
#include <inttypes.h>

#define WHOLE 1000

/* --- devices --- */

static int64_t wanted_gpus(const struct as_spec_object *d)
{
    return as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_GPUS)
               ? as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_GPUS)
               : -1;
}

/* `auto`: CPUs of its own, as many as num_cpus says, rounded up. */
static int64_t wanted_cpus(const struct as_spec_object *d)
{
    const char *affinity = as_spec_str(d, AS_SPEC_DEPLOYMENT_CPU_AFFINITY);
    int64_t n = as_spec_is_set(d, AS_SPEC_DEPLOYMENT_NUM_CPUS)
                    ? as_spec_thousandths(d, AS_SPEC_DEPLOYMENT_NUM_CPUS)
                    : WHOLE;

    return affinity && strcmp(affinity, "auto") == 0 ? (n + WHOLE - 1) / WHOLE * WHOLE : -1;
}

static int take(struct as_spec_devices *devices, struct as_crew_taken *t, int64_t n,
                const char *what, struct as_buf *why)
{
    struct as_buf list;

    if (n < 0)
        return 0;
    as_buf_init(&list);
    if (as_spec_devices_take(devices, n, &list) < 0) {
        as_buf_fini(&list);
        as_buf_printf(why, "it needs %g %s of its own, and of %u there are not so many free\n",
                      (double)n / WHOLE, what, devices->n);
        return AS_EFULL;
    }
    as_buf_add(&list, "", 1);
    *t = (struct as_crew_taken){n, (char *)list.p};
    return 0;
}

static void give(struct as_spec_devices *devices, struct as_crew_taken *t)
{
    if (t->list && t->n)
        as_spec_devices_return(devices, t->n, t->list, true);
    free(t->list);
    *t = (struct as_crew_taken){0};
}

void as_crew_give_back(struct as_place *pl)
{
    struct as_crew_life *l = as_crew_life(pl);

    give(&l->deployment->crew->gpus, &l->gpus);
    give(&l->deployment->crew->cpus, &l->cpus);
}

static void note_taken(const struct as_crew_taken *t, const char *name, struct as_buf *note)
{
    if (t->list)
        as_buf_printf(note, " %s=%" PRId64 "/%s", name, t->n, t->list);
}

void as_crew_note_taken(const struct as_crew_life *l, struct as_buf *note)
{
    note_taken(&l->gpus, "gpus", note);
    note_taken(&l->cpus, "cpus", note);
}

/* " NAME=N/LIST" */
static void adopt(struct as_spec_devices *devices, struct as_crew_taken *t, const char *name,
                  const char *note)
{
    const char *at = strstr(note, name);
    char *slash;
    int64_t n = at ? strtoll(at + strlen(name), &slash, 10) : 0;

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

    adopt(&c->gpus, &l->gpus, " gpus=", text);
    adopt(&c->cpus, &l->cpus, " cpus=", text);
    free(text);
}

/* --- what it is told --- */

void as_crew_drop_letter(struct as_place *pl)
{
    struct as_crew_life *l = as_crew_life(pl);

    if (l->letter)
        as_context_remove(l->deployment->crew->conf.folder, as_crew_place_name(pl));
    l->letter = false;
}

int as_crew_prepare(struct as_place *pl, struct as_buf *text, struct as_buf *why)
{
    const struct as_place_facts *f = as_place_facts(pl);
    struct as_crew_life *l = as_crew_life(pl);
    struct as_crew *c = l->deployment->crew;
    struct as_catalog_page page;
    struct as_buf json, env;
    int rc;

    if (!as_catalog_find(&c->catalog, f->generation, as_str_of(l->deployment->name), &page)) {
        as_buf_printf(why, "what generation %" PRIu64 " is like is not known any more\n",
                      f->generation);
        return AS_ENOTFOUND;
    }
    rc = take(&c->gpus, &l->gpus, wanted_gpus(page.deployment), "GPUs", why);
    if (rc == 0)
        rc = take(&c->cpus, &l->cpus, wanted_cpus(page.deployment), "CPUs", why);
    if (rc < 0)
        return rc;
    as_buf_init(&json);
    as_buf_init(&env);
    as_spec_put_context(page.app, page.deployment, as_crew_place_name(pl), f, &json);
    l->letter = json.n > AS_CONTEXT_INLINE;
    rc = as_context_env(c->conf.folder, as_crew_place_name(pl), as_buf_slice(&json), &env);
    as_buf_add(&env, "", 1);
    if (rc < 0)
        as_buf_printf(why, "cannot write its user_config to %s: %s\n", c->conf.folder,
                      strerror(errno));
    else
        as_recipe_write(&c->conf.recipe, page.app, page.deployment,
                        &(struct as_recipe_replica){.name = as_crew_place_name(pl),
                                                    .token = l->token,
                                                    .context = (const char *)env.p,
                                                    .gpus = l->gpus.list,
                                                    .cpus = l->cpus.list},
                        text);
    as_buf_fini(&json);
    as_buf_fini(&env);
    AS_ASSERT(text->n <= AS_CTL_TEXT_MAX); /* what is deployed was measured (as_recipe_own) */
    return rc;
}

/* What it was told is not what it shall be told now, or nobody knows. */
static bool other_config(struct as_crew *c, const struct as_place *pl,
                         const struct as_place_facts *facts, const struct as_spec_object *to)
{
    struct as_crew_life *l = as_crew_life(pl);
    const char *a, *b = as_spec_str(to, AS_SPEC_DEPLOYMENT_USER_CONFIG);
    struct as_catalog_page was;

    if (facts->unsure || !as_catalog_find(&c->catalog, as_place_facts(pl)->generation,
                                          as_str_of(l->deployment->name), &was))
        return true;
    a = as_spec_str(was.deployment, AS_SPEC_DEPLOYMENT_USER_CONFIG);
    return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

void as_crew_question(struct as_place *pl, const struct as_place_facts *to, struct as_buf *text)
{
    struct as_crew_life *l = as_crew_life(pl);
    struct as_crew *c = l->deployment->crew;
    struct as_catalog_page page;
    struct as_buf json;

    as_buf_init(&json);
    if (as_catalog_find(&c->catalog, to->generation, as_str_of(l->deployment->name), &page))
        as_spec_put_changes(page.deployment, to, other_config(c, pl, to, page.deployment), &json);
    as_buf_str(text, "reconfigure ");
    l->letter = json.n > AS_CONTEXT_INLINE;
    /* a replica that is told nothing that it understands refuses, and says so */
    if (as_context_ask(c->conf.folder, as_crew_place_name(pl), as_buf_slice(&json), text) < 0)
        as_log_event(c->log, AS_LOG_ERROR, "context_not_written",
                     "replica=%s folder=%s reason=\"%s\"", as_crew_place_name(pl), c->conf.folder,
                     strerror(errno));
    as_buf_fini(&json);
}
