/* Request lines and field lines of HTTP/1.1 (RFC 9112 §3, §5; RFC 9110 §5). */
#include "base/err.h"
#include "wire/h1/h1_internal.h"
#include "wire/h1/h1_syntax.h"

#include <strings.h>

#define FIELD_OVERHEAD 32u /* counted for each field, as HTTP/2 does (RFC 9113 §6.5.2) */

static struct as_str slice(const uint8_t *p, size_t n)
{
    return (struct as_str){(const char *)p, n};
}

/* uri-host [":" port] of RFC 3986, without commas, which would look like a list of two hosts. May
 * be empty. */
static bool is_host(struct as_str s)
{
    static const char other[] = "-._~%!$&'()*+;=:[]";

    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = (uint8_t)s.p[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');

        if (!alnum && (!c || !strchr(other, c)))
            return false;
    }
    return true;
}

/* --- fields that decide how the message is read --- */

static const char *parse_length(struct as_h1_request *r, struct as_str v)
{
    uint64_t n;

    if (r->has_length)
        return "a second content-length";
    if (as_str_u64(v, &n) || n > INT64_MAX)
        return "content-length is not a number, or too large";
    r->has_length = true;
    r->left = n;
    return NULL;
}

static const char *parse_coding(struct as_h1_request *r, struct as_str v, uint32_t *status)
{
    if (r->chunked)
        return "a second transfer-encoding";
    r->chunked = true;
    if (as_str_eq_nocase(v, AS_STR("chunked")))
        return NULL;
    /* well-formed, but not implemented: 501; malformed: 400 */
    for (size_t i = 0; i < v.n; i++) {
        if (!as_h1_syntax_token[(uint8_t)v.p[i]] && !strchr(", ;=\t", v.p[i]))
            return "transfer-encoding is malformed";
    }
    if (!v.n)
        return "transfer-encoding is empty";
    *status = 501;
    return "transfer-encoding is not chunked";
}

static const char *parse_host(struct as_h1 *h, struct as_str v)
{
    if (h->rq.has_host)
        return "a second host";
    if (!is_host(v))
        return "host is malformed";
    h->rq.has_host = true;
    h->head.authority = v;
    return NULL;
}

static void parse_expect(struct as_h1_request *r, struct as_str v)
{
    if (as_str_eq_nocase(v, AS_STR("100-continue")))
        r->expects = true;
    else
        r->bad_expect = true;
}

/* A field connection: which fields beside it are for this connection only (RFC 9110 §7.6.1). */
static const char *parse_connection(struct as_h1 *h, struct as_str v)
{
    struct as_str list = v;

    h->closing |= as_h1_syntax_list_has(v, AS_STR("close"));
    h->rq.says_upgrade |= as_h1_syntax_list_has(v, AS_STR("upgrade"));
    while (list.n) {
        struct as_str s = as_str_split(&list, ',');

        if (!s.n || as_str_eq_nocase(s, AS_STR("close")) || as_str_eq_nocase(s, AS_STR("te")) ||
            as_str_eq_nocase(s, AS_STR("upgrade")) || as_str_eq_nocase(s, AS_STR("keep-alive")))
            continue;
        if (h->rq.n_named == AS_H1_NAMED_MAX)
            return "too many fields connection";
        h->rq.named[h->rq.n_named++] = v;
        return NULL;
    }
    return NULL;
}

static bool is_named(const struct as_h1_request *r, struct as_str name)
{
    for (uint32_t i = 0; i < r->n_named; i++) {
        if (as_h1_syntax_list_has(r->named[i], name))
            return !as_str_eq(name, AS_STR("content-length"));
    }
    return false;
}

/* Drops the fields that fields connection name. */
static void drop_named_fields(struct as_h1 *h)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < h->head.n_rest; i++) {
        if (!is_named(&h->rq, h->rest[i].name))
            h->rest[kept++] = h->rest[i];
    }
    h->head.n_rest = kept;
}

/* Handles the fields that affect the connection or the framing. True: the field is hop-by-hop and
 * is not shown to the owner. */
