/* fuzz/f_keys.c — any bytes as a file of API keys: each line is refused with a readable text, or
 * read; what is read is written so that it reads back as the same, and makes a key. */
#include "core/keys/key_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(int rc, struct as_buf *err)
{
    AS_ASSERT(rc != 0 && err->n > 3);
    for (size_t i = 0; i < err->n; i++)
        AS_ASSERT(err->p[i] >= ' ' && err->p[i] < 0x7f);
    as_buf_fini(err);
}

static void check_same(const struct as_key_line *a, const struct as_key_line *b)
{
    AS_ASSERT(as_str_eq(a->name, b->name) && as_str_eq(a->tenant, b->tenant));
    AS_ASSERT(as_str_eq(a->models, b->models) && as_str_eq(a->applications, b->applications));
    AS_ASSERT(memcmp(a->digest, b->digest, sizeof(a->digest)) == 0);
    AS_ASSERT(a->rate == b->rate && a->rate_period == b->rate_period && a->burst == b->burst);
    AS_ASSERT(a->in_flight == b->in_flight && a->expires == b->expires);
}

static void check_line(const struct as_key_line *k, struct as_key_table *t)
{
    struct as_buf text = {0}, err = {0};
    struct as_key_line again;
    struct as_key *key;
    as_ns wait;
    int rc;

    as_key_line_put(k, &text);
    AS_ASSERT(text.p[--text.n] == '\n');
    if (text.n <= AS_KEY_LINE_MAX) { /* a time may have been shorter in the file */
        AS_ASSERT(as_key_line_parse(as_buf_slice(&text), &again, &err) == 0);
        check_same(k, &again);
    }
    rc = as_key_table_add(t, k, NULL, &err);
    if (rc)
        check_refusal(rc, &err);
    key = as_key_table_find(t, k->digest);
    AS_ASSERT(key || rc);
    if (key && as_key_may_use_model(key, k->name) && !as_key_is_expired(key, 1800000000) &&
        as_key_take(key, true, 5 * AS_SEC, &wait) == AS_KEY_ACCEPTED)
        as_key_release(key);
    as_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_str rest = {(const char *)data, size};
    struct as_key_table *t = as_key_table_new(64);

    while (rest.n) {
        const char *end = memchr(rest.p, '\n', rest.n);
        struct as_str line = {rest.p, end ? (size_t)(end - rest.p) : rest.n};
        struct as_key_line k;
        struct as_buf err = {0};
        int rc;

        rest.p += line.n + (end ? 1 : 0);
        rest.n -= line.n + (end ? 1 : 0);
        if (as_key_line_is_comment(line))
            continue;
        rc = as_key_line_parse(line, &k, &err);
        if (rc)
            check_refusal(rc, &err);
        else
            check_line(&k, t);
    }
    as_key_table_seal(t);
    as_key_table_unref(t);
    return 0;
}
