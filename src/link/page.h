/* link/page.h — the worker's status page: what it has started, told without a message.
 *
 * A sealed memfd that the worker writes and the dispatcher maps read-only (struct as_page). Its
 * lock word is a robust futex held by the thread that made the page: when that thread or its
 * process ends, the kernel marks the word and wakes who sleeps on it, before the memory is torn
 * down. Thread: made and freed by the runner; stores from whoever holds the worker's lock.
 */
#ifndef AS_LINK_PAGE_H
#define AS_LINK_PAGE_H

#include "wire/frame/frame.h"

struct as_page_writer {
    struct as_page *page;
    int fd; /* to hand over with HELLO */
};

/* 0 or AS_EIO. The calling thread owns the lock from now on. */
int as_page_open(struct as_page_writer *w);
/* By the thread that opened it. Releases the lock: whoever watches sees the owner's word go. */
void as_page_close(struct as_page_writer *w);
/* In a forked child: the mapping and the lock are the parent's. */
void as_page_forked(struct as_page_writer *w);

/* Before user code of this stream runs. */
static inline void as_page_start(struct as_page_writer *w, uint64_t stream, as_ns now)
{
    struct as_page *p = w->page;

    if (stream > p->last_started)
        __atomic_store_n(&p->last_started, stream, __ATOMIC_RELEASE);
    __atomic_store_n(&p->started, p->started + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&p->clock, now, __ATOMIC_RELEASE);
}

/* The runner is inside code that it cannot leave since `now`; 0: it is not. */
static inline void as_page_set_held(struct as_page_writer *w, as_ns now)
{
    if (w->page)
        __atomic_store_n(&w->page->busy_since, now, __ATOMIC_RELAXED);
}

/* Shows the counters. */
static inline void as_page_publish_stat(struct as_page_writer *w, const struct as_page_stat *s)
{
    struct as_page_stat *to = &w->page->stat;

    __atomic_store_n(&to->wakes, s->wakes, __ATOMIC_RELAXED);
    __atomic_store_n(&to->reads, s->reads, __ATOMIC_RELAXED);
    __atomic_store_n(&to->writes, s->writes, __ATOMIC_RELAXED);
    __atomic_store_n(&to->waits, s->waits, __ATOMIC_RELAXED);
    __atomic_store_n(&to->others, s->others, __ATOMIC_RELAXED);
    __atomic_store_n(&to->calls, s->calls, __ATOMIC_RELAXED);
    __atomic_store_n(&to->cancels, s->cancels, __ATOMIC_RELAXED);
    __atomic_store_n(&to->live, s->live, __ATOMIC_RELAXED);
}

static inline void as_page_finish(struct as_page_writer *w, as_ns now)
{
    struct as_page *p = w->page;

    __atomic_store_n(&p->finished, p->finished + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&p->clock, now, __ATOMIC_RELEASE);
}

#endif