static bool parse_special_field(struct as_h1 *h, struct as_str name, struct as_str v,
                                const char **err, uint32_t *status)
{
#define IS(z) (memcmp(name.p, z, sizeof(z) - 1) == 0)
    switch (name.n) {
    case 4:
        if (!IS("host"))
            return false;
        *err = parse_host(h, v);
        return true;
    case 6:
        if (IS("expect"))
            parse_expect(&h->rq, v);
        return false;
    case 7:
        if (IS("upgrade"))
            h->rq.upgrades_websocket |= as_h1_syntax_list_has(v, AS_STR("websocket"));
        return IS("upgrade"); /* may be ignored: RFC 9110 §7.8 */
    case 10:
        if (IS("connection"))
            *err = parse_connection(h, v);
        return IS("connection") || IS("keep-alive");
    case 14:
        if (IS("content-length"))
            *err = parse_length(&h->rq, v);
        return false;
    case 16:
        return IS("proxy-connection");
    case 17:
        if (!IS("transfer-encoding"))
            return false;
        *err = parse_coding(&h->rq, v, status);
        return true;
    default:
        return false;
    }
#undef IS
}

static bool grow_rest(struct as_h1 *h)
{
    uint32_t cap = AS_MAX(h->conf.max_headers, h->rest_cap + 1);
    struct as_http_header *more = malloc(cap * sizeof(*more));

    if (!more)
        return false;
    memcpy(more, h->rest, h->head.n_rest * sizeof(*more));
    if (h->rest != h->inline_rest)
        free(h->rest);
    h->head.rest = h->rest = more;
    h->rest_cap = cap;
    return true;
}

/* --- one line --- */

static void bad_field(struct as_h1 *h, uint32_t status, const char *what)
{
    as_h1_fail(h, status, h->state == AS_H1_TRAILER ? "trailer" : "header", h->rq.n_fields, what);
}

static const char *trailer_fault(struct as_str name)
{
    static const struct as_str never[] = {
        {"content-length", 14}, {"host", 4}, {"transfer-encoding", 17}};

    for (size_t i = 0; i < AS_COUNT(never); i++) {
        if (as_str_eq(name, never[i]))
            return "a field that is not allowed in a trailer";
    }
    return NULL;
}

static void store_field(struct as_h1 *h, struct as_str name, struct as_str value)
{
    const char *err = NULL;
    uint32_t status = 400;
    struct as_str *to;

    if (parse_special_field(h, name, value, &err, &status) || err) {
        if (err)
            bad_field(h, status, err);
        return;
    }
    to = as_http_head_field(&h->head, name);
    if (to && !to->p) {
        *to = value;
        return;
    }
    if (h->head.n_rest == h->rest_cap && !grow_rest(h)) {
        as_h1_fail(h, 503, NULL, 0, "no memory for the request");
        return;
    }
    h->rest[h->head.n_rest++] = (struct as_http_header){name, value};
}

/* Parses a field or trailer of n bytes, without its CR LF; at least one more byte of the buffer
 * follows. */
static void parse_field(struct as_h1 *h, uint8_t *p, size_t n)
{
    struct as_str name, value;
    const char *err;

    if (++h->rq.n_fields > h->conf.max_headers) {
        bad_field(h, 431, "more than --max-headers fields");
        return;
    }
    h->rq.list_size += n + FIELD_OVERHEAD;
    err = as_h1_syntax_field(p, n, &name, &value);
    if (err) {
        bad_field(h, 400, err);
        return;
    }
    if (h->state != AS_H1_TRAILER) {
        store_field(h, name, value);
        return;
    }
    err = trailer_fault(name);
    if (err)
        bad_field(h, 400, err);
}

/* --- the request line --- */

static void bad_line(struct as_h1 *h, uint32_t status, const char *what)
{
    as_h1_fail(h, status, "request line", 0, what);
}

/* The absolute form of a target, which every server must accept (RFC 9112 §3.2.2). An empty path
 * means "/": the authority moves one byte to the left, over the second slash of "://", to make room
 * for it. */
