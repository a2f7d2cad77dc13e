#include "io/loop/death_watch.h"

#include "base/err.h"
#include "io/loop/prompt.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* `word` is the futex of a robust mutex on a worker's status page. When the worker's thread dies
 * the kernel sets FUTEX_OWNER_DIED in it and wakes one waiter (get_robust_list(2)). */
struct entry {
    const uint32_t *word;
    struct as_mbox *box;
    struct as_letter *letter;
};

struct as_death_watch {
    pthread_t thread;
    pthread_mutex_t lock; /* over everything below but `wake` */
    struct entry entries[AS_DEATH_WATCH_MAX];
    uint32_t n;
    bool stop;
    uint32_t wake; /* futex: changes whenever the list does */
};

static uint32_t load_word(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* The thread sleeps on this word too; when woken it scans the list again. */
static void wake_thread(struct as_death_watch *w)
{
    __atomic_fetch_add(&w->wake, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &w->wake, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void remove_entry(struct as_death_watch *w, uint32_t i)
{
    w->entries[i] = w->entries[--w->n];
}

/* Posts the letters of owners that have died and fills the wait list with the others. Returns its
 * length; 0: stop. */
static uint32_t scan_entries(struct as_death_watch *w, struct futex_waitv *v)
{
    uint32_t n = 0;
    bool stop;

    /* read before the list: a change in between makes the wait return at once */
    v[n++] = (struct futex_waitv){.val = load_word(&w->wake),
                                  .uaddr = (uintptr_t)&w->wake,
                                  .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->n;) {
        struct entry *e = &w->entries[i];
        uint32_t value = load_word(e->word);

        if (value & FUTEX_OWNER_DIED) {
            /* under the lock, so that as_death_watch_remove knows whether the letter was posted */
            as_mbox_post(e->box, e->letter);
            remove_entry(w, i);
            continue;
        }
        v[n++] = (struct futex_waitv){.val = value, .uaddr = (uintptr_t)e->word, .flags = FUTEX_32};
        i++;
    }
    stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return stop ? 0 : n;
}

static void *watch_main(void *arg)
{
    struct as_death_watch *w = arg;
    struct futex_waitv v[AS_DEATH_WATCH_MAX + 1];
    sigset_t all;
    uint32_t n;

    /* signals are handled by the thread with the loop */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    /* else it often waits for the CPU on which the kernel frees the dead process's memory */
    (void)as_prompt_set_slice(AS_PROMPT_SLICE);
    while ((n = scan_entries(w, v)) > 0)
        syscall(SYS_futex_waitv, v, n, 0, NULL, CLOCK_MONOTONIC); /* whatever woke it: scan again */
    return NULL;
}

int as_death_watch_new(struct as_death_watch **ret_w)
{
    struct as_death_watch *w;

    *ret_w = NULL;
    /* where the call exists it refuses an empty list with EINVAL */
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, CLOCK_MONOTONIC) < 0 && errno == ENOSYS)
        return AS_EUNIMPLEMENTED;
    w = as_xalloc(sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    if (pthread_create(&w->thread, NULL, watch_main, w)) {
        pthread_mutex_destroy(&w->lock);
        free(w);
        return AS_EIO;
    }
    *ret_w = w;
    return 0;
}

void as_death_watch_free(struct as_death_watch *w)
{
    if (!w)
        return;
    AS_ASSERT(w->n == 0);
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    wake_thread(w);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

bool as_death_watch_add(struct as_death_watch *w, const uint32_t *word, struct as_mbox *box,
                        struct as_letter *letter)
{
    bool room;

    pthread_mutex_lock(&w->lock);
    room = w->n < AS_DEATH_WATCH_MAX;
    if (room)
        w->entries[w->n++] = (struct entry){word, box, letter};
    pthread_mutex_unlock(&w->lock);
    if (room)
        wake_thread(w);
    return room;
}

bool as_death_watch_remove(struct as_death_watch *w, const uint32_t *word)
{
    bool posted = true;

    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->entries[i].word == word) {
            remove_entry(w, i);
            posted = false;
            break;
        }
    }
    pthread_mutex_unlock(&w->lock);
    /* the caller unmaps the page next: wake the thread, so that it stops waiting on that word */
    if (!posted)
        wake_thread(w);
    return posted;
}
