/* wire/h1/h1_syntax.h — what both sides of HTTP/1.1 read: tokens, values, field lines, versions and
 * chunks (RFC 9112 §2, §5, §7; RFC 9110 §5).
 *
 * The server (h1_head.c, h1.c) and the client (h1_client.c) share these, so that neither accepts
 * what the other one refuses. Private to them. Pure; the input may be hostile.
 */
#ifndef AS_WIRE_H1_SYNTAX_H
#define AS_WIRE_H1_SYNTAX_H

#include "base/str.h"

/* The lower-case form of a byte of a token (RFC 9110 §5.6.2); 0: no token has this byte. */
extern const uint8_t as_h1_syntax_token[256];

bool as_h1_syntax_is_token(struct as_str s);
/* No control characters except tabs (RFC 9110 §5.5). */
bool as_h1_syntax_is_value(struct as_str s);
/* A list separated by commas has this entry, whatever its case. */
bool as_h1_syntax_list_has(struct as_str list, struct as_str entry);

/* Splits a field line of n bytes, without its CR LF; p[n] must be readable and no byte of a token.
 * Changes the name to lower case. NULL, or what is malformed. */
const char *as_h1_syntax_field(uint8_t *p, size_t n, struct as_str *ret_name,
                               struct as_str *ret_value);

/* "HTTP/1.0": 10; "HTTP/1.1": 11; another version of this form: 0; another form: -1. */
int as_h1_syntax_version(const uint8_t *p, size_t n);

/* What is between the data of chunks: the line end of the last one, the size and its extensions. */
enum as_h1_chunk_at {
    AS_H1_CHUNK_SIZE,
    AS_H1_CHUNK_EXT,
    AS_H1_CHUNK_LF, /* behind the size */
    AS_H1_CHUNK_END_CR,
    AS_H1_CHUNK_END_LF,
    AS_H1_CHUNK_DATA, /* `size` bytes of data are next; then set END_CR */
    AS_H1_CHUNK_LAST, /* the trailers are next */
};

struct as_h1_chunk { /* zero: the first chunk is next */
    enum as_h1_chunk_at at;
    uint32_t n_digits;
    uint64_t size;
    size_t ext_bytes;
    uint64_t n; /* chunks that are complete */
};

/* Reads up to DATA or LAST. Returns the number of bytes consumed; *ret_fault: NULL, or what is
 * malformed at the byte behind them. max_ext: bytes of the extensions of a chunk. */
size_t as_h1_syntax_chunk(struct as_h1_chunk *c, const uint8_t *p, size_t n, uint32_t max_ext,
                          const char **ret_fault);

#endif
