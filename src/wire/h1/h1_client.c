#include "wire/h1/h1_client.h"

#include "base/buf.h"
#include "base/err.h"
#include "wire/h1/h1_syntax.h"

/*  What is read next:
 *
 *  IDLE ──request──► STATUS ──line──► FIELDS ──empty line──► LENGTH ──────────last byte──┐
 *   ▲                  ▲                │├─────────────────► UNTIL_EOF ───eof────────────┤
 *   │                  └──1xx───────────┘├─────────────────► (no body) ──────────────────┤
 *   │                                    └► CHUNK ──size 0──► TRAILERS ──empty line──────┤
 *   │                                        ▲└─► CHUNK_DATA ─┐                          │
 *   │                                        └────────────────┘                          │
 *   └────────────────────────── the connection stays open ───────────────────────────────┤
 *  OVER ◄─────────────────────── it does not, or an answer broke a rule ─────────────────┘
 */
enum state {
    IDLE,
    STATUS,
    FIELDS,
    LENGTH,
    UNTIL_EOF,
    CHUNK, /* what is between the data of chunks */
    CHUNK_DATA,
    TRAILERS,
    OVER
};

enum { NO_ERROR = 0, PROTOCOL_ERROR = 1, CANCEL = 8 }; /* of RFC 9113 */

struct as_h1_client {
    struct as_h1_client_conf conf;
    const struct as_http_client_ops *ops;
    void *conn;
    enum state state;
    const char *why; /* why the connection is over */
    bool broken;     /* it is over because an answer broke a rule */
    bool ready;

    /* --- the request --- */
    void *call;
    uint32_t stream;
    struct as_buf head; /* its head; bytes from head_at on are not sent */
    size_t head_at;
    const struct as_str *body;
    uint32_t n_body, piece;
    size_t piece_offset;
    bool is_head;        /* HEAD: its answer has no body, whatever its headers say */
    bool is_reset;       /* the owner has reset it: only on_close follows … */
    uint32_t reset_code; /* … with this code */

    /* --- the answer --- */
    struct as_buf line; /* an incomplete line */
    uint32_t status, n_fields, n_interim;
    size_t field_bytes;
    bool interim, is_http10, has_length, chunked, close;
    uint64_t left; /* missing bytes of the body, or of the chunk */
    struct as_h1_chunk chunk;
};

/* --- the end of an answer or of the connection --- */

static void close_call(struct as_h1_client *h, uint32_t code, bool whole)
{
    void *call = h->call;

    h->call = NULL;
    h->body = NULL;
    h->n_body = h->piece = 0;
    if (call)
        h->ops->on_close(h->conn, call, h->is_reset ? h->reset_code : code, whole && !h->is_reset);
}

static int end_connection(struct as_h1_client *h, const char *why)
{
    h->state = OVER;
    h->why = why;
    return 0;
}

static int fail_connection(struct as_h1_client *h, const char *why)
{
    h->broken = true;
    end_connection(h, why);
    close_call(h, PROTOCOL_ERROR, false);
    return AS_EPROTO;
}

static bool is_sent(const struct as_h1_client *h)
{
    return h->head_at == h->head.n && h->piece == h->n_body;
}

/* The answer is complete. The owner may start the next request in its on_close. */
static int end_answer(struct as_h1_client *h)
{
    if (!is_sent(h)) /* how much of the request the server has read is unknown */
        end_connection(h, "the server answered before it had the whole request");
    else if (h->close)
        end_connection(h, "the server closes the connection after its answer");
    else
        h->state = IDLE;
    close_call(h, NO_ERROR, true);
    return 0;
}

/* --- lines of an answer --- */

