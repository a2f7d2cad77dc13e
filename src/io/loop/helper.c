#include "io/loop/helper.h"

#include "base/err.h"
#include "io/loop/prompt.h"

#include <signal.h>

static void on_work_done(struct as_letter *l, void *to)
{
    struct as_helper_job *j = AS_CONTAINER(l, struct as_helper_job, letter);
    struct as_helper *h = to;

    h->jobs--;
    j->done(j);
}

static void run_job(struct as_helper *h, struct as_helper_job *j)
{
    if (!atomic_load_explicit(&j->cancelled, memory_order_relaxed))
        j->work(j);
    as_mbox_post(&h->mbox, &j->letter);
}

/* Waits for the next job. NULL: the helper is being closed. */
static struct as_helper_job *wait_next_job(struct as_helper *h)
{
    struct as_list *first;

    pthread_mutex_lock(&h->lock);
    while (!(first = as_list_pop(&h->queue)) && !h->stop)
        pthread_cond_wait(&h->wake, &h->lock);
    pthread_mutex_unlock(&h->lock);
    return first ? AS_LIST_ENTRY(first, struct as_helper_job, node) : NULL;
}

static void *helper_main(void *arg)
{
    struct as_helper *h = arg;
    struct as_helper_job *j;
    sigset_t all;

    /* signals are handled on the loop's thread */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    (void)as_prompt_set_slice(0); /* its jobs take long, so it must not go before other threads */
    while ((j = wait_next_job(h)))
        run_job(h, j);
    return NULL;
}

int as_helper_open(struct as_helper *h, struct as_loop *l)
{
    *h = (struct as_helper){.loop = l};
    if (as_mbox_open(&h->mbox, l, h))
        return AS_EIO;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->wake, NULL);
    as_list_init(&h->queue);
    return 0;
}

void as_helper_close(struct as_helper *h)
{
    AS_ASSERT(!h->jobs);
    if (h->started) {
        pthread_mutex_lock(&h->lock);
        h->stop = true;
        pthread_cond_signal(&h->wake);
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->thread, NULL);
    }
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    as_mbox_close(&h->mbox);
}

void as_helper_submit(struct as_helper *h, struct as_helper_job *j)
{
    h->jobs++;
    j->letter.open = on_work_done;
    atomic_init(&j->cancelled, false);
    as_list_init(&j->node);
    if (!h->started)
        h->started = !pthread_create(&h->thread, NULL, helper_main, h);
    if (!h->started) {
        run_job(h, j);
        return;
    }
    pthread_mutex_lock(&h->lock);
    as_list_push(&h->queue, &j->node);
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

void as_helper_cancel(struct as_helper_job *j)
{
    atomic_store_explicit(&j->cancelled, true, memory_order_relaxed);
}
