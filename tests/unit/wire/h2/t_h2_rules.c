/* Specification of wire/h2/h2_rules: the same results as nghttp2's own checks, for requests made of
 * valid and invalid parts. One difference is intended: a request may leave out both :authority and
 * Host.
 */
#include "wire/h2/h2_rules.h"

#include "base/rand.h"
#include "unit.h"

#include <nghttp2/nghttp2.h>

#define FIELDS_MAX 10u
#define TEXT_MAX   40u

struct field {
    uint8_t n_name, n_value;
    char name[TEXT_MAX], value[TEXT_MAX];
};

struct request {
    uint32_t n_fields, n_trailers; /* trailers behind the fields */
    struct field f[2 * FIELDS_MAX + 1];
    bool end_with_head;
    bool trailers_end;
    uint8_t n_body;
};

/* --- nghttp2's verdict --- */

static int seen_reset(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
    (void)s;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        *(bool *)user = true;
    return 0;
}

static size_t put_field(uint8_t *p, const struct field *f)
{
    size_t n = 0;

    p[n++] = 0;
    p[n++] = f->n_name;
    memcpy(p + n, f->name, f->n_name);
    n += f->n_name;
    p[n++] = f->n_value;
    memcpy(p + n, f->value, f->n_value);
    return n + f->n_value;
}

static void feed(nghttp2_session *s, uint8_t type, uint8_t flags, uint32_t stream,
                 const uint8_t *payload, size_t n)
{
    uint8_t frame[9 + 2048] = {0, (uint8_t)(n >> 8), (uint8_t)n, type, flags};

    frame[8] = (uint8_t)stream;
    memcpy(frame + 9, payload, n);
    assert_true(nghttp2_session_mem_recv(s, frame, 9 + n) >= 0);
}

static size_t put_block(uint8_t *p, const struct field *f, uint32_t n)
{
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++)
        at += put_field(p + at, &f[i]);
    return at;
}

static bool theirs(const struct request *q)
{
    static const char preface[] = NGHTTP2_CLIENT_MAGIC;
    uint8_t block[2048] = {0};
    nghttp2_session_callbacks *cb;
    nghttp2_session *s;
    const uint8_t *out;
    bool reset = false;

    assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, seen_reset);
    assert_int_equal(nghttp2_session_server_new(&s, cb, &reset), 0);
    nghttp2_session_callbacks_del(cb);
    assert_true(nghttp2_session_mem_recv(s, (const uint8_t *)preface, sizeof(preface) - 1) > 0);
    feed(s, NGHTTP2_SETTINGS, 0, 0, block, 0);
    feed(s, NGHTTP2_HEADERS,
         NGHTTP2_FLAG_END_HEADERS | (q->end_with_head ? NGHTTP2_FLAG_END_STREAM : 0), 1, block,
         put_block(block, q->f, q->n_fields));
    if (!q->end_with_head) {
        feed(s, NGHTTP2_DATA, q->n_trailers ? 0 : NGHTTP2_FLAG_END_STREAM, 1, block, q->n_body);
        if (q->n_trailers)
            feed(s, NGHTTP2_HEADERS,
                 NGHTTP2_FLAG_END_HEADERS | (q->trailers_end ? NGHTTP2_FLAG_END_STREAM : 0), 1,
                 block, put_block(block, q->f + q->n_fields, q->n_trailers));
    }
    while (nghttp2_session_mem_send(s, &out) > 0)
        ;
    nghttp2_session_del(s);
    return !reset;
}

/* --- ours --- */

static bool fields(struct as_h2_rules *r, const struct field *f, uint32_t n, bool trailer)
{
    for (uint32_t i = 0; i < n; i++) {
        /* a copy of its own, so that a sanitizer finds a read beyond its end */
        char *name = malloc(f[i].n_name + 1u), *value = malloc(f[i].n_value + 1u);
        bool good;

        memcpy(name + 1, f[i].name, f[i].n_name);
        memcpy(value + 1, f[i].value, f[i].n_value);
        good = as_h2_rules_field(r, (struct as_str){name + 1, f[i].n_name},
                                 (struct as_str){value + 1, f[i].n_value}, trailer);
        free(name);
        free(value);
        if (!good)
            return false;
    }
    return true;
}

