#include "app/commands/await.h"

#include "app/client/event_stream.h"
#include "conf/option/exit_code.h"

struct waiting {
    const struct as_changes *changes;       /* of applications; NULL: … */
    const struct as_await_request *request; /* … of one deployment */
    bool failed, superseded;
};

/* --- the rows that belong to the change --- */

/* For a request about one deployment, only the row of that deployment. */
static bool concerns(const struct waiting *w, const struct as_state *st)
{
    if (w->changes)
        return as_changes_affect(w->changes, st->application);
    return strcmp(w->request->application, st->application) == 0 &&
           strcmp(w->request->deployment, st->deployment) == 0;
}

/* The change removes every deployment of the application. */
static bool is_removed(const struct as_changes *c, const char *application)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (strcmp(c->all[i].application, application) == 0 && c->all[i].step != AS_CHANGE_REMOVED)
            return false;
    }
    return true;
}

/* --- superseded by another change --- */

static const struct as_change *change_of(const struct as_changes *c, const struct as_state *st)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (strcmp(c->all[i].application, st->application) == 0 &&
            strcmp(c->all[i].deployment, st->deployment) == 0)
            return &c->all[i];
    }
    return NULL;
}

static int64_t own_generation(const struct waiting *w)
{
    return w->changes ? w->changes->generation : w->request->generation;
}

/* The deployment is one that the change adds or modifies. */
static bool is_changing(const struct waiting *w, const struct as_state *st)
{
    const struct as_change *c = w->changes ? change_of(w->changes, st) : NULL;

    if (st->kind != AS_STATE_DEPLOYMENT)
        return false;
    return w->changes ? c && c->step != AS_CHANGE_UNCHANGED && c->step != AS_CHANGE_REMOVED
                      : concerns(w, st);
}

/* A later generation with the same number of replicas does not supersede: the request is still
 * valid.
 */
static bool is_superseded(const struct waiting *w, const struct as_state *st)
{
    return own_generation(w) > 0 && st->generation > own_generation(w) &&
           (w->changes || w->request->replicas < 0 || st->target != w->request->replicas);
}

static void check_superseded(struct waiting *w, const struct as_states *s)
{
    for (uint32_t i = 0; i < s->n && !w->superseded; i++) {
        const struct as_state *st = s->all[i];

        if (!is_changing(w, st) || !is_superseded(w, st))
            continue;
        w->superseded = true;
        fprintf(stderr, "anyserve: superseded by generation %lld of %s/%s",
                (long long)st->generation, st->application, st->deployment);
        if (!w->changes && w->request->replicas >= 0)
            fprintf(stderr, ": %lld %s wanted, not %lld", (long long)st->target,
                    st->target == 1 ? "replica is" : "replicas are",
                    (long long)w->request->replicas);
        fprintf(stderr, "; see anyserve history\n");
    }
}

/* --- progress --- */

/* True: the state `reached` is not reached yet. */
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
    struct waiting *w = ctx;
    struct as_buf line = {0};

    if (!concerns(w, st))
        return;
    as_states_line(st, gone, &line);
    fprintf(stderr, "  %.*s", AS_STR_FMT(as_buf_slice(&line)));
    as_buf_fini(&line);
    if (!gone || w->superseded || !is_changing(w, st))
        return;
    w->superseded = true;
    fprintf(stderr, "anyserve: superseded: %s/%s is served no longer; see anyserve history\n",
            st->application, st->deployment);
}

/* Stops at the first failure, whatever the state of the others. */
static bool on_caught_up(void *ctx, const struct as_states *s)
{
    struct waiting *w = ctx;
    bool pending;

    check_superseded(w, s);
    if (w->superseded)
        return false;
    pending = w->changes
                  ? are_pending(w, s)
                  : is_pending(
                        w, as_states_deployment(s, w->request->application, w->request->deployment),
                        "HEALTHY");
    return pending && !w->failed;
}

/* Prints the whole message: it may be a traceback. */
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

static int follow_until_done(struct waiting *w, const struct as_option_set *opts)
{
    struct as_event_stream f = {.on_change = on_change,
                                .on_caught_up = on_caught_up,
                                .ctx = w,
                                .stop_fd = -1,
                                .deadline = AS_NEVER};
    int code;

    switch (as_event_stream_run(&f, opts)) {
    case AS_CONTROL_CLIENT_STOPPED:
        code = w->superseded ? AS_EXIT_CODE_FAILED
               : w->failed   ? AS_EXIT_CODE_DEPLOY_FAILED
                             : AS_EXIT_CODE_OK;
        break;
    case AS_CONTROL_CLIENT_DEADLINE:
        code = as_control_client_print_timeout(
            opts, "not done within --timeout; the server continues with it");
        break;
    default: /* stderr says why */
        code = f.code;
        break;
    }
    if (w->failed)
        print_failures(w, &f.states);
    as_event_stream_fini(&f);
    return code;
}

int as_await_changes(const struct as_option_set *opts, const struct as_changes *c)
{
    return follow_until_done(&(struct waiting){.changes = c}, opts);
}

int as_await_deployment(const struct as_option_set *opts, const struct as_await_request *request)
{
    return follow_until_done(&(struct waiting){.request = request}, opts);
}
