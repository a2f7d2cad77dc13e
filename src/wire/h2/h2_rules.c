#include "wire/h2/h2_rules.h"

#include <nghttp2/nghttp2.h>
#include <string.h>
#include <strings.h>

enum { METHOD = 1, SCHEME = 2, AUTHORITY = 4, PATH = 8, HOST = 16 };
#define NEEDED (METHOD | SCHEME | PATH)

enum kind { PSEUDO, TE, HOST_FIELD, LENGTH, BANNED, KNOWN, OTHER };

#define IS(text) (memcmp(name.p, text, sizeof(text) - 1) == 0)

/* Classifies a field by its name; ret_bit: the bit of a pseudo-header. KNOWN: a valid name without
 * rules of its own. */
static inline enum kind kind_of(struct as_str name, uint8_t *ret_bit)
{
    switch (name.n) {
    case 2:
        return IS("te") ? TE : OTHER;
    case 4:
        return IS("host") ? HOST_FIELD : OTHER;
    case 5:
        *ret_bit = PATH;
        return IS(":path") ? PSEUDO : OTHER;
    case 7:
        *ret_bit = IS(":method") ? METHOD : SCHEME;
        if (*ret_bit == METHOD || IS(":scheme"))
            return PSEUDO;
        return IS("upgrade") ? BANNED : OTHER;
    case 10:
        *ret_bit = AUTHORITY;
        if (IS(":authority"))
            return PSEUDO;
        if (IS("user-agent"))
            return KNOWN;
        return IS("connection") || IS("keep-alive") ? BANNED : OTHER;
    case 12:
        return IS("content-type") || IS("grpc-timeout") ? KNOWN : OTHER;
    case 14:
        return IS("content-length") ? LENGTH : OTHER;
    case 16:
        return IS("proxy-connection") ? BANNED : OTHER;
    case 17:
        return IS("transfer-encoding") ? BANNED : OTHER;
    case 20:
        return IS("grpc-accept-encoding") ? KNOWN : OTHER;
    default:
        return OTHER;
    }
}

#define EACH(byte) (0x0101010101010101u * (byte))

/* Sets the top bit of every byte below 0x20 or above 0x7e; sound for the word as a whole: without a
 * bad byte it is 0, with one it is not. */
static inline uint64_t unusual_bytes(uint64_t w)
{
    return (w | (w - EACH(0x20u)) | (w + EACH(1u))) & EACH(0x80u);
}

static inline uint64_t load_word(const char *p)
{
    uint64_t w;

    memcpy(&w, p, sizeof(w));
    return w;
}

/* All bytes are printable ASCII. */
static inline bool is_printable(struct as_str v)
{
    uint64_t bad = 0;

    if (v.n < 8) {
        uint64_t w = EACH(0x40u);

        memcpy(&w, v.p, v.n);
        return !unusual_bytes(w);
    }
    for (size_t i = 0; i + 8 < v.n; i += 8)
        bad |= unusual_bytes(load_word(v.p + i));
    return !(bad | unusual_bytes(load_word(v.p + v.n - 8)));
}

static inline const uint8_t *bytes(struct as_str s)
{
    return (const uint8_t *)s.p;
}

static inline bool is_value(struct as_str v)
{
    if (v.n && v.p[0] != ' ' && v.p[v.n - 1] != ' ' && is_printable(v))
        return true;
    return nghttp2_check_header_value_rfc9113(bytes(v), v.n);
}

static bool is_scheme(struct as_str v)
{
    char c = v.p[0] | 0x20;

    if (c < 'a' || c > 'z')
        return false;
    for (size_t i = 1; i < v.n; i++) {
        c = v.p[i] | 0x20;
        if ((c < 'a' || c > 'z') && (v.p[i] < '0' || v.p[i] > '9') && v.p[i] != '+' &&
            v.p[i] != '-' && v.p[i] != '.')
            return false;
    }
    return true;
}

static bool equals_any_case(struct as_str v, const char *text)
{
    return v.n == strlen(text) && strncasecmp(v.p, text, v.n) == 0;
}

static bool check_method(struct as_h2_rules *r, struct as_str v)
{
    if (as_str_eq(v, AS_STR("POST")) || as_str_eq(v, AS_STR("GET")))
        return true;
    r->connect = as_str_eq(v, AS_STR("CONNECT"));
    r->options = as_str_eq(v, AS_STR("OPTIONS"));
    return nghttp2_check_method(bytes(v), v.n) && !(r->connect && r->seen & (PATH | SCHEME));
}

static bool check_path(struct as_h2_rules *r, struct as_str v)
{
    r->slash = v.p[0] == '/';
    r->asterisk = v.n == 1 && v.p[0] == '*';
    return !r->connect && nghttp2_check_path(bytes(v), v.n);
}

static bool check_scheme(struct as_h2_rules *r, struct as_str v)
{
    r->web = equals_any_case(v, "http") || equals_any_case(v, "https");
    return !r->connect && (r->web || is_scheme(v));
}

static bool check_pseudo(struct as_h2_rules *r, uint8_t bit, struct as_str v)
{
    bool good;

    if (r->seen & bit || !v.n)
        return false;
    if (bit == METHOD)
        good = check_method(r, v);
    else if (bit == PATH)
        good = check_path(r, v);
    else if (bit == SCHEME)
        good = check_scheme(r, v);
    else
        good = nghttp2_check_authority(bytes(v), v.n);
    r->seen |= bit;
    return good;
}

static bool read_length(struct as_h2_rules *r, struct as_str v)
{
    if (r->has_length || !v.n)
        return false;
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9' || r->length > (INT64_MAX - 9) / 10)
            return false;
        r->length = 10 * r->length + (uint64_t)(v.p[i] - '0');
    }
    r->has_length = true;
    return true;
}

/* The rules for fields with rules of their own; the characters of name and value are valid. */
static bool check_special(struct as_h2_rules *r, enum kind kind, struct as_str v)
{
    bool again = r->seen & HOST;

    switch (kind) {
    case TE:
        return equals_any_case(v, "trailers");
    case HOST_FIELD:
        r->seen |= HOST;
        return !again && v.n;
    case LENGTH:
        return read_length(r, v);
    default:
        return kind != BANNED;
    }
}

bool as_h2_rules_field(struct as_h2_rules *r, struct as_str name, struct as_str value, bool trailer)
{
    uint8_t bit = 0;
    enum kind kind = kind_of(name, &bit);

    if (name.n && name.p[0] == ':')
        return !trailer && !r->regular && kind == PSEUDO && check_pseudo(r, bit, value);
    r->regular = true;
    if (kind == OTHER && !nghttp2_check_header_name(bytes(name), name.n))
        return false;
    if (kind == HOST_FIELD ? !nghttp2_check_authority(bytes(value), value.n) : !is_value(value))
        return false;
    return kind == KNOWN || kind == OTHER || check_special(r, kind, value);
}

bool as_h2_rules_head(struct as_h2_rules *r)
{
    if (r->connect) {
        r->has_length = false;
        return r->seen & AUTHORITY;
    }
    /* neither :authority nor Host is required (§8.3.1): a health check may not know a name */
    if ((r->seen & NEEDED) != NEEDED)
        return false;
    return !r->web || r->slash || (r->asterisk && r->options);
}
