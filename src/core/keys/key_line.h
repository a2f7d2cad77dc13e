/* core/keys/key_line.h — one line of a file of API keys (--api-keys), read and written.
 *
 *   name=alice sha256=DIGEST tenant=team-a models=iris,llm-* applications=* rate=10/s burst=20
 *       in-flight=8 expires=2027-01-31T12:00:00Z
 *
 * on one line: fields in any order, between them spaces or tabs. `name` and `sha256` must be there.
 * A line that is empty or begins with # is a comment. An API key is 256 random bits, so nobody can
 * find it by trying, and a fast hash protects it as well as a slow one, which is for passwords.
 * Pure.
 */
#ifndef AS_CORE_KEY_LINE_H
#define AS_CORE_KEY_LINE_H

#include "base/buf.h"
#include "base/digest/sha256.h"

#define AS_KEY_LINE_MAX  4096u    /* bytes of a line without its end */
#define AS_KEY_NAME_MAX  64u      /* bytes of a name, and of a tenant */
#define AS_KEY_RATE_MAX  1000000u /* requests, and the burst */
#define AS_KEY_LIMIT_MAX 1000000u /* requests in flight */

/* A new key as text: "as_" and 32 bytes in base64url (RFC 4648 §5), without padding. */
#define AS_KEY_BYTES 32u
#define AS_KEY_TEXT  46u

struct as_key_line {
    struct as_str name, tenant;         /* tenant: empty: none */
    struct as_str models, applications; /* patterns of core/keys/glob.h, separated by commas */
    uint8_t digest[AS_SHA256_BYTES];    /* of the text of the key */
    uint32_t rate;                      /* requests in … 0: any number */
    uint32_t rate_period;               /* … this many seconds: 1, 60 or 3600 */
    uint32_t burst;                     /* of these at once; at least 1 */
    uint32_t in_flight;                 /* requests at once; 0: any number */
    uint64_t expires; /* seconds since 1970, UTC: invalid from then on; 0: never */
};

/* True: a comment. */
bool as_key_line_is_comment(struct as_str line);
/* Slices point into the line, or are static. 0; AS_EINVALID: `err` gets what is wrong, as a
 * sentence without the place. Never shows what may be a key or a digest. */
int as_key_line_parse(struct as_str line, struct as_key_line *ret_k, struct as_buf *err);
/* Appends the line with its end; what is as by default is left out. */
void as_key_line_put(const struct as_key_line *k, struct as_buf *out);

/* Parts of the line, for options of commands. 0; AS_EINVALID: `err` gets the end of a sentence ("is
 * not …"). */
int as_key_line_parse_name(struct as_str text, struct as_buf *err);
int as_key_line_parse_patterns(struct as_str text, struct as_buf *err);
/* "10/s", "100/m", "1000/h"; the burst becomes what may come in a second, and at least 1. */
int as_key_line_parse_rate(struct as_str text, struct as_key_line *k, struct as_buf *err);
/* 1 … most. */
int as_key_line_parse_count(struct as_str text, uint32_t most, uint32_t *ret_n, struct as_buf *err);
/* A date, which is its first second in UTC, or a time of RFC 3339. */
int as_key_line_parse_time(struct as_str text, uint64_t *ret_s, struct as_buf *err);
/* Appends the rate, which is not 0: "10/s". */
void as_key_line_put_rate(const struct as_key_line *k, struct as_buf *out);
/* Appends a time as RFC 3339, in UTC. */
void as_key_line_put_time(uint64_t s, struct as_buf *out);

/* Writes AS_KEY_TEXT characters and a NUL. */
void as_key_text(const uint8_t bytes[AS_KEY_BYTES], char ret_text[AS_KEY_TEXT + 1]);
/* Whether it has the length and the first characters of an API key: whatever has not is none. */
bool as_key_text_has_form(struct as_str text);

#endif