/* "HTTP/1.x SP 3DIGIT [SP reason]"; many servers leave out the space if there is no reason. */
static int parse_status(struct as_h1_client *h, struct as_str s)
{
    int version = s.n < 12 ? -1 : as_h1_syntax_version((const uint8_t *)s.p, 8);
    struct as_str code = {s.p + 9, 3};
    uint64_t status;

    if (version < 10 || s.p[8] != ' ')
        return fail_connection(h, "the answer is not HTTP/1.1");
    if (as_str_u64(code, &status) || status < 100 || status > 599 || (s.n > 12 && s.p[12] != ' ') ||
        !as_h1_syntax_is_value(s))
        return fail_connection(h, "the answer has a bad status line");
    h->ready = true;
    h->status = (uint32_t)status;
    h->is_http10 = version == 10;
    h->interim = status < 200;
    if (status == 101)
        return fail_connection(h,
                               "the server switches to another protocol, which was not requested");
    if (h->interim && (h->is_http10 || ++h->n_interim > AS_H1_CLIENT_INTERIM_MAX))
        return fail_connection(h, "too many interim answers");
    h->has_length = h->chunked = false;
    h->close = h->is_http10;
    h->state = FIELDS;
    if (!h->interim && !h->is_reset)
        h->ops->on_field(h->conn, h->call, AS_STR(":status"), code, false);
    return 0;
}

/* Fields that determine where the answer ends, and whether the connection ends with it. */
static int parse_framing_field(struct as_h1_client *h, struct as_str name, struct as_str value)
{
    if (as_str_eq(name, AS_STR("content-length"))) {
        if (h->has_length || h->chunked || h->interim)
            return fail_connection(h, "the answer has more than one length");
        if (as_str_u64(value, &h->left))
            return fail_connection(h, "the answer has a bad content-length");
        h->has_length = true;
    } else if (as_str_eq(name, AS_STR("transfer-encoding"))) {
        if (h->has_length || h->chunked || h->interim)
            return fail_connection(h, "the answer has more than one length");
        if (h->is_http10 || !as_str_eq_nocase(value, AS_STR("chunked")))
            return fail_connection(h, "the answer has a transfer-encoding other than chunked");
        h->chunked = true;
    } else if (as_str_eq(name, AS_STR("connection"))) {
        h->close = h->close || as_h1_syntax_list_has(value, AS_STR("close"));
    }
    return 0;
}

static int parse_field(struct as_h1_client *h, uint8_t *p, size_t n)
{
    bool trailer = h->state == TRAILERS;
    struct as_str name, value;
    int rc = 0;

    if (as_h1_syntax_field(p, n, &name, &value))
        return fail_connection(h, "the answer has a malformed header");
    h->field_bytes += name.n + value.n + 32;
    if (h->field_bytes > h->conf.max_header_bytes || ++h->n_fields > h->conf.max_headers)
        return fail_connection(h, "the answer has too many or too large headers");
    if (!trailer)
        rc = parse_framing_field(h, name, value);
    if (!rc && !h->interim && !h->is_reset)
        h->ops->on_field(h->conn, h->call, name, value, trailer);
    return rc;
}

/* The empty line after the fields (RFC 9112 §6.3). */
static int end_head(struct as_h1_client *h)
{
    if (h->interim) {
        h->state = STATUS;
        return 0;
    }
    if (h->is_head || h->status == 204 || h->status == 304)
        return end_answer(h);
    if (h->chunked) {
        h->state = CHUNK;
        h->chunk = (struct as_h1_chunk){0};
    } else if (!h->has_length) {
        h->state = UNTIL_EOF;
        h->close = true;
    } else {
        h->state = LENGTH;
        if (!h->left)
            return end_answer(h);
    }
    return 0;
}

/* Parses one line without its CR LF. */
static int parse_line(struct as_h1_client *h, uint8_t *p, size_t n)
{
    switch (h->state) {
    case STATUS:
        return parse_status(h, (struct as_str){(const char *)p, n});
    case FIELDS:
        return n ? parse_field(h, p, n) : end_head(h);
    default: /* TRAILERS */
        return n ? parse_field(h, p, n) : end_answer(h);
    }
}

/* --- receiving --- */

/* Consumes bytes up to the end of a line, and parses the line if it is complete. */
static int read_line(struct as_h1_client *h, const uint8_t **p, size_t *n)
{
    /* a field may have white space around its value */
    size_t limit = (h->state == STATUS ? h->conf.max_line : h->conf.max_header_bytes) + (size_t)2;
    size_t take, len;
    const uint8_t *lf = memchr(*p, '\n', *n);

    take = lf ? (size_t)(lf - *p) + 1 : *n;
    if (h->line.n + take > limit)
        return fail_connection(h, "a line of the answer is too long");
    as_buf_add(&h->line, *p, take);
    *p += take;
    *n -= take;
    if (!lf)
        return 0;
    len = h->line.n;
    h->line.n = 0;
    if (len < 2 || h->line.p[len - 2] != '\r')
        return fail_connection(h, "a line of the answer does not end with CR LF");
    return parse_line(h, h->line.p, len - 2);
}

