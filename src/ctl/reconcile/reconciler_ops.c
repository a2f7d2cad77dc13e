/* What the plans order, as messages. */
#include "conf/exit_code.h"
#include "ctl/reconcile/reconciler_internal.h"
#include "ctl/message/replica_facts.h"
#include "ctl/output/output.h"
#include "ctl/state/runtime_dir.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

struct as_crew_life *as_crew_give_life(struct as_crew_deployment *d, struct as_place *pl)
{
    struct as_crew_life *l = as_crew_life(pl);

    if (!l) {
        l = as_xalloc(sizeof(*l));
        l->deployment = d;
        as_buf_init(&l->reason);
        as_place_set_user(pl, l);
    }
    return l;
}

void as_crew_free_life(struct as_place *pl)
{
    struct as_crew_life *l = as_crew_life(pl);

    if (!l)
        return;
    as_crew_give_back(pl);
    as_crew_drop_letter(pl);
    as_buf_fini(&l->reason);
    free(l);
    as_place_set_user(pl, NULL);
}

/* --- the plan's orders --- */

static void op_note(void *ctx AS_UNUSED, struct as_place *pl)
{
    char facts[AS_NOTE_MAX];
    struct as_str s = as_note_write(as_place_facts(pl), facts);
    struct as_buf note;

    as_buf_init(&note);
    as_buf_add(&note, s.p, s.n);
    as_crew_note_taken(as_crew_life(pl), &note);
    as_crew_say_of(pl, (struct as_ctl_message){.type = AS_CTL_NOTE, .text = as_buf_slice(&note)});
    as_buf_fini(&note);
}

/* The plan may not be told within its own order: the end of the turn tells it. */
static void cannot_start(struct as_place *pl, struct as_str why)
{
    struct as_crew_life *l = as_crew_life(pl);

    as_buf_drop(&l->reason, l->reason.n);
    as_buf_add(&l->reason, why.p, why.n);
    l->status = AS_CODE_CONFIG << 8;
    l->kind = AS_EXIT_CODE;
    l->has_ended = true;
    as_loop_defer(l->deployment->crew->loop, &l->deployment->crew->after);
}

static void op_start(void *ctx, struct as_place *pl)
{
    struct as_crew_deployment *d = ctx;
    struct as_crew_life *l = as_crew_give_life(d, pl);
    struct as_buf text, why;

    as_runtime_random_hex(l->token, AS_CREW_TOKEN_BYTES);
    l->pid = 0;
    l->wait = AS_CREW_WAITS_NOT;
    d->crew->n_started++;
    as_buf_init(&text);
    as_buf_init(&why);
    if (as_crew_prepare(pl, &text, &why) < 0) {
        cannot_start(pl, as_buf_slice(&why));
    } else {
        /* the note first: who finds the process finds its facts */
        op_note(ctx, pl);
        as_crew_say_of(pl,
                       (struct as_ctl_message){.type = AS_CTL_SPAWN, .text = as_buf_slice(&text)});
    }
    as_buf_fini(&text);
    as_buf_fini(&why);
}

static void op_configure(void *ctx AS_UNUSED, struct as_place *pl, uint64_t ask,
                         const struct as_place_facts *to)
{
    struct as_buf text;

    as_buf_init(&text);
    as_crew_question(pl, to, &text);
    as_crew_say_of(
        pl, (struct as_ctl_message){.type = AS_CTL_ASK, .id = ask, .text = as_buf_slice(&text)});
    as_buf_fini(&text);
}

static void op_retire(void *ctx AS_UNUSED, struct as_place *pl)
{
    as_crew_say_of(pl, (struct as_ctl_message){.type = AS_CTL_RETIRE});
}

static void op_stop(void *ctx AS_UNUSED, struct as_place *pl, as_ns timeout)
{
    as_crew_say_of(
        pl, (struct as_ctl_message){.type = AS_CTL_SIGNAL, .number = SIGTERM, .ns = timeout});
}

static void op_kill(void *ctx AS_UNUSED, struct as_place *pl, struct as_str why)
{
    as_crew_say_of(pl, (struct as_ctl_message){.type = AS_CTL_KILL, .text = why});
}

/* The server's exit code when this end means that the application cannot start, else 0. */
static int fatal_code(const struct as_crew *c, const struct as_place *pl)
{
    int status = as_crew_life(pl)->status;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : AS_CODE_FAILED;

    /* Once it has served, whatever happens to a worker is answered by starting it again: a server
     * does not end because of what a request did. */
    if (c->once_ready || c->fatal || c->conf.stays)
        return 0;
    return as_code_fatal(code) ? code : as_place_state(pl) == AS_PLACE_DOWN ? AS_CODE_FAILED : 0;
}

