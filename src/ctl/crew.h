/* ctl/crew.h — all workers of a server: what they are started with, who is told what of them.
 *
 * N replicas per deployment, each a child of its own. The dispatcher hears of every change and a
 * new dispatcher of everything. Thread: the loop's.
 */
#ifndef AS_CTL_CREW_H
#define AS_CTL_CREW_H

#include "ctl/channel.h"
#include "ctl/child.h"
#include "ctl/console.h"
#include "ctl/describe.h"

struct as_crew;

struct as_crew_conf {
    const struct as_app *app; /* strings and app outlive the crew */
    const char *python, *target;
    const char *link;      /* path of the dispatcher's unix socket */
    uint32_t workers;      /* replicas of each deployment */
    uint32_t max_starting; /* processes in STARTING at once; the others wait in line; > 0 */
    bool debug_errors;
    uint32_t stream_inputs; /* what a worker is told of streams of inputs, link/worker.h */
    uint64_t stream_input_bytes;
    bool batch; /* workers run as SCHED_BATCH, see io/proc */
    struct as_child_conf child;
};

struct as_crew_ops {
    /* Before the application was ready: it cannot start. `code` is for our own exit. */
    void (*on_fatal)(void *ctx, int code, const char *replica, struct as_str reason);
    void (*on_ready)(void *ctx);   /* once: every replica is READY */
    void (*on_stopped)(void *ctx); /* after as_crew_stop: no process is left */
};

int as_crew_new(struct as_crew **ret_c, struct as_loop *loop, const struct as_crew_conf *conf,
                const struct as_crew_ops *ops, void *ctx, struct as_console *console,
                const struct as_log *log);
/* Closes the timers; the loop must run once more before as_crew_free. */
void as_crew_close(struct as_crew *c);
void as_crew_free(struct as_crew *c);

void as_crew_start(struct as_crew *c); /* as many as may start; each deployment's first one first */
/* A new dispatcher: it is told everything, then TOLD. NULL: it is gone, all links are lost. */
void as_crew_set_channel(struct as_crew *c, struct as_channel *channel);
void as_crew_serving(struct as_crew *c); /* the dispatcher takes workers: deadlines run */
void as_crew_message(struct as_crew *c, const struct as_ctl_message *m); /* READY, GONE, KILL */
/* Signal now, SIGKILL after `timeout`; again to hurry. on_stopped comes later, never from here. */
void as_crew_stop(struct as_crew *c, int signal, as_ns timeout);
uint32_t as_crew_revive(struct as_crew *c); /* given-up replicas rest no longer; returns how many */

uint32_t as_crew_size(const struct as_crew *c);
uint32_t as_crew_ready(const struct as_crew *c); /* replicas READY */
bool as_crew_has(const struct as_crew *c, pid_t pid);

#endif
