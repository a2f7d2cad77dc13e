/* Carries out what the plans decide (as_plan_ops), by messages. */
#include "conf/option/exit_code.h"
#include "ctl/message/replica_facts.h"
#include "ctl/output/output.h"
#include "ctl/reconcile/reconciler_internal.h"
#include "io/random.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

struct as_reconciler_process *as_reconciler_ensure_process(struct as_reconciler_deployment *d,
                                                           struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);

    if (!proc) {
        proc = as_xalloc(sizeof(*proc));
        proc->deployment = d;
        as_replica_slot_set_user(slot, proc);
    }
    return proc;
}

void as_reconciler_free_process(struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);

    if (!proc)
        return;
    as_reconciler_reserve_devices(slot);
    as_reconciler_remove_context(slot);
    as_buf_fini(&proc->reason);
    as_buf_fini(&proc->stats);
    free(proc);
    as_replica_slot_set_user(slot, NULL);
}

/* --- as_plan_ops --- */

static void op_note(void *ctx AS_UNUSED, struct as_replica_slot *slot)
{
    char facts[AS_REPLICA_FACTS_MAX];
    struct as_str s = as_replica_facts_write(as_replica_slot_facts(slot), facts);
    struct as_buf note = {0};

    as_buf_add(&note, s.p, s.n);
    as_reconciler_write_devices(as_reconciler_process(slot), &note);
    as_reconciler_send(slot,
                       (struct as_ctl_message){.type = AS_CTL_NOTE, .text = as_buf_slice(&note)});
    as_buf_fini(&note);
}

/* The plan may not be called back from within its own op: the end of the turn reports it. */
static void fail_start(struct as_replica_slot *slot, struct as_str why)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);

    as_buf_set(&proc->reason, why);
    proc->status = AS_EXIT_CODE_CONFIG << 8;
    proc->kind = AS_EXIT_CODE;
    proc->has_ended = true;
    as_loop_defer(proc->deployment->reconciler->loop, &proc->deployment->reconciler->turn_end);
}

static void op_start(void *ctx, struct as_replica_slot *slot)
{
    struct as_reconciler_deployment *d = ctx;
    struct as_reconciler_process *proc = as_reconciler_ensure_process(d, slot);
    struct as_buf text = {0}, why = {0};

    as_random_hex(proc->token, AS_RECONCILER_TOKEN_BYTES);
    proc->pid = 0;
    proc->leaves = false;
    as_buf_drop(&proc->stats, proc->stats.n);
    proc->wait = AS_RECONCILER_WAIT_NONE;
    d->reconciler->n_started++;
    if (as_reconciler_write_spawn(slot, &text, &why) < 0) {
        fail_start(slot, as_buf_slice(&why));
    } else {
        /* the note first: a new controller that finds the process finds its facts, too */
        op_note(ctx, slot);
        as_reconciler_send(
            slot, (struct as_ctl_message){.type = AS_CTL_SPAWN, .text = as_buf_slice(&text)});
    }
    as_buf_fini(&text);
    as_buf_fini(&why);
}

static void op_configure(void *ctx AS_UNUSED, struct as_replica_slot *slot, uint64_t ask,
                         const struct as_replica_slot_facts *to)
{
    struct as_buf text = {0};

    as_reconciler_write_reconfigure(slot, to, &text);
    as_reconciler_send(
        slot, (struct as_ctl_message){.type = AS_CTL_ASK, .id = ask, .text = as_buf_slice(&text)});
    as_buf_fini(&text);
}

static void op_retire(void *ctx AS_UNUSED, struct as_replica_slot *slot)
{
    as_reconciler_send(slot, (struct as_ctl_message){.type = AS_CTL_RETIRE});
}

static void op_stop(void *ctx AS_UNUSED, struct as_replica_slot *slot, as_ns timeout)
{
    as_reconciler_send(
        slot, (struct as_ctl_message){.type = AS_CTL_SIGNAL,
                                      .number = as_reconciler_process(slot)->leaves ? 0 : SIGTERM,
                                      .ns = timeout});
}

static void op_kill(void *ctx AS_UNUSED, struct as_replica_slot *slot, struct as_str why)
{
    as_reconciler_send(slot, (struct as_ctl_message){.type = AS_CTL_KILL, .text = why});
}

/* The server's exit code when this end means that the application cannot start, else 0. */
static int fatal_code(const struct as_reconciler *r, const struct as_replica_slot *slot)
{
    int status = as_reconciler_process(slot)->status;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : AS_EXIT_CODE_FAILED;

    /* Once the server is complete, a worker that ends is always started again: no request may end
     * the server. */
    if (r->complete || r->fatal_sent || r->conf.tolerate_failures)
        return 0;
    return as_exit_code_fatal(code)                              ? code
           : as_replica_slot_state(slot) == AS_REPLICA_SLOT_DOWN ? AS_EXIT_CODE_FAILED
                                                                 : 0;
}