static void log_exit(const struct as_crew *c, const struct as_place *pl, bool fatal)
{
    char reason[256], last[512], next[64];
    bool down = as_place_state(pl) == AS_PLACE_DOWN;
    as_ns due = as_place_due(pl), now = as_loop_now(c->loop);
    unsigned long long ms = due > now ? (due - now) / AS_MS : 0;
    struct as_str why, end;

    as_output_report(as_place_reason(pl), &why, &end);
    if (fatal)
        snprintf(next, sizeof(next), "none: the server ends");
    else
        snprintf(next, sizeof(next), down ? "given up for %llu ms" : "restart in %llu ms", ms);
    as_log_event(c->log, down ? AS_LOG_ERROR : AS_LOG_WARN, "worker_exit",
                 "replica=%s pid=%d reason=%s next=\"%s\" last=%s", as_crew_place_name(pl),
                 (int)as_crew_life(pl)->pid, as_log_quote(reason, sizeof(reason), why), next,
                 as_log_quote(last, sizeof(last), end));
}

/* Its process has ended, and another one is to come. */
static void ended(struct as_crew *c, struct as_place *pl)
{
    int code = fatal_code(c, pl);

    log_exit(c, pl, code != 0);
    as_crew_life(pl)->pid = 0;
    if (as_place_state(pl) == AS_PLACE_DOWN)
        as_crew_give_back(pl);
    as_crew_drop_letter(pl);
    as_crew_say_place(pl);
    if (!code)
        return;
    c->fatal = true;
    as_crew_say_of(pl, (struct as_ctl_message){.type = AS_CTL_FATAL,
                                               .number = (uint32_t)code,
                                               .text = as_place_reason(pl)});
}

static void op_moved(void *ctx, struct as_place *pl, enum as_place_state from)
{
    struct as_crew_deployment *d = ctx;
    enum as_place_state to = as_place_state(pl);

    as_crew_give_life(d, pl);
    as_loop_defer(d->crew->loop, &d->crew->after);
    if (to == AS_PLACE_WAITING || to == AS_PLACE_DOWN) {
        if (from != AS_PLACE_DOWN)
            ended(d->crew, pl);
    } else if (to == AS_PLACE_RUNNING && from != AS_PLACE_UPDATING) {
        as_log_event(d->crew->log, AS_LOG_DEBUG, "worker_ready", "replica=%s pid=%d",
                     as_crew_place_name(pl), (int)as_crew_life(pl)->pid);
        if (d->down)
            as_crew_say_down(d, false, AS_STR(""));
    }
}

static void op_gone(void *ctx, struct as_place *pl)
{
    struct as_crew_deployment *d = ctx;

    as_crew_give_life(d, pl);
    as_crew_say_of(pl, (struct as_ctl_message){.type = AS_CTL_REMOVE});
    as_crew_free_life(pl);
}

static void op_condition(void *ctx, const struct as_condition *cond)
{
    struct as_crew_deployment *d = ctx;
    char text[512];

    as_crew_say_status(d);
    as_log_event(d->crew->log, AS_LOG_DEBUG, "deployment_status",
                 "deployment=%s status=%s trigger=%s message=%s", d->name,
                 as_condition_status_name(cond->status), as_condition_trigger_name(cond->trigger),
                 as_log_quote(text, sizeof(text), as_condition_text(cond)));
}

/* Kept for the end of the turn: the owner may answer with another generation. */
static void op_rolled_back(void *ctx, uint64_t from, uint64_t to AS_UNUSED, struct as_str why)
{
    struct as_crew_deployment *d = ctx;

    d->failed = from;
    as_buf_drop(&d->why, d->why.n);
    as_buf_add(&d->why, why.p, why.n);
    as_loop_defer(d->crew->loop, &d->crew->after);
}

static void op_down(void *ctx, bool down, struct as_str why)
{
    struct as_crew_deployment *d = ctx;

    if (d->down != down)
        as_crew_say_down(d, down, why);
}

static void op_settled(void *ctx, const struct as_plan_target *t AS_UNUSED)
{
    struct as_crew_deployment *d = ctx;

    d->settled = true;
    as_loop_defer(d->crew->loop, &d->crew->after);
}

const struct as_plan_ops as_crew_plan_ops = {.start = op_start,
                                             .lacks = as_crew_lacks,
                                             .release = as_crew_release,
                                             .note = op_note,
                                             .configure = op_configure,
                                             .retire = op_retire,
                                             .stop = op_stop,
                                             .kill = op_kill,
                                             .moved = op_moved,
                                             .gone = op_gone,
                                             .condition = op_condition,
                                             .rolled_back = op_rolled_back,
                                             .down = op_down,
                                             .settled = op_settled};
