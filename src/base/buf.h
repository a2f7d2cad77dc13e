/* base/buf.h — a growable byte buffer with one owner.
 *
 * For output whose size our own code decides (texts, frames, headers); out of memory ends the
 * process. The caller bounds a size that a peer decides before it appends. An empty one is
 * all zero: `struct as_buf b = {0};`. as_buf_init is for one in other memory.
 */
#ifndef AS_BASE_BUF_H
#define AS_BASE_BUF_H

#include "base/str.h"

#include <stdarg.h>

struct as_buf {
    uint8_t *p;
    size_t n;   /* bytes in use */
    size_t cap; /* bytes allocated */
};

static inline void as_buf_init(struct as_buf *b)
{
    *b = (struct as_buf){0};
}

void as_buf_fini(struct as_buf *b);

/* Room for n more bytes at the end, not yet counted in b->n. The pointer is valid until the next
 * call. */
uint8_t *as_buf_reserve(struct as_buf *b, size_t n);
/* The same, but NULL when memory is out: for bytes of one client, whose request is then refused. */
uint8_t *as_buf_try_reserve(struct as_buf *b, size_t n);
void as_buf_add(struct as_buf *b, const void *p, size_t n);
void as_buf_str(struct as_buf *b, const char *z);
void as_buf_printf(struct as_buf *b, const char *fmt, ...) AS_PRINTF(2, 3);
void as_buf_vprintf(struct as_buf *b, const char *fmt, va_list ap) AS_PRINTF(2, 0)
    __attribute__((nonnull(1, 2)));
/* Removes the first n bytes. */
void as_buf_drop(struct as_buf *b, size_t n);
/* Replaces the content by `s`, which is not a part of it. */
void as_buf_set(struct as_buf *b, struct as_str s);
/* The content as a C string, by a NUL behind it that b->n does not count. Valid until the next
 * call.
 */
char *as_buf_cstr(struct as_buf *b);
/* Percent-encoded, as a path of a URL: all but unreserved characters (RFC 3986) and slashes. */
void as_buf_percent(struct as_buf *b, struct as_str s);
/* "127.0.0.1:8000", "[::1]:8000". local: the wildcards 0.0.0.0 and :: become 127.0.0.1, which a
 * client on this machine can call. */
void as_buf_address(struct as_buf *b, const char *host, uint16_t port, bool local);
/* Appends `s` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void as_buf_json(struct as_buf *b, struct as_str s);

static inline struct as_str as_buf_slice(const struct as_buf *b)
{
    return (struct as_str){(const char *)b->p, b->n};
}

#endif
