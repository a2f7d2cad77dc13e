/* Messages to the service manager: sd_notify(3). */
#include "ctl/supervise/supervisor_internal.h"

#include <inttypes.h>

#define WATCHDOG_DIVISOR 2u /* messages in each interval after which the manager would kill us */

void as_supervisor_notify(struct as_supervisor *s, const char *state)
{
    if (as_notify_send(s->conf->notify, state) < 0)
        as_log_event(&s->log, AS_LOG_WARN, "notify_failed", "state=%s", state);
}

static void notify_watchdog(struct as_supervisor *s, const char *state)
{
    if (as_notify_send(s->conf->notify, state) == 0) {
        s->watchdog_failed = false;
    } else if (!s->watchdog_failed) { /* logged once, not at each interval */
        s->watchdog_failed = true;
        as_log_event(&s->log, AS_LOG_WARN, "notify_failed", "state=WATCHDOG=1");
    }
}

static void set_watchdog_timer(struct as_supervisor *s)
{
    as_ns every = (as_ns)s->conf->notify->watchdog_us * AS_US / WATCHDOG_DIVISOR;

    as_timer_set(&s->watchdog, as_loop_now(s->loop) + AS_MAX(every, AS_MS));
}

/* Sent from the event loop alone: when the loop hangs, nothing is sent, and the manager ends us. */
static void on_watchdog(struct as_timer *t)
{
    struct as_supervisor *s = AS_CONTAINER(t, struct as_supervisor, watchdog);

    notify_watchdog(s, "WATCHDOG=1");
    set_watchdog_timer(s);
}

void as_supervisor_watchdog_init(struct as_supervisor *s)
{
    as_timer_init(&s->watchdog, s->loop, on_watchdog);
}

void as_supervisor_watchdog_start(struct as_supervisor *s)
{
    if (s->conf->notify->watchdog_us == 0)
        return;
    if (s->conf->reexec)
        as_supervisor_watchdog_resume(s);
    else
        set_watchdog_timer(s);
}

/* The next image may be of a version that sends no WATCHDOG=1. */
void as_supervisor_watchdog_pause(struct as_supervisor *s)
{
    if (s->conf->notify->watchdog_us == 0)
        return;
    as_supervisor_notify(s, "WATCHDOG_USEC=0");
    (void)as_notify_export_watchdog(s->conf->notify); /* without it there is no watchdog any more */
}

void as_supervisor_watchdog_resume(struct as_supervisor *s)
{
    char state[64];

    if (s->conf->notify->watchdog_us == 0)
        return;
    as_notify_unset_watchdog();
    snprintf(state, sizeof(state), "WATCHDOG_USEC=%" PRIu64 "\nWATCHDOG=1",
             s->conf->notify->watchdog_us);
    notify_watchdog(s, state);
    set_watchdog_timer(s);
}