static int read_body(struct as_h1_client *h, const uint8_t **p, size_t *n)
{
    size_t take = h->state == UNTIL_EOF ? *n : (size_t)AS_MIN((uint64_t)*n, h->left);
    const uint8_t *from = *p;

    *p += take;
    *n -= take;
    h->left -= h->state == UNTIL_EOF ? 0 : take;
    if (!h->is_reset)
        h->ops->on_data(h->conn, h->call, from, take);
    if (h->left || h->state == UNTIL_EOF)
        return 0;
    if (h->state == LENGTH)
        return end_answer(h);
    h->state = CHUNK;
    h->chunk.at = AS_H1_CHUNK_END_CR;
    return 0;
}

/* Reads what is between the data of chunks. */
static int read_chunk(struct as_h1_client *h, const uint8_t **p, size_t *n)
{
    static const char *const faults[] = {
        [AS_H1_CHUNK_SIZE] = "the answer has a bad chunk size",
        [AS_H1_CHUNK_EXT] = "the answer has a bad chunk extension",
        [AS_H1_CHUNK_LF] = "a line of the answer does not end with CR LF",
        [AS_H1_CHUNK_END_CR] = "a chunk is longer than its size",
        [AS_H1_CHUNK_END_LF] = "a chunk is longer than its size",
    };
    const char *fault;
    size_t k = as_h1_syntax_chunk(&h->chunk, *p, *n, h->conf.max_chunk_ext, &fault);

    *p += k;
    *n -= k;
    if (fault)
        return fail_connection(h, faults[h->chunk.at]);
    if (h->chunk.at >= AS_H1_CHUNK_DATA)
        h->state = h->chunk.at == AS_H1_CHUNK_DATA ? CHUNK_DATA : TRAILERS;
    h->left = h->chunk.size;
    return 0;
}

int as_h1_client_recv(struct as_h1_client *h, const uint8_t *p, size_t n)
{
    int rc = 0;

    while (n && !rc && h->state != OVER) {
        if (h->state == LENGTH || h->state == UNTIL_EOF || h->state == CHUNK_DATA)
            rc = read_body(h, &p, &n);
        else if (h->state == CHUNK)
            rc = read_chunk(h, &p, &n);
        else if (h->state == IDLE)
            rc = fail_connection(h, "the server sent bytes without a request");
        else
            rc = read_line(h, &p, &n);
    }
    return h->broken ? AS_EPROTO : 0;
}

void as_h1_client_eof(struct as_h1_client *h)
{
    if (h->state == UNTIL_EOF)
        end_answer(h);
}

/* --- sending --- */

int as_h1_client_send(struct as_h1_client *h, struct as_outq *q, size_t max)
{
    if (h->is_reset && h->call) {
        end_connection(h, "the request was given up");
        close_call(h, CANCEL, false);
    }
    if (h->state == OVER)
        return h->broken ? AS_EPROTO : 0;
    if (h->head_at < h->head.n && q->bytes < max) {
        as_outq_copy(q, h->head.p + h->head_at, h->head.n - h->head_at);
        h->head_at = h->head.n;
    }
    while (h->piece < h->n_body && q->bytes < max) {
        const struct as_str *s = &h->body[h->piece];
        size_t take = AS_MIN(max - q->bytes, s->n - h->piece_offset);

        if (take)
            as_outq_copy(q, s->p + h->piece_offset, take);
        h->piece_offset += take;
        if (h->piece_offset == s->n) {
            h->piece++;
            h->piece_offset = 0;
        }
    }
    return 0;
}

static void put_field(struct as_buf *b, struct as_str name, struct as_str value)
{
    as_buf_add(b, name.p, name.n);
    as_buf_str(b, ": ");
    as_buf_add(b, value.p, value.n);
    as_buf_str(b, "\r\n");
}

