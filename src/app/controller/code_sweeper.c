#include "app/controller/code_sweeper.h"

#include <signal.h>

#define DONE_CHECK_INTERVAL (50 * AS_MS) /* between two checks whether the thread is done */

static void log_not_removed(const struct as_code_sweeper *s, const struct as_buf *err)
{
    char text[512];

    if (err->n)
        as_log_event(s->log, AS_LOG_WARN, "code_not_removed", "folder=%s reason=%s", s->store,
                     as_log_quote(text, sizeof(text), as_buf_slice(err)));
}

static void *remove_discarded(void *arg)
{
    struct as_code_sweeper *s = arg;

    as_code_store_remove_discarded(s->store, &s->err);
    atomic_store(&s->done, true);
    return NULL;
}

static void start_thread(struct as_code_sweeper *s)
{
    sigset_t all, before;

    s->again = false;
    atomic_store(&s->done, false);
    /* signals are handled by the loop's thread */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    s->running = pthread_create(&s->thread, NULL, remove_discarded, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (s->running)
        as_timer_set(&s->timer, as_loop_now(s->loop) + DONE_CHECK_INTERVAL);
    else
        s->again = true; /* with the next sweep */
}

static void join_thread(struct as_code_sweeper *s)
{
    pthread_join(s->thread, NULL);
    s->running = false;
    log_not_removed(s, &s->err);
    s->err.n = 0;
}

static void on_check(struct as_timer *t)
{
    struct as_code_sweeper *s = AS_CONTAINER(t, struct as_code_sweeper, timer);

    if (!atomic_load(&s->done)) {
        as_timer_set(t, as_loop_now(s->loop) + DONE_CHECK_INTERVAL);
        return;
    }
    join_thread(s);
    if (s->again)
        start_thread(s);
}

void as_code_sweeper_init(struct as_code_sweeper *s, struct as_loop *loop, const char *store,
                          const struct as_log *log)
{
    *s = (struct as_code_sweeper){.store = store, .log = log, .loop = loop, .again = true};
    atomic_init(&s->done, false);
    as_timer_init(&s->timer, loop, on_check);
}

void as_code_sweeper_sweep(struct as_code_sweeper *s, const struct as_code_store_names *keep)
{
    struct as_buf err = {0};

    s->again |= as_code_store_discard(s->store, keep, &err) != 0;
    log_not_removed(s, &err);
    as_buf_fini(&err);
    if (s->again && !s->running)
        start_thread(s);
}

void as_code_sweeper_close(struct as_code_sweeper *s)
{
    if (s->running)
        join_thread(s);
    as_buf_fini(&s->err);
    as_timer_close(&s->timer, NULL);
}
