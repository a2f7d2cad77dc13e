#include "core/autoscale/load_history.h"

void as_load_history_init(struct as_load_history *h, as_ns window)
{
    *h = (struct as_load_history){.width = AS_MAX(window / AS_LOAD_BUCKETS, (as_ns)1)};
}

void as_load_history_forget(struct as_load_history *h)
{
    *h = (struct as_load_history){.width = h->width};
}

static struct as_load_bucket *bucket_of(struct as_load_history *h, uint64_t index)
{
    return &h->bucket[index % AS_COUNT(h->bucket)];
}

static void add_part(struct as_load_history *h, uint64_t index, as_ns part)
{
    struct as_load_bucket *b = bucket_of(h, index);

    if (b->index != index || !b->covered)
        *b = (struct as_load_bucket){.index = index, .high = h->count, .low = h->count};
    b->covered += part;
    b->sum += (double)h->count * (double)part;
    b->high = AS_MAX(b->high, h->count);
    b->low = AS_MIN(b->low, h->count);
}

/* Brings the buckets up to now. What is older than all of them is left out. */
static void advance(struct as_load_history *h, as_ns now)
{
    as_ns whole = h->width * AS_COUNT(h->bucket);

    if (!h->known || now <= h->at)
        return;
    if (now - h->at > whole)
        h->at = now - whole;
    while (h->at < now) {
        uint64_t index = h->at / h->width;
        as_ns end = AS_MIN(now, (index + 1) * h->width);

        add_part(h, index, end - h->at);
        h->at = end;
    }
}

void as_load_history_set(struct as_load_history *h, uint32_t count, as_ns now)
{
    advance(h, now);
    if (!h->known)
        h->at = now;
    h->known = true;
    h->count = count;
}

/* The buckets that overlap the last `window` ns, as one. */
static struct as_load_bucket gather(struct as_load_history *h, as_ns window, as_ns now)
{
    uint64_t last = now / h->width, first = window < now ? (now - window) / h->width : 0;
    struct as_load_bucket all = {.high = h->count, .low = h->count};

    if (last - first > AS_LOAD_BUCKETS)
        first = last - AS_LOAD_BUCKETS;
    for (uint64_t i = first; i <= last; i++) {
        const struct as_load_bucket *b = bucket_of(h, i);

        if (b->index != i || !b->covered)
            continue;
        all.covered += b->covered;
        all.sum += b->sum;
        all.high = AS_MAX(all.high, b->high);
        all.low = AS_MIN(all.low, b->low);
    }
    return all;
}

double as_load_history_value(struct as_load_history *h, enum as_load_aggregation how, as_ns window,
                             as_ns now, bool *ret_varies)
{
    struct as_load_bucket all;

    *ret_varies = false;
    advance(h, now);
    if (!h->known || !window)
        return h->known ? h->count : 0;
    all = gather(h, window, now);
    *ret_varies = all.high != all.low;
    if (how == AS_LOAD_MAX)
        return all.high;
    if (how == AS_LOAD_MIN)
        return all.low;
    /* a count that was the same all the time is not rounded */
    return *ret_varies && all.covered ? all.sum / (double)all.covered : h->count;
}
