#include "app/await.h"

#include "app/follow.h"
#include "conf/exit_code.h"

struct waiting {
    const struct as_changes *changes;     /* of applications; NULL: … */
    const char *application, *deployment; /* … for one deployment */
    bool failed;
};

as_ns as_await_limit(const struct as_option_set *opts)
{
    as_ns wait = as_option_ns(opts, AS_OPT_WAIT_TIMEOUT);

    return wait ? wait : AS_NEVER;
}

static as_ns deadline_of(const struct as_option_set *opts)
{
    as_ns wait = as_await_limit(opts);

    return wait == AS_NEVER ? AS_NEVER : as_contact_clock() + wait;
}

/* --- what it is about --- */

/* An application itself says nothing of one of its deployments. */
static bool concerns(const struct waiting *w, const struct as_state *st)
{
    if (w->changes)
        return as_changes_touch(w->changes, st->application);
    return strcmp(w->application, st->application) == 0 &&
           strcmp(w->deployment, st->deployment) == 0;
}

/* Nothing of it is to stay. */
static bool is_removed(const struct as_changes *c, const char *application)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (strcmp(c->all[i].application, application) == 0 && c->all[i].step != AS_CHANGE_REMOVED)
            return false;
    }
    return true;
}

/* True: there is more to wait for. */
static bool is_pending(struct waiting *w, const struct as_state *st, const char *reached)
{
    if (st && strcmp(st->status, "DEPLOY_FAILED") == 0)
        w->failed = true;
    return !st || strcmp(st->status, reached) != 0;
}

static bool are_pending(struct waiting *w, const struct as_states *s)
{
    bool pending = false;

    for (uint32_t i = 0; i < w->changes->n; i++) {
        const struct as_change *c = &w->changes->all[i];
        const struct as_state *app = as_states_application(s, c->application);

        if (c->step == AS_CHANGE_UNCHANGED)
            continue;
        if (is_removed(w->changes, c->application))
            pending = pending || app;
        else
            pending = is_pending(w, app, "RUNNING") || pending;
    }
    return pending;
}

/* --- the events --- */

static void on_change(void *ctx, const struct as_state *st, bool gone)
{
    struct as_buf line;

    if (!concerns(ctx, st))
        return;
    as_buf_init(&line);
    as_states_line(st, gone, &line);
    fprintf(stderr, "  %.*s", AS_STR_FMT(as_buf_slice(&line)));
    as_buf_fini(&line);
}

/* One failure is the end, whatever the others become. */
static bool on_rest(void *ctx, const struct as_states *s)
{
    struct waiting *w = ctx;
    bool pending =
        w->changes
            ? are_pending(w, s)
            : is_pending(w, as_states_deployment(s, w->application, w->deployment), "HEALTHY");

    return pending && !w->failed;
}

/* In full: of a traceback every line counts. */
static void print_failures(const struct waiting *w, const struct as_states *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct as_state *st = s->all[i];

        if (st->kind != AS_STATE_DEPLOYMENT || strcmp(st->status, "DEPLOY_FAILED") != 0 ||
            !concerns(w, st))
            continue;
        fprintf(stderr, "anyserve: %s/%s has failed%s:\n%s\n", st->application, st->deployment,
                st->rolled_back ? "; what was served before is served again" : "", st->message);
    }
}

static int wait_for(struct waiting *w, const struct as_option_set *opts)
{
    struct as_follow f = {.on_change = on_change,
                          .on_rest = on_rest,
                          .ctx = w,
                          .stop_fd = -1,
                          .deadline = deadline_of(opts)};
    int code;

    switch (as_follow_run(&f, opts)) {
    case AS_CONTACT_STOPPED:
        code = w->failed ? AS_CODE_DEPLOY_FAILED : AS_CODE_OK;
        break;
    case AS_CONTACT_DEADLINE:
        fprintf(stderr, "anyserve: not done within --timeout; the server goes on with it\n");
        code = AS_CODE_TIMEOUT;
        break;
    default: /* stderr says why */
        code = f.code;
        break;
    }
    if (w->failed)
        print_failures(w, &f.states);
    as_follow_fini(&f);
    return code;
}

int as_await_changes(const struct as_option_set *opts, const struct as_changes *c)
{
    return wait_for(&(struct waiting){.changes = c}, opts);
}

int as_await_deployment(const struct as_option_set *opts, const char *application,
                        const char *deployment)
{
    return wait_for(&(struct waiting){.application = application, .deployment = deployment}, opts);
}