static struct as_str pseudo(const struct as_http_client_request *r, struct as_str name)
{
    for (uint32_t i = 0; i < r->n_headers && i < 4; i++) {
        if (as_str_eq(r->headers[i].name, name))
            return r->headers[i].value;
    }
    return AS_STR("");
}

/* Writes the request's head to h->head. False: a name or a value is not valid in a header. */
static bool put_head(struct as_h1_client *h, const struct as_http_client_request *r,
                     uint64_t length)
{
    struct as_str method = pseudo(r, AS_STR(":method")), path = pseudo(r, AS_STR(":path"));
    struct as_buf *b = &h->head;
    bool good = as_h1_syntax_is_token(method) && path.n && path.p[0] == '/' &&
                as_h1_syntax_is_value(path) && !memchr(path.p, ' ', path.n) &&
                !memchr(path.p, '\t', path.n);

    b->n = 0;
    as_buf_printf(b, "%.*s %.*s HTTP/1.1\r\n", AS_STR_FMT(method), AS_STR_FMT(path));
    put_field(b, AS_STR("host"), pseudo(r, AS_STR(":authority")));
    for (uint32_t i = 0; i < r->n_headers; i++) {
        const struct as_http_header *f = &r->headers[i];

        good = good && as_h1_syntax_is_value(f->value);
        if (f->name.n && f->name.p[0] == ':')
            continue;
        good = good && as_h1_syntax_is_token(f->name);
        put_field(b, f->name, f->value);
    }
    h->is_head = as_str_eq(method, AS_STR("HEAD"));
    if (length || !(h->is_head || as_str_eq(method, AS_STR("GET"))))
        as_buf_printf(b, "content-length: %llu\r\n", (unsigned long long)length);
    as_buf_str(b, "\r\n");
    return good;
}

int as_h1_client_request(struct as_h1_client *h, const struct as_http_client_request *r, void *call,
                         uint32_t *ret_stream)
{
    uint64_t length = 0;

    AS_ASSERT(r->n_headers <= AS_HTTP_CLIENT_HEADERS);
    if (h->state == OVER)
        return AS_EUNAVAILABLE;
    if (h->state != IDLE)
        return AS_EAGAIN;
    for (uint32_t i = 0; i < r->n_body; i++)
        length += r->body[i].n;
    h->head_at = 0;
    if (!put_head(h, r, length)) {
        h->head.n = 0;
        return AS_EINVALID;
    }
    h->call = call;
    h->body = r->body;
    h->n_body = r->n_body;
    h->piece = 0;
    h->piece_offset = 0;
    h->is_reset = false;
    h->n_fields = h->n_interim = 0;
    h->field_bytes = 0;
    h->state = STATUS;
    *ret_stream = ++h->stream;
    return 0;
}

void as_h1_client_reset(struct as_h1_client *h, uint32_t stream, uint32_t code)
{
    if (!h->call || stream != h->stream || h->is_reset)
        return;
    h->is_reset = true;
    h->reset_code = code;
}

/* --- the connection --- */

int as_h1_client_new(struct as_h1_client **ret_h, const struct as_h1_client_conf *conf,
                     const struct as_http_client_ops *ops, void *conn)
{
    struct as_h1_client *h = malloc(sizeof(*h));

    if (!h)
        return AS_ENOMEM;
    *h = (struct as_h1_client){.conf = *conf, .ops = ops, .conn = conn, .state = IDLE};
    *ret_h = h;
    return 0;
}

void as_h1_client_free(struct as_h1_client *h)
{
    if (!h)
        return;
    h->state = OVER;
    close_call(h, CANCEL, false);
    as_buf_fini(&h->head);
    as_buf_fini(&h->line);
    free(h);
}

bool as_h1_client_wants_write(const struct as_h1_client *h)
{
    return (h->is_reset && h->call) || (h->state != OVER && !is_sent(h));
}

bool as_h1_client_ready(const struct as_h1_client *h)
{
    return h->ready;
}

bool as_h1_client_done(const struct as_h1_client *h)
{
    return h->state == OVER;
}

bool as_h1_client_usable(const struct as_h1_client *h)
{
    return h->state == IDLE;
}

const char *as_h1_client_why(const struct as_h1_client *h)
{
    return h->why;
}