static bool ours(const struct request *q)
{
    struct as_h2_rules r = {0};

    if (!fields(&r, q->f, q->n_fields, false) || !as_h2_rules_head(&r))
        return false;
    if (q->end_with_head)
        return as_h2_rules_end(&r);
    return as_h2_rules_data(&r, q->n_body) && fields(&r, q->f + q->n_fields, q->n_trailers, true) &&
           (!q->n_trailers || q->trailers_end) && as_h2_rules_end(&r);
}

/* --- requests --- */

static const char *const usual[][2] = {
    {":method", "POST"},        {":scheme", "http"},  {":path", "/a.b/C"},
    {":authority", "host:1"},   {"te", "trailers"},   {"content-type", "application/grpc"},
    {"user-agent", "grpc c/1"}, {"x-key-bin", "AAEC"}};
static const char *const names[] = {":method",
                                    ":scheme",
                                    ":path",
                                    ":authority",
                                    ":status",
                                    ":protocol",
                                    "te",
                                    "host",
                                    "content-length",
                                    "connection",
                                    "keep-alive",
                                    "upgrade",
                                    "user-agent",
                                    "proxy-connection",
                                    "transfer-encoding",
                                    "priority",
                                    "grpc-timeout",
                                    "x",
                                    "Upper",
                                    "",
                                    ":",
                                    "content-length",
                                    "cookie",
                                    "grpc-accept-encoding"};
static const char *const values[] = {"POST",
                                     "GET",
                                     "CONNECT",
                                     "OPTIONS",
                                     "HEAD",
                                     "http",
                                     "HTTPS",
                                     "ftp",
                                     "1x",
                                     "/",
                                     "*",
                                     "a",
                                     "",
                                     " ",
                                     "\t",
                                     "trailers",
                                     "TrailerS",
                                     "trailers ",
                                     "3",
                                     "03",
                                     "00000000000000000003",
                                     "-1",
                                     "3a",
                                     "host",
                                     "a b",
                                     "a\nb",
                                     "a\x80\xff",
                                     "9223372036854775807",
                                     "u=1",
                                     "[::1]:80",
                                     "user@host",
                                     "a\x7f",
                                     "/a?b#c",
                                     "abcdefgh ijk",
                                     " abcdefghijk",
                                     "922337203685477580",
                                     "99999999999999999999",
                                     "seven\x01 bytes and more of it"};

static void set(char *to, uint8_t *ret_n, const char *from)
{
    *ret_n = (uint8_t)strlen(from);
    memcpy(to, from, *ret_n);
}

static uint32_t below(struct as_rand *rnd, uint32_t n)
{
    return (uint32_t)as_rand_below(rnd, n);
}

static void spoil(struct as_rand *rnd, struct field *f)
{
    switch (below(rnd, 4)) {
    case 0:
        set(f->name, &f->n_name, names[below(rnd, AS_COUNT(names))]);
        break;
    case 1:
        set(f->value, &f->n_value, values[below(rnd, AS_COUNT(values))]);
        break;
    case 2:
        if (f->n_value)
            f->value[below(rnd, f->n_value)] = (char)as_rand_next(rnd);
        break;
    default:
        if (f->n_name)
            f->name[below(rnd, f->n_name)] = (char)as_rand_next(rnd);
    }
}

static void set_field(struct as_rand *rnd, struct field *f)
{
    set(f->name, &f->n_name, names[below(rnd, AS_COUNT(names))]);
    set(f->value, &f->n_value, values[below(rnd, AS_COUNT(values))]);
}

