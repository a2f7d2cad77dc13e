/* Any bytes as a stream of events: the same events in any pieces, none above the limit, and the
 * same as those of a reader that splits lines first (below).
 */
#include "wire/http/sse.h"

#define LIMIT 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_event(struct as_buf *out, const struct as_buf *event)
{
    as_buf_printf(out, "<%zu>", event->n);
    as_buf_add(out, event->n ? event->p : (const uint8_t *)"", event->n);
}

/* False: an event was too big. */
static bool read_cut(const uint8_t *p, size_t n, size_t step, struct as_buf *out, bool *ret_whole)
{
    struct as_sse s = {0};
    struct as_buf event = {0};
    bool fits = true;

    for (size_t at = 0; at < n && fits; at += step) {
        const uint8_t *part = p + at;
        size_t left = AS_MIN(step, n - at);
        enum as_sse_result got;

        while (fits && (got = as_sse_read(&s, &part, &left, &event, LIMIT)) != AS_SSE_MORE) {
            fits = got == AS_SSE_EVENT;
            AS_ASSERT(event.n <= LIMIT + n); /* the newlines between lines are not counted */
            if (fits)
                add_event(out, &event);
            event.n = 0;
        }
        AS_ASSERT(!fits || left == 0);
    }
    *ret_whole = as_sse_at_boundary(&s);
    as_buf_fini(&event);
    return fits;
}

/* As the specification says: decode, split into lines, parse each line. */
static void read_lines(const uint8_t *p, size_t n, struct as_buf *out)
{
    struct as_buf event = {0};
    bool any = false;
    size_t at = n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

    while (at < n) {
        size_t end = at, name, value;

        while (end < n && p[end] != '\r' && p[end] != '\n')
            end++;
        if (end == n)
            break;
        for (name = at; name < end && p[name] != ':';)
            name++;
        value = AS_MIN(name + 1, end);
        value += value < end && p[value] == ' ';
        if (at == end && any) {
            add_event(out, &event);
            event.n = 0;
            any = false;
        } else if (name - at == 4 && memcmp(p + at, "data", 4) == 0) {
            if (any)
                as_buf_str(&event, "\n");
            as_buf_add(&event, p + value, end - value);
            any = true;
        }
        at = end + (p[end] == '\r' && end + 1 < n && p[end + 1] == '\n' ? 2 : 1);
    }
    as_buf_fini(&event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_buf whole = {0}, cut = {0}, lines = {0};
    bool ended, cut_ended, fits = read_cut(data, size, size + 1, &whole, &ended);

    for (size_t step = 1; step < 8; step += 2) {
        cut.n = 0;
        AS_ASSERT(read_cut(data, size, step, &cut, &cut_ended) == fits || !fits);
        AS_ASSERT(!fits ||
                  (as_str_eq(as_buf_slice(&whole), as_buf_slice(&cut)) && ended == cut_ended));
    }
    if (fits) {
        read_lines(data, size, &lines);
        AS_ASSERT(as_str_eq(as_buf_slice(&whole), as_buf_slice(&lines)));
    }
    as_buf_fini(&whole);
    as_buf_fini(&cut);
    as_buf_fini(&lines);
    return 0;
}