static const char *split_absolute(struct as_h1 *h, uint8_t *p, size_t n)
{
    size_t scheme = n > 7 && strncasecmp((char *)p, "http://", 7) == 0    ? 7
                    : n > 8 && strncasecmp((char *)p, "https://", 8) == 0 ? 8
                                                                          : 0;
    uint8_t *host = p + scheme, *end = p + n, *path = host;

    if (!scheme)
        return "the target begins with neither / nor http://";
    while (path < end && *path != '/' && *path != '?')
        path++;
    if (path == host || !is_host(slice(host, (size_t)(path - host))))
        return "the target's host is malformed";
    h->rq.is_absolute = true;
    if (path == end || *path == '?') {
        memmove(host - 1, host, (size_t)(path - host));
        host--;
        *--path = '/';
    }
    h->rq.authority = slice(host, (size_t)(path - host));
    h->head.path = slice(path, (size_t)(end - path));
    return NULL;
}

static const char *parse_target(struct as_h1 *h, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] <= 0x20 || p[i] >= 0x7f)
            return "the target has a byte that must be percent-encoded";
        if (p[i] == '#')
            return "the target has a fragment";
    }
    if (!n)
        return "the target is empty";
    h->head.path = slice(p, n);
    if (*p == '/')
        return NULL;
    if (n == 1 && *p == '*')
        return as_str_eq(h->head.method, AS_STR("OPTIONS"))
                   ? NULL
                   : "the target * is allowed for OPTIONS only";
    return split_absolute(h, p, n);
}

/* 0, or the status of the error. */
static uint32_t parse_version(struct as_h1 *h, const uint8_t *p, size_t n, const char **ret_what)
{
    int version = as_h1_syntax_version(p, n);

    *ret_what =
        version < 0 ? "the version is malformed" : "the version is neither HTTP/1.1 nor HTTP/1.0";
    h->rq.is_http10 = version == 10;
    return version < 0 ? 400 : version ? 0 : 505;
}

static void parse_request_line(struct as_h1 *h, uint8_t *p, size_t n)
{
    uint8_t *end = p + n, *target, *version;
    const char *what;
    uint32_t status;
    size_t i = 0;

    while (as_h1_syntax_token[p[i]])
        i++;
    if (!i || i == n || p[i] != ' ') {
        bad_line(h, 400, "the method is malformed");
        return;
    }
    h->head = (struct as_http_head){.method = slice(p, i), .scheme = {"http", 4}, .rest = h->rest};
    h->rq.is_head = as_str_eq(h->head.method, AS_STR("HEAD"));
    target = p + i + 1;
    version = memchr(target, ' ', (size_t)(end - target));
    if (!version) {
        bad_line(h, 400, "the version is missing");
        return;
    }
    status = parse_version(h, version + 1, (size_t)(end - version - 1), &what);
    if (!status && as_str_eq(h->head.method, AS_STR("CONNECT"))) {
        status = 501;
        what = "CONNECT is not supported";
    } else if (!status) {
        what = parse_target(h, target, (size_t)(version - target));
        status = what ? 400 : 0;
    }
    if (status)
        bad_line(h, status, what);
    else
        h->state = AS_H1_FIELDS;
}

/* --- the whole head --- */

static const char *head_fault(struct as_h1 *h)
{
    const struct as_h1_request *r = &h->rq;

    if (!r->has_host && !r->is_http10)
        return "host is missing";
    if (r->is_absolute && (!r->has_host || !as_str_eq_nocase(h->head.authority, r->authority)))
        return "host differs from the host of the target";
    if (r->chunked && r->is_http10)
        return "transfer-encoding in HTTP/1.0";
    if (r->chunked && r->has_length)
        return "content-length and transfer-encoding together";
    return NULL;
}

static void end_head(struct as_h1 *h)
{
    struct as_h1_request *r = &h->rq;
    const char *fault = head_fault(h);

    if (fault) {
        as_h1_fail(h, 400, "header", 0, fault);
        return;
    }
    if (r->n_named)
        drop_named_fields(h);
    if (r->is_http10) /* RFC 9110 §10.1.1 */
        r->expects = r->bad_expect = false;
    h->head.wants_websocket = r->says_upgrade && r->upgrades_websocket && !r->is_http10;
    if (r->bad_expect)
        as_h1_fail(h, 417, "header", 0, "expect is not 100-continue");
    else
        as_h1_start_request(h);
}