/* An ordinary request; some of its parts are changed, left out, doubled or moved. */
static void make(struct as_rand *rnd, struct request *q)
{
    uint32_t changes = below(rnd, 4);

    memset(q, 0, sizeof(*q));
    for (uint32_t i = 0; i < AS_COUNT(usual); i++) {
        if (below(rnd, 16) == 0 || (i >= 4 && below(rnd, 2)))
            continue;
        set(q->f[q->n_fields].name, &q->f[q->n_fields].n_name, usual[i][0]);
        set(q->f[q->n_fields].value, &q->f[q->n_fields].n_value, usual[i][1]);
        q->n_fields++;
    }
    if (below(rnd, 2) && q->n_fields < FIELDS_MAX)
        set_field(rnd, &q->f[q->n_fields++]);
    while (changes-- && q->n_fields) {
        uint32_t a = below(rnd, q->n_fields), b = below(rnd, q->n_fields);
        struct field keep = q->f[a];

        if (below(rnd, 3)) {
            spoil(rnd, &q->f[a]);
        } else {
            q->f[a] = q->f[b];
            q->f[b] = keep;
        }
    }
    q->end_with_head = below(rnd, 2);
    q->n_body = (uint8_t)below(rnd, 5);
    q->trailers_end = below(rnd, 4);
    q->n_trailers = below(rnd, 3) ? 0 : 1 + below(rnd, 2);
    for (uint32_t i = 0; i < q->n_trailers; i++)
        set_field(rnd, &q->f[q->n_fields + i]);
}

static void print(const struct request *q)
{
    for (uint32_t i = 0; i < q->n_fields + q->n_trailers; i++)
        print_message("%s'%.*s' = '%.*s'\n", i < q->n_fields ? "" : "trailer ", q->f[i].n_name,
                      q->f[i].name, q->f[i].n_value, q->f[i].value);
    print_message("end with head %d, body %u, trailers end %d\n", q->end_with_head, q->n_body,
                  q->trailers_end);
}

/* RFC 9113 §8.3.1 lets a client leave out both, nghttp2 does not: so nghttp2 gets one. */
static bool has_authority(const struct request *q)
{
    for (uint32_t i = 0; i < q->n_fields; i++) {
        struct as_str name = {q->f[i].name, q->f[i].n_name};

        if (as_str_eq(name, AS_STR(":authority")) || as_str_eq(name, AS_STR("host")))
            return true;
    }
    return false;
}

static bool theirs_with_authority(const struct request *q)
{
    struct request with = *q;
    struct field *f = with.f;

    if (has_authority(q))
        return theirs(q);
    memmove(f + 1, f, sizeof(*f) * (q->n_fields + q->n_trailers));
    with.n_fields++;
    set(f->name, &f->n_name, ":authority");
    set(f->value, &f->n_value, "host");
    return theirs(&with);
}

static bool is_connect(const struct request *q)
{
    for (uint32_t i = 0; i < q->n_fields; i++)
        if (as_str_eq((struct as_str){q->f[i].name, q->f[i].n_name}, AS_STR(":method")) &&
            as_str_eq((struct as_str){q->f[i].value, q->f[i].n_value}, AS_STR("CONNECT")))
            return true;
    return false;
}

static void results_are_those_of_nghttp2(void **state)
{
    struct as_rand rnd = {1};
    uint32_t good = 0, bare = 0, n = 100000;

    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        struct request q;
        bool want;

        make(&rnd, &q);
        /* CONNECT is to an authority: without it there is nothing to connect to */
        want = is_connect(&q) ? theirs(&q) : theirs_with_authority(&q);
        bare += want && !has_authority(&q);
        good += want;
        if (ours(&q) != want) {
            print(&q);
            fail_msg("request %u: nghttp2 says %s", i, want ? "good" : "malformed");
        }
    }
    /* both kinds are there */
    assert_true(good > n / 10 && good < n - n / 10);
    assert_true(bare > n / 200);
}

/* Every byte, at every place of values around the width of a word. */
static void characters_are_those_of_nghttp2(void **state)
{
    (void)state;
    for (uint32_t len = 1; len <= 20; len++) {
        for (uint32_t at = 0; at < len; at++) {
            for (uint32_t c = 0; c < 256; c++) {
                char *v = malloc(len);
                struct as_h2_rules r = {0};
                bool want;

                memset(v, 'a', len);
                v[at] = (char)c;
                want = nghttp2_check_header_value_rfc9113((uint8_t *)v, len);
                assert_int_equal(
                    as_h2_rules_field(&r, AS_STR("user-agent"), (struct as_str){v, len}, false),
                    want);
                free(v);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_nghttp2),
        cmocka_unit_test(characters_are_those_of_nghttp2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
