/* What the plans order, as messages. */
#include "ctl/crew_own.h"
#include "ctl/exit_code.h"
#include "ctl/note.h"
#include "ctl/output.h"
#include "ctl/runtime_dir.h"

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
    as_buf_fini(&l->reason);
    free(l);
    as_place_set_user(pl, NULL);
}

/* --- what is said --- */

static void say(struct as_place *pl, struct as_ctl_message m)
{
    struct as_crew_life *l = as_crew_life(pl);
    uint32_t starts = as_place_facts(pl)->starts;

    m.replica = as_place_name(pl);
    m.deployment = as_str_of(l->deployment->name);
    m.token = as_str_of(l->token);
    m.restarts = starts ? starts - 1 : 0;
    l->deployment->crew->say(l->deployment->crew->ctx, &m);
}

void as_crew_say_place(struct as_place *pl)
{
    bool down = as_place_state(pl) == AS_PLACE_DOWN;

    say(pl, (struct as_ctl_message){.type = AS_CTL_PLACE,
                                    .state = down ? AS_CTL_DOWN_STATE : AS_CTL_WAITING_STATE,
                                    .text = as_crew_life(pl)->stands
                                                ? AS_STR("others are starting (--max-starting)")
                                                : as_place_reason(pl)});
}

static void say_down(struct as_crew_deployment *d, bool down, struct as_str why)
{
    d->down = down;
    d->crew->say(d->crew->ctx, &(struct as_ctl_message){.type = down ? AS_CTL_DOWN : AS_CTL_UP,
                                                        .deployment = as_str_of(d->name),
                                                        .text = why});
}

static void say_text(const struct as_crew *c, const char *deployment, as_ns since, struct as_buf *b)
{
    c->say(c->ctx, &(struct as_ctl_message){.type = AS_CTL_STATUS,
                                            .deployment = as_str_of(deployment),
                                            .ns = since,
                                            .text = as_buf_slice(b)});
    as_buf_fini(b);
}

/* The one application that there is, when it has changed. */
static void say_application(struct as_crew *c, as_ns now)
{
    const struct as_condition **all = as_xalloc((c->n + 1) * sizeof(*all));
    enum as_application_status s;
    struct as_buf b;

    for (uint32_t i = 0; i < c->n; i++)
        all[i] = as_plan_condition(c->deployments[i].plan);
    s = as_application_status_of(all, c->n, false);
    free(all);
    if (s == c->application)
        return;
    c->application = s;
    as_buf_init(&b);
    as_buf_printf(&b, "%s  ", as_application_status_name(s)); /* no trigger, no message */
    say_text(c, "", now, &b);
}

void as_crew_say_status(struct as_crew_deployment *d)
{
    const struct as_condition *c = as_plan_condition(d->plan);
    struct as_buf b;

    if (!d->crew->told)
        return; /* while what was before is taken over */
    as_buf_init(&b);
    as_buf_printf(&b, "%s %s %.*s", as_condition_status_name(c->status),
                  as_condition_trigger_name(c->trigger), AS_STR_FMT(as_condition_text(c)));
    say_text(d->crew, d->name, c->since, &b);
    say_application(d->crew, c->since);
}

/* --- the plan's orders --- */

static void op_note(void *ctx AS_UNUSED, struct as_place *pl)
{
    char note[AS_NOTE_MAX];

    say(pl, (struct as_ctl_message){.type = AS_CTL_NOTE,
                                    .text = as_note_write(as_place_facts(pl), note)});
}

static void op_start(void *ctx, struct as_place *pl)
{
    struct as_crew_deployment *d = ctx;
    struct as_crew_life *l = as_crew_give_life(d, pl);
    struct as_buf text;

    as_runtime_random_hex(l->token, AS_CREW_TOKEN_BYTES);
    l->pid = 0;
    l->stands = false;
    d->crew->n_started++;
    /* the note first: who finds the process finds its facts */
    op_note(ctx, pl);
    as_buf_init(&text);
    as_recipe_write(&d->crew->conf.recipe, d->name, as_crew_place_name(pl), l->token, &text);
    as_recipe_put_context(&text, d->name, as_crew_place_name(pl), as_place_facts(pl)->rank,
                          as_place_facts(pl)->world);
    /* the target was started once, to be described: it is no longer than a command line may be */
    AS_ASSERT(text.n <= AS_CTL_TEXT_MAX);
    say(pl, (struct as_ctl_message){.type = AS_CTL_SPAWN, .text = as_buf_slice(&text)});
    as_buf_fini(&text);
}

static void op_configure(void *ctx AS_UNUSED, struct as_place *pl, uint64_t ask,
                         const struct as_place_facts *to)
{
    char text[128];

    /* there is one machine; docs/PROTOCOL.md, section 10 */
    snprintf(text, sizeof(text),
             "reconfigure {\"rank\": %" PRIu32 ", \"local_rank\": %" PRIu32
             ", \"world_size\": %" PRIu32 "}",
             to->rank, to->rank, to->world);
    say(pl, (struct as_ctl_message){.type = AS_CTL_ASK, .id = ask, .text = as_str_of(text)});
}

static void op_retire(void *ctx AS_UNUSED, struct as_place *pl)
{
    say(pl, (struct as_ctl_message){.type = AS_CTL_RETIRE});
}

static void op_stop(void *ctx AS_UNUSED, struct as_place *pl, as_ns timeout)
{
    say(pl, (struct as_ctl_message){.type = AS_CTL_SIGNAL, .number = SIGTERM, .ns = timeout});
}

static void op_kill(void *ctx AS_UNUSED, struct as_place *pl, struct as_str why)
{
    say(pl, (struct as_ctl_message){.type = AS_CTL_KILL, .text = why});
}

/* The server's exit code when this end means that the application cannot start, else 0. */
static int fatal_code(const struct as_crew *c, const struct as_place *pl)
{
    int status = as_crew_life(pl)->status;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : AS_CODE_FAILED;

    /* Once it has served, whatever happens to a worker is answered by starting it again: a server
     * does not end because of what a request did. */
    if (c->once_ready || c->fatal)
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
    as_crew_say_place(pl);
    if (!code)
        return;
    c->fatal = true;
    say(pl, (struct as_ctl_message){
                .type = AS_CTL_FATAL, .number = (uint32_t)code, .text = as_place_reason(pl)});
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
            say_down(d, false, AS_STR(""));
    }
}

static void op_gone(void *ctx, struct as_place *pl)
{
    struct as_crew_deployment *d = ctx;

    as_crew_give_life(d, pl);
    say(pl, (struct as_ctl_message){.type = AS_CTL_REMOVE});
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

static void op_rolled_back(void *ctx AS_UNUSED, uint64_t from AS_UNUSED, uint64_t to AS_UNUSED,
                           struct as_str why AS_UNUSED)
{
    /* one generation is all there is: nothing is rolled back */
}

static void op_down(void *ctx, bool down, struct as_str why)
{
    struct as_crew_deployment *d = ctx;

    if (d->down != down)
        say_down(d, down, why);
}

static void op_settled(void *ctx AS_UNUSED, const struct as_plan_target *t AS_UNUSED)
{
    /* nothing is kept beyond our end */
}

const struct as_plan_ops as_crew_ops = {.start = op_start,
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
