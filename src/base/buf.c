#include "base/buf.h"

#include "base/utf8.h"

void as_buf_fini(struct as_buf *b)
{
    if (!b)
        return;
    free(b->p);
    as_buf_init(b);
}

uint8_t *as_buf_try_reserve(struct as_buf *b, size_t n)
{
    /* at least one byte: NULL must only mean that memory is out */
    size_t need = b->n + AS_MAX(n, (size_t)1);

    AS_ASSERT(need >= n);
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 256;
        uint8_t *p;

        while (cap < need)
            cap *= 2;
        p = realloc(b->p, cap);
        if (!p)
            return NULL;
        b->p = p;
        b->cap = cap;
    }
    return b->p + b->n;
}

uint8_t *as_buf_reserve(struct as_buf *b, size_t n)
{
    uint8_t *p = as_buf_try_reserve(b, n);

    if (__builtin_expect(!p, 0))
        as_fatal_memory(n);
    return p;
}

void as_buf_add(struct as_buf *b, const void *p, size_t n)
{
    if (!n)
        return;
    memcpy(as_buf_reserve(b, n), p, n);
    b->n += n;
}

void as_buf_str(struct as_buf *b, const char *z)
{
    as_buf_add(b, z, strlen(z));
}

void as_buf_vprintf(struct as_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    AS_ASSERT(n >= 0);
    vsnprintf((char *)as_buf_reserve(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    b->n += (size_t)n;
}

void as_buf_printf(struct as_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    as_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void as_buf_drop(struct as_buf *b, size_t n)
{
    AS_ASSERT(n <= b->n);
    b->n -= n;
    if (b->n)
        memmove(b->p, b->p + n, b->n);
}

void as_buf_set(struct as_buf *b, struct as_str s)
{
    b->n = 0;
    as_buf_add(b, s.p, s.n);
}

char *as_buf_cstr(struct as_buf *b)
{
    *as_buf_reserve(b, 1) = 0;
    return (char *)b->p;
}

void as_buf_json(struct as_buf *b, struct as_str s)
{
    const uint8_t *p = (const uint8_t *)s.p;

    as_buf_str(b, "\"");
    for (size_t i = 0; i < s.n;) {
        size_t len = as_utf8_len(p + i, s.n - i);

        if (len == 0) {
            as_buf_str(b, "\\ufffd");
            len = 1;
        } else if (p[i] == '"' || p[i] == '\\') {
            as_buf_printf(b, "\\%c", p[i]);
        } else if (p[i] < 0x20 || p[i] == 0x7f) {
            as_buf_printf(b, "\\u%04x", p[i]);
        } else {
            as_buf_add(b, p + i, len);
        }
        i += len;
    }
    as_buf_str(b, "\"");
}

void as_buf_percent(struct as_buf *b, struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = (uint8_t)s.p[i], low = c | 0x20;

        if ((c >= '0' && c <= '9') || (low >= 'a' && low <= 'z') || (c && strchr("-._~/", c)))
            as_buf_add(b, &c, 1);
        else
            as_buf_printf(b, "%%%02X", c);
    }
}

void as_buf_address(struct as_buf *b, const char *host, uint16_t port, bool local)
{
    if (local && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0))
        host = "127.0.0.1";
    as_buf_printf(b, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}