static void log_exit(const struct as_reconciler *r, const struct as_replica_slot *slot, bool fatal)
{
    char reason[256], last[512], next[64];
    bool down = as_replica_slot_state(slot) == AS_REPLICA_SLOT_DOWN;
    as_ns due = as_replica_slot_due(slot), now = as_loop_now(r->loop);
    unsigned long long ms = due > now ? (due - now) / AS_MS : 0;
    struct as_str why, end;

    as_output_split_report(as_replica_slot_reason(slot), &why, &end);
    if (fatal)
        snprintf(next, sizeof(next), "none: the server ends");
    else
        snprintf(next, sizeof(next), down ? "given up for %llu ms" : "restart in %llu ms", ms);
    as_log_event(r->log, down ? AS_LOG_ERROR : AS_LOG_WARN, "worker_exit",
                 "replica=%s pid=%d reason=%s next=\"%s\" last=%s",
                 as_id_shown_z(as_reconciler_slot_name(slot)),
                 (int)as_reconciler_process(slot)->pid, as_log_quote(reason, sizeof(reason), why),
                 next, as_log_quote(last, sizeof(last), end));
}

static void handle_process_end(struct as_reconciler *r, struct as_replica_slot *slot)
{
    int code = fatal_code(r, slot);

    log_exit(r, slot, code != 0);
    as_reconciler_process(slot)->pid = 0;
    if (as_replica_slot_state(slot) == AS_REPLICA_SLOT_DOWN)
        as_reconciler_reserve_devices(slot);
    as_reconciler_remove_context(slot);
    as_reconciler_report_slot(slot);
    if (!code)
        return;
    r->fatal_sent = true;
    as_reconciler_send(slot, (struct as_ctl_message){.type = AS_CTL_FATAL,
                                                     .number = (uint32_t)code,
                                                     .text = as_replica_slot_reason(slot)});
}

static void op_moved(void *ctx, struct as_replica_slot *slot, enum as_replica_slot_state from)
{
    struct as_reconciler_deployment *d = ctx;
    enum as_replica_slot_state to = as_replica_slot_state(slot);

    as_reconciler_ensure_process(d, slot);
    as_loop_defer(d->reconciler->loop, &d->reconciler->turn_end);
    if (to == AS_REPLICA_SLOT_WAITING || to == AS_REPLICA_SLOT_DOWN) {
        if (from != AS_REPLICA_SLOT_DOWN)
            handle_process_end(d->reconciler, slot);
    } else if (to == AS_REPLICA_SLOT_RUNNING && from != AS_REPLICA_SLOT_UPDATING) {
        as_log_event(d->reconciler->log, AS_LOG_DEBUG, "worker_ready", "replica=%s pid=%d",
                     as_id_shown_z(as_reconciler_slot_name(slot)),
                     (int)as_reconciler_process(slot)->pid);
        if (d->down)
            as_reconciler_report_down(d, false, AS_STR(""));
    }
}

static void op_gone(void *ctx, struct as_replica_slot *slot)
{
    struct as_reconciler_deployment *d = ctx;

    as_reconciler_ensure_process(d, slot);
    as_reconciler_send(slot, (struct as_ctl_message){.type = AS_CTL_REMOVE});
    as_reconciler_free_process(slot);
}

static void op_condition(void *ctx, const struct as_condition *cond)
{
    struct as_reconciler_deployment *d = ctx;
    char text[512];

    as_reconciler_report_status(d);
    as_log_event(d->reconciler->log, AS_LOG_DEBUG, "deployment_status",
                 "deployment=%s status=%s trigger=%s message=%s", as_id_shown_z(d->name),
                 as_condition_status_name(cond->status), as_condition_trigger_name(cond->trigger),
                 as_log_quote(text, sizeof(text), as_condition_text(cond)));
}

/* Reported at the end of the turn: the owner may set another target. */
static void op_rolled_back(void *ctx, uint64_t from, uint64_t to AS_UNUSED, struct as_str why)
{
    struct as_reconciler_deployment *d = ctx;

    d->failed_generation = from;
    as_buf_set(&d->failure, why);
    as_loop_defer(d->reconciler->loop, &d->reconciler->turn_end);
}

static void op_down(void *ctx, bool down, struct as_str why)
{
    struct as_reconciler_deployment *d = ctx;

    if (d->down != down)
        as_reconciler_report_down(d, down, why);
}

static void op_settled(void *ctx, const struct as_plan_target *t AS_UNUSED)
{
    struct as_reconciler_deployment *d = ctx;

    d->report_stable = true;
    as_loop_defer(d->reconciler->loop, &d->reconciler->turn_end);
}

const struct as_plan_ops as_reconciler_plan_ops = {.start = op_start,
                                                   .lacks = as_reconciler_missing_devices,
                                                   .release = as_reconciler_release_devices,
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
