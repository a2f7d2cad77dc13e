/* The table of open requests of a link: open addressing by stream number, which is 1, 3, 5 …. */
#include "link/native/link.h"

static size_t call_index(const struct as_link *l, uint64_t stream)
{
    return (size_t)(stream >> 1) & (l->cap_calls - 1);
}

/* The place of a stream, or the free one where it would be. At least half of the places are free,
 * and streams that follow each other have neighbouring places: so the walk is short, and a stream
 * that stays open for long makes the table no larger. */
static size_t find_place(const struct as_link *l, uint64_t stream)
{
    size_t i = call_index(l, stream);

    while (l->calls[i] && l->calls[i]->core.stream != stream)
        i = (i + 1) & (l->cap_calls - 1);
    return i;
}

struct as_call *as_link_find_call(const struct as_link *l, uint64_t stream)
{
    if (!(stream & 1) || stream >= l->next_stream || !l->cap_calls)
        return NULL;
    return l->calls[find_place(l, stream)];
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
            l->calls[find_place(l, old[i]->core.stream)] = old[i];
    }
    free(old);
}

void as_link_add_call(struct as_link *l, struct as_call *c)
{
    c->core.stream = l->next_stream;
    l->next_stream += 2;
    if (2 * l->n_calls >= l->cap_calls)
        grow_calls(l);
    l->calls[find_place(l, c->core.stream)] = c;
    l->n_calls++;
}

void as_link_remove_call(struct as_link *l, struct as_call *c)
{
    size_t mask = l->cap_calls - 1, hole = find_place(l, c->core.stream), i = hole;

    AS_ASSERT(l->calls[hole] == c);
    l->n_calls--;
    /* those behind it that its place has displaced move up, so that no walk ends too early */
    for (i = (i + 1) & mask; l->calls[i]; i = (i + 1) & mask) {
        size_t home = call_index(l, l->calls[i]->core.stream);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            l->calls[hole] = l->calls[i];
            hole = i;
        }
    }
    l->calls[hole] = NULL;
    if (l->caller)
        as_caller_on_parent_end(l, c->core.stream);
}

void as_link_discard_answer(struct as_link *l, struct as_call *c)
{
    if (!as_call_receives(c))
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
