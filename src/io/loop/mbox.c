#include "io/loop/mbox.h"

#include "base/err.h"

/* Takes all letters with one exchange and reverses them, since the stack has the newest first. A
 * letter that is posted meanwhile wakes the loop again. */
static void on_wake(uv_async_t *h)
{
    struct as_mbox *m = h->data;
    struct as_letter *l = atomic_exchange_explicit(&m->head, NULL, memory_order_acquire);
    struct as_letter *in_order = NULL;

    while (l) {
        struct as_letter *next = l->next;

        l->next = in_order;
        in_order = l;
        l = next;
    }
    while (in_order) {
        l = in_order;
        in_order = l->next;
        l->open(l, m->to);
    }
}

int as_mbox_open(struct as_mbox *m, struct as_loop *l, void *to)
{
    atomic_init(&m->head, NULL);
    m->loop = l;
    m->to = to;
    if (uv_async_init(&l->uv, &m->wake, on_wake))
        return AS_EIO;
    m->wake.data = m;
    return 0;
}

void as_mbox_post(struct as_mbox *m, struct as_letter *l)
{
    struct as_letter *head = atomic_load_explicit(&m->head, memory_order_relaxed);

    do {
        l->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&m->head, &head, l, memory_order_release,
                                                    memory_order_relaxed));
    /* only the first letter wakes the loop: one system call for a burst */
    if (!head)
        uv_async_send(&m->wake);
}

void as_mbox_close(struct as_mbox *m)
{
    uv_close((uv_handle_t *)&m->wake, NULL);
}
