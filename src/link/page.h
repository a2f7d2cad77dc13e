/* link/page.h — the worker's status page: shared memory that says what it has started.
 *
 * A sealed memfd that the worker writes and the dispatcher maps read-only (struct as_page). Its
 * lock word is a robust futex that the thread that opened the page owns. When that thread or its
 * process ends, the kernel marks the word and wakes its waiters, before it frees the process's
 * memory. Thread: opened and closed by the worker's runner thread; written with the worker's lock
 * held.
 */
#ifndef AS_LINK_PAGE_H
#define AS_LINK_PAGE_H

#include "wire/frame/frame.h"

struct as_page_writer {
    struct as_page *page;
    int fd; /* sent with HELLO */
};

/* 0 or AS_EIO. The calling thread owns the lock word from now on. */
int as_page_open(struct as_page_writer *w);
/* Called by the thread that opened it: releases the lock word and unmaps the page. */
void as_page_close(struct as_page_writer *w);
/* In a forked child: unmaps the page and leaves the lock word, which is the parent's. */
void as_page_forked(struct as_page_writer *w);

/* To be called before the handler of this stream runs. */
static inline void as_page_start(struct as_page_writer *w, uint64_t stream, as_ns now)
{
    struct as_page *p = w->page;

    if (stream > p->last_started)
        __atomic_store_n(&p->last_started, stream, __ATOMIC_RELEASE);
    __atomic_store_n(&p->started, p->started + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&p->clock, now, __ATOMIC_RELEASE);
}

/* now: since then the runner is inside a handler and cannot answer; 0: it is not. */
static inline void as_page_set_held(struct as_page_writer *w, as_ns now)
{
    if (w->page)
        __atomic_store_n(&w->page->busy_since, now, __ATOMIC_RELAXED);
}

/* Copies the counters to the page. */
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