/* Parses a complete line at p: n bytes including its LF. */
static void parse_line(struct as_h1 *h, uint8_t *p, size_t n)
{
    bool first = h->state == AS_H1_LINE;

    if (n < 2 || p[n - 2] != '\r') {
        h->rq.n_fields += !first;
        if (first)
            bad_line(h, 400, "LF without CR");
        else
            bad_field(h, 400, "LF without CR");
        return;
    }
    n -= 2;
    if (n && first) {
        parse_request_line(h, p, n);
    } else if (n) {
        parse_field(h, p, n);
    } else if (h->state == AS_H1_FIELDS) {
        end_head(h);
    } else if (h->state == AS_H1_TRAILER) {
        as_h1_end_body(h);
    } else { /* RFC 9112 §2.2 says that servers should ignore it; no current client sends one */
        bad_line(h, 400, "the line is empty");
    }
}

/* --- bytes to lines --- */

/* Moves the head to a block that is large enough for the largest head, and all slices with it. */
static bool grow_head(struct as_h1 *h)
{
    struct as_str *own[] = {&h->head.method,        &h->head.path,    &h->head.authority,
                            &h->head.content_type,  &h->head.te,      &h->head.grpc_timeout,
                            &h->head.grpc_encoding, &h->rq.authority, &h->rq.named[0],
                            &h->rq.named[1],        &h->rq.named[2],  &h->rq.named[3]};
    const char *from = (const char *)h->in.p, *to;

    if (!as_h1_reserve(&h->in, (size_t)h->conf.max_line + h->conf.max_header_bytes + 8 - h->in.n,
                       h->inline_in))
        return false;
    to = (const char *)h->in.p;
    for (size_t i = 0; i < AS_COUNT(own); i++) {
        if (own[i]->p)
            own[i]->p = to + (own[i]->p - from);
    }
    for (uint32_t i = 0; i < h->head.n_rest; i++) {
        h->rest[i].name.p = to + (h->rest[i].name.p - from);
        h->rest[i].value.p = to + (h->rest[i].value.p - from);
    }
    return true;
}

/* True: a line of this many bytes, without its end, is above a limit, and an error was given. */
static bool reject_over_limit(struct as_h1 *h, size_t line)
{
    if (h->state == AS_H1_LINE) {
        if (line <= h->conf.max_line)
            return false;
        bad_line(h, 414, "the line is longer than --max-request-line");
        return true;
    }
    if (!line || h->rq.list_size + line + FIELD_OVERHEAD <= h->conf.max_header_bytes)
        return false;
    h->rq.n_fields++;
    bad_field(h, 431, "the fields together are larger than --max-header-bytes");
    return true;
}

/* True: the first byte cannot begin a request, and an error was given, without waiting for a line
 * end that may never come. */
static bool reject_non_http(struct as_h1 *h, uint8_t first)
{
    if (as_h1_syntax_token[first] || first == '\r' || first == '\n')
        return false;
    bad_line(h, 400,
             first == 0x16 ? "this looks like TLS, and the port speaks plain HTTP"
                           : "the method is malformed");
    return true;
}

size_t as_h1_read_line(struct as_h1 *h, const uint8_t *p, size_t n)
{
    struct as_h1_bytes *b = h->state == AS_H1_TRAILER ? &h->trailer : &h->in;
    size_t line = b == &h->in ? h->line : 0;
    const uint8_t *lf = memchr(p, '\n', n);
    size_t k = lf ? (size_t)(lf - p) + 1 : n, whole = b->n - line + k;

    if (h->state == AS_H1_LINE && !b->n) {
        h->head_since = h->now;
        if (reject_non_http(h, *p))
            return 0;
    }
    /* the last byte of an incomplete line may be its CR; a complete line ends with two bytes */
    if (reject_over_limit(h, whole - AS_MIN(whole, (size_t)(lf ? 2 : 1))))
        return 0;
    if (k > b->cap - b->n && !(b == &h->in ? grow_head(h) : as_h1_reserve(b, k, NULL))) {
        as_h1_fail(h, 503, NULL, 0, "no memory for the request");
        return 0;
    }
    memcpy(b->p + b->n, p, k);
    b->n += k;
    if (!lf)
        return k;
    if (b == &h->in)
        h->line = b->n;
    else
        b->n = 0;
    parse_line(h, b->p + line, whole);
    return k;
}
