/* The table of open requests of a link. Stream numbers are 1, 3, 5 …, so a ring of pointers does.
 */
#include "link/native/link.h"

static size_t call_index(const struct as_link *l, uint64_t stream)
{
    return (size_t)(stream >> 1) & (l->cap_calls - 1);
}

struct as_call *as_link_find_call(const struct as_link *l, uint64_t stream)
{
    struct as_call *c;

    if (!(stream & 1) || stream >= l->next_stream || !l->cap_calls)
        return NULL;
    c = l->calls[call_index(l, stream)];
    return c && c->core.stream == stream ? c : NULL;
}

#define CALLS_FIRST 256u

bool as_link_alloc_calls(struct as_link *l)
{
    l->calls = calloc(CALLS_FIRST, sizeof(struct as_call *));
    l->cap_calls = l->calls ? CALLS_FIRST : 0;
    return l->calls != NULL;
}

static void grow_calls(struct as_link *l)
{
    uint32_t cap = l->cap_calls * 2;
    struct as_call **old = l->calls;
    uint32_t n = l->cap_calls;

    l->calls = as_xalloc(cap * sizeof(struct as_call *));
    l->cap_calls = cap;
    for (uint32_t i = 0; i < n; i++) {
        if (old[i])
            l->calls[call_index(l, old[i]->core.stream)] = old[i];
    }
    free(old);
}

void as_link_add_call(struct as_link *l, struct as_call *c)
{
    c->core.stream = l->next_stream;
    l->next_stream += 2;
    /* a long-running request may still have this place: grow until the place is free */
    while (l->calls[call_index(l, c->core.stream)])
        grow_calls(l);
    l->calls[call_index(l, c->core.stream)] = c;
    l->n_calls++;
}

void as_link_remove_call(struct as_link *l, struct as_call *c)
{
    size_t i = call_index(l, c->core.stream);

    AS_ASSERT(l->calls[i] == c);
    l->calls[i] = NULL;
    l->n_calls--;
}

void as_link_discard_answer(struct as_link *l, struct as_call *c)
{
    if (!c->outcome.result.blob)
        return;
    if (l->rx.reader.left && l->rx.sink_stream == c->core.stream)
        l->rx.reader.sink = NULL;
    as_blob_unref(c->outcome.result.blob);
    c->outcome.result.blob = NULL;
    if (c->stream) {
        as_part_free(c->stream->part);
        c->stream->part = NULL;
    }
    c->rx_msg.body_len = UINT64_MAX;
}

void as_link_discard_answers(struct as_link *l)
{
    for (uint32_t i = 0; i < l->cap_calls; i++) {
        if (l->calls[i])
            as_link_discard_answer(l, l->calls[i]);
    }
}
