#include "link/native/death_watch.h"

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

struct as_deathwatch {
    pthread_t thread;
    pthread_mutex_t lock; /* over everything below but `wake` */
    struct entry entries[AS_DEATHWATCH_MAX];
    uint32_t n;
    bool stop;
    uint32_t wake; /* futex: changes whenever the list does */
};

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* The thread sleeps on this word too: it looks at the list again. */
static void nudge(struct as_deathwatch *w)
{
    __atomic_fetch_add(&w->wake, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &w->wake, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void take_out(struct as_deathwatch *w, uint32_t i)
{
    w->entries[i] = w->entries[--w->n];
}

/* Posts what has died; fills the wait list with the rest. Returns its length, 0 to stop. */
static uint32_t look(struct as_deathwatch *w, struct futex_waitv *v)
{
    uint32_t n = 0;
    bool stop;

    /* read before the list: a change in between makes the wait return at once */
    v[n++] = (struct futex_waitv){.val = load(&w->wake),
                                  .uaddr = (uintptr_t)&w->wake,
                                  .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->n;) {
        struct entry *e = &w->entries[i];
        uint32_t value = load(e->word);

        if (value & FUTEX_OWNER_DIED) {
            /* under the lock: who removes the entry knows for certain whether the letter is under
             * way */
            as_mbox_post(e->box, e->letter);
            take_out(w, i);
            continue;
        }
        v[n++] = (struct futex_waitv){.val = value, .uaddr = (uintptr_t)e->word, .flags = FUTEX_32};
        i++;
    }
    stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    return stop ? 0 : n;
}

static void *run(void *arg)
{
    struct as_deathwatch *w = arg;
    struct futex_waitv v[AS_DEATHWATCH_MAX + 1];
    sigset_t all;
    uint32_t n;

    /* signals are for the thread with the loop */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    /* or it would often wait for the very CPU on which the dead process gives up its memory */
    (void)as_prompt_thread(AS_PROMPT_SLICE);
    while ((n = look(w, v)) > 0)
        syscall(SYS_futex_waitv, v, n, 0, NULL, CLOCK_MONOTONIC); /* any return: look again */
    return NULL;
}

int as_deathwatch_new(struct as_deathwatch **ret_w)
{
    struct as_deathwatch *w;

    *ret_w = NULL;
    /* an empty list is refused with EINVAL where the call exists */
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, CLOCK_MONOTONIC) < 0 && errno == ENOSYS)
        return AS_EUNIMPLEMENTED;
    w = as_xalloc(sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    if (pthread_create(&w->thread, NULL, run, w)) {
        pthread_mutex_destroy(&w->lock);
        free(w);
        return AS_EIO;
    }
    *ret_w = w;
    return 0;
}

void as_deathwatch_free(struct as_deathwatch *w)
{
    if (!w)
        return;
    AS_ASSERT(w->n == 0);
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    nudge(w);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

bool as_deathwatch_add(struct as_deathwatch *w, const uint32_t *word, struct as_mbox *box,
                       struct as_letter *letter)
{
    bool room;

    pthread_mutex_lock(&w->lock);
    room = w->n < AS_DEATHWATCH_MAX;
    if (room)
        w->entries[w->n++] = (struct entry){word, box, letter};
    pthread_mutex_unlock(&w->lock);
    if (room)
        nudge(w);
    return room;
}

bool as_deathwatch_remove(struct as_deathwatch *w, const uint32_t *word)
{
    bool posted = true;

    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->entries[i].word == word) {
            take_out(w, i);
            posted = false;
            break;
        }
    }
    pthread_mutex_unlock(&w->lock);
    /* the page is unmapped next: the thread must not sleep on a word of it, only be woken from it
     */
    if (!posted)
        nudge(w);
    return posted;
}
