/* What the crew tells of deployments and applications, for the status page and people. */
#include "ctl/reconcile/reconciler_internal.h"

void as_crew_say_of(struct as_place *pl, struct as_ctl_message m)
{
    struct as_crew_life *l = as_crew_life(pl);
    uint32_t starts = as_place_facts(pl)->starts;

    m.replica = as_place_name(pl);
    m.deployment = as_str_of(l->deployment->name);
    m.token = as_str_of(l->token);
    m.restarts = starts ? starts - 1 : 0;
    l->deployment->crew->ops.say(l->deployment->crew->ctx, &m);
}

/* How its last process ended says nothing of one that is ready by now, nor of one that ends. */
struct as_str as_crew_place_message(const struct as_place *pl)
{
    struct as_str lack = as_place_lack(pl);

    if (lack.n)
        return lack;
    switch (as_place_state(pl)) {
    case AS_PLACE_WAITING:
    case AS_PLACE_STARTING:
    case AS_PLACE_DOWN:
        return as_place_reason(pl);
    default:
        return AS_STR("");
    }
}

void as_crew_message(const struct as_crew_deployment *d, struct as_buf *text)
{
    const struct as_condition *c = as_plan_condition(d->plan);
    struct as_str said = as_condition_text(c), lack = as_condition_lack(c);
    size_t before = text->n;

    as_buf_add(text, said.p, said.n);
    if (said.n && lack.n && said.p[said.n - 1] != '\n')
        as_buf_str(text, "\n");
    as_buf_add(text, lack.p, lack.n);
    if (d->scaled >= 0)
        as_buf_printf(text, "%sscaled to %u; num_replicas is %u", text->n > before ? "\n" : "",
                      (unsigned)d->scaled, d->declared);
    if (d->code && strcmp(d->code, "live") == 0)
        as_buf_printf(text, "%scode: live", text->n > before ? "\n" : "");
}

void as_crew_say_place(struct as_place *pl)
{
    bool down = as_place_state(pl) == AS_PLACE_DOWN;

    as_crew_say_of(
        pl, (struct as_ctl_message){.type = AS_CTL_PLACE,
                                    .state = down ? AS_CTL_DOWN_STATE : AS_CTL_WAITING_STATE,
                                    .text = as_crew_life(pl)->wait == AS_CREW_WAITS_IN_LINE
                                                ? AS_STR("others are starting (--max-starting)")
                                                : as_crew_place_message(pl)});
}

void as_crew_say_down(struct as_crew_deployment *d, bool down, struct as_str why)
{
    d->down = down;
    d->crew->ops.say(d->crew->ctx, &(struct as_ctl_message){.type = down ? AS_CTL_DOWN : AS_CTL_UP,
                                                            .deployment = as_str_of(d->name),
                                                            .text = why});
}

void as_crew_say_delete(struct as_crew_deployment *d, bool gone)
{
    d->crew->ops.say(d->crew->ctx, &(struct as_ctl_message){.type = AS_CTL_DELETE,
                                                            .deployment = as_str_of(d->name),
                                                            .number = gone});
}

/* Of an application. */
static void say_text(const struct as_crew *c, const char *application, as_ns since,
                     struct as_str text)
{
    c->ops.say(c->ctx, &(struct as_ctl_message){.type = AS_CTL_STATUS,
                                                .replica = as_str_of(application),
                                                .ns = since,
                                                .text = text});
}

enum as_application_status as_crew_status(const struct as_crew *c, uint32_t first, uint32_t n)
{
    const struct as_condition **all = as_xalloc((n + 1) * sizeof(const struct as_condition *));
    enum as_application_status s;
    uint32_t ending = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct as_crew_deployment *d = c->deployments[first + i];

        ending += d->deleting;
        all[i] = as_plan_condition(d->plan);
    }
    s = as_application_status_of(all, n, n && ending == n);
    free(all);
    return s;
}

/* Its deployments, of which *ret_first is the first one; 0: it has none. */
static uint32_t find(const struct as_crew *c, const char *name, uint32_t *ret_first)
{
    uint32_t i = 0;

    while (i < c->n && strcmp(c->deployments[i]->application, name) != 0)
        i++;
    *ret_first = i;
    return i < c->n ? as_crew_together(c, i) : 0;
}

static struct as_crew_application *known(struct as_crew *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_applications; i++) {
        if (strcmp(c->applications[i].name, name) == 0)
            return &c->applications[i];
    }
    c->applications =
        as_xrealloc(c->applications, (c->n_applications + 1) * sizeof(*c->applications));
    c->applications[c->n_applications] = (struct as_crew_application){
        .name = as_str_dup(as_str_of(name)), .said = AS_APPLICATION_NOT_STARTED};
    return &c->applications[c->n_applications++];
}

/* When it has changed. False: there is no such application any more. */
static bool say_application(const struct as_crew *c, struct as_crew_application *a, as_ns now)
{
    char text[64]; /* no trigger, no message */
    uint32_t first, n = find(c, a->name, &first);
    enum as_application_status s = as_crew_status(c, first, n);

    if (n && s != a->said) {
        a->said = s;
        snprintf(text, sizeof(text), "%s  ", as_application_status_name(s));
        say_text(c, a->name, now, as_str_of(text));
    } else if (!n) {
        say_text(c, a->name, now, AS_STR(""));
    }
    return n > 0;
}

void as_crew_say_applications(struct as_crew *c)
{
    as_ns now = as_loop_now(c->loop);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->n; i += as_crew_together(c, i))
        known(c, c->deployments[i]->application);
    for (uint32_t i = 0; i < c->n_applications; i++) {
        struct as_crew_application *a = &c->applications[i];

        if (say_application(c, a, now))
            c->applications[kept++] = *a;
        else
            free(a->name);
    }
    c->n_applications = kept;
}

void as_crew_say_status(struct as_crew_deployment *d)
{
    const struct as_condition *c = as_plan_condition(d->plan);
    struct as_buf b;

    if (!d->crew->told)
        return; /* while what was before is taken over */
    as_buf_init(&b);
    as_buf_printf(&b, "%s %s ", as_condition_status_name(c->status),
                  as_condition_trigger_name(c->trigger));
    as_crew_message(d, &b);
    d->said = as_plan_target(d->plan)->replicas;
    d->crew->ops.say(d->crew->ctx, &(struct as_ctl_message){.type = AS_CTL_STATUS,
                                                            .replica = as_str_of(d->application),
                                                            .deployment = as_str_of(d->name),
                                                            .ns = c->since,
                                                            .id = 1,
                                                            .number = d->said,
                                                            .text = as_buf_slice(&b)});
    as_buf_fini(&b);
    say_application(d->crew, known(d->crew, d->application), c->since);
}
