#include "io/loop/loop.h"

#include "base/counter.h"
#include "base/err.h"
#include "io/loop/clock.h"

static void run_tasks(struct as_loop *l)
{
    struct as_list *n;

    /* a task may defer others, which run in the same turn: a response that is written defers the
     * flush of its connection */
    while ((n = as_list_pop(&l->tasks))) {
        struct as_task *t = AS_LIST_ENTRY(n, struct as_task, node);

        t->run(t);
    }
}

static void on_prepare(uv_prepare_t *h)
{
    struct as_loop *l = h->data;

    run_tasks(l); /* those that timers have deferred, before the loop sleeps */
    /* within a turn the time stays the same, so that all decisions of the turn agree */
    l->now = 0;
}

static void on_check(uv_check_t *h)
{
    struct as_loop *l = h->data;

    as_counter_add(&l->stat.wakes, 1);
    run_tasks(l);
}

static void on_idle(uv_idle_t *h)
{
    struct as_loop *l = h->data;
    struct as_list due, *n;

    l->now = 0;
    uv_idle_stop(h);
    as_list_init(&due); /* a task that is deferred again meanwhile runs in the turn after this */
    while ((n = as_list_pop(&l->next_turn)))
        as_list_push(&due, n);
    while ((n = as_list_pop(&due))) {
        struct as_task *t = AS_LIST_ENTRY(n, struct as_task, node);

        t->run(t);
    }
}

static void *or_fatal(void *p, size_t n)
{
    if (!p && n)
        as_fatal_memory(n);
    return p;
}

static void *uv_malloc(size_t n)
{
    return or_fatal(malloc(n), n);
}

static void *uv_calloc(size_t n, size_t each)
{
    return or_fatal(calloc(n, each), n && each ? n * each : 0);
}

static void *uv_realloc(void *p, size_t n)
{
    return or_fatal(realloc(p, n), n);
}

void as_loop_set_allocator(void)
{
    uv_replace_allocator(uv_malloc, uv_realloc, uv_calloc, free);
}

int as_loop_new(struct as_loop **ret_l, uint32_t index)
{
    struct as_loop *l = as_xalloc(sizeof(*l));

    if (uv_loop_init(&l->uv)) {
        free(l);
        return AS_EIO;
    }
    l->index = index;
    as_list_init(&l->tasks);
    as_list_init(&l->next_turn);
    uv_idle_init(&l->uv, &l->idle);
    l->idle.data = l;
    uv_prepare_init(&l->uv, &l->prepare);
    uv_check_init(&l->uv, &l->check);
    l->prepare.data = l->check.data = l;
    uv_prepare_start(&l->prepare, on_prepare);
    uv_check_start(&l->check, on_check);
    *ret_l = l;
    return 0;
}

void as_loop_free(struct as_loop *l)
{
    if (!l)
        return;
    uv_prepare_stop(&l->prepare);
    uv_check_stop(&l->check);
    uv_idle_stop(&l->idle);
    uv_close((uv_handle_t *)&l->idle, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_close((uv_handle_t *)&l->check, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    AS_ASSERT(uv_loop_close(&l->uv) == 0);
    free(l);
}

void as_loop_run(struct as_loop *l)
{
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

void as_loop_stop(struct as_loop *l)
{
    uv_stop(&l->uv);
}

as_ns as_loop_now(struct as_loop *l)
{
    if (!l->now)
        l->now = as_clock_now();
    return l->now;
}

void as_task_init(struct as_task *t, void (*run)(struct as_task *t))
{
    as_list_init(&t->node);
    t->run = run;
}

void as_loop_defer(struct as_loop *l, struct as_task *t)
{
    if (as_list_empty(&t->node))
        as_list_push(&l->tasks, &t->node);
}

void as_loop_defer_first(struct as_loop *l, struct as_task *t)
{
    if (!as_task_is_pending(t))
        as_list_insert_after(&l->tasks, &t->node);
}

void as_loop_defer_next_turn(struct as_loop *l, struct as_task *t)
{
    if (!as_list_empty(&t->node))
        return;
    as_list_push(&l->next_turn, &t->node);
    uv_idle_start(&l->idle, on_idle);
}

void as_task_cancel(struct as_task *t)
{
    as_list_remove(&t->node);
}

/* Resets `at` first, since fire may set the timer again. */
static void on_timer(uv_timer_t *h)
{
    struct as_timer *t = h->data;

    t->at = AS_NEVER;
    t->fire(t);
}

void as_timer_init(struct as_timer *t, struct as_loop *l, void (*fire)(struct as_timer *t))
{
    uv_timer_init(&l->uv, &t->uv);
    t->uv.data = t;
    t->loop = l;
    t->at = AS_NEVER;
    t->fire = fire;
}

void as_timer_set(struct as_timer *t, as_ns at)
{
    as_ns now;

    if (at == t->at)
        return;
    t->at = at;
    if (at == AS_NEVER) {
        uv_timer_stop(&t->uv);
        return;
    }
    /* libuv counts from its cached time, which is late in a long turn */
    uv_update_time(&t->loop->uv);
    now = as_loop_now(t->loop);
    uv_timer_start(&t->uv, on_timer, at > now ? (at - now + AS_MS - 1) / AS_MS : 0, 0);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct as_timer *t = h->data;

    if (t->fire)
        t->fire(t);
}

void as_timer_close(struct as_timer *t, void (*closed)(struct as_timer *t))
{
    t->fire = closed; /* the timer fires no more, so the field can hold `closed` */
    uv_close((uv_handle_t *)&t->uv, on_timer_closed);
}
