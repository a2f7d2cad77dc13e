#include "wire/http/sse.h"

/*  FIELD ──':' after "data"──► SPACE ──any byte──► DATA     each state ──line end──► FIELD
 *    └────':' after others───► SKIP                                                           */
enum { FIELD, SPACE, DATA, SKIP };

static const char data_field[] = "data";

static bool is_data_field(const struct as_sse *s)
{
    return s->n_field == sizeof(s->field) && memcmp(s->field, data_field, sizeof(s->field)) == 0;
}

/* True: the byte belongs to the byte order mark at the start of the stream. An incomplete mark
 * becomes part of a field name, and that field is skipped as unknown. */
static bool is_mark(struct as_sse *s, uint8_t c)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};

    if (s->begun || s->n_mark == sizeof(mark) || c != mark[s->n_mark]) {
        if (!s->begun && s->n_mark && s->n_mark < sizeof(mark))
            s->state = SKIP;
        s->begun = true;
        return false;
    }
    s->n_mark++;
    return true;
}

static void begin_data(struct as_sse *s, struct as_buf *data)
{
    if (s->has_data)
        as_buf_add(data, "\n", 1);
    s->has_data = true;
}

/* True: an event is complete. */
static bool end_line(struct as_sse *s, struct as_buf *data)
{
    bool empty = s->state == FIELD && s->n_field == 0, event = empty && s->has_data;

    if (s->state == FIELD && is_data_field(s)) /* no colon: a line without a value */
        begin_data(s, data);
    s->state = FIELD;
    s->n_field = 0;
    if (event)
        s->has_data = false;
    return event;
}

static void add_to_field(struct as_sse *s, uint8_t c, struct as_buf *data)
{
    if (c == ':' && is_data_field(s)) {
        begin_data(s, data);
        s->state = SPACE;
    } else if (c == ':' || s->n_field == sizeof(s->field)) {
        s->state = SKIP;
    } else {
        s->field[s->n_field++] = (char)c;
    }
}

/* The number of bytes up to the end of the line, or n if it does not end here. */
static size_t rest_of_line(const uint8_t *p, size_t n)
{
    const uint8_t *lf = memchr(p, '\n', n), *cr;

    if (lf)
        n = (size_t)(lf - p);
    cr = n ? memchr(p, '\r', n) : NULL;
    return cr ? (size_t)(cr - p) : n;
}

enum as_sse_result as_sse_read(struct as_sse *s, const uint8_t **p, size_t *n, struct as_buf *data,
                               size_t limit)
{
    while (*n) {
        uint8_t c = **p;
        size_t len;

        if (c == '\r' || c == '\n') {
            bool second = c == '\n' && s->after_cr;

            s->begun = true;
            s->after_cr = c == '\r';
            ++*p;
            --*n;
            if (!second && end_line(s, data))
                return AS_SSE_EVENT;
            continue;
        }
        s->after_cr = false;
        if (s->state == FIELD || (s->state == SPACE && c == ' ')) {
            if (s->state == SPACE)
                s->state = DATA;
            else if (!is_mark(s, c) && s->state == FIELD)
                add_to_field(s, c, data);
            ++*p;
            --*n;
            continue;
        }
        len = rest_of_line(*p, *n);
        if (s->state != SKIP) {
            s->state = DATA;
            if (len > limit - AS_MIN(limit, data->n))
                return AS_SSE_TOO_BIG;
            as_buf_add(data, *p, len);
        }
        *p += len;
        *n -= len;
    }
    return AS_SSE_MORE;
}

bool as_sse_at_boundary(const struct as_sse *s)
{
    return s->state == FIELD && s->n_field == 0 && !s->has_data;
}
