/* fuzz/f_spec.c — any bytes as a deployment file: refused with lines that name the file, or read;
 * and what is read is printed, as YAML and as JSON, so that it reads back with the same meaning. */
#include "conf/option/option.h"
#include "conf/spec/spec_diff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(int rc, const struct as_buf *err)
{
    AS_ASSERT(rc == AS_EINVALID && err->n > 3 && err->p[err->n - 1] == '\n');
    for (size_t i = 0; i < err->n; i++) {
        if (i == 0 || err->p[i - 1] == '\n')
            AS_ASSERT(memcmp(err->p + i, "f:", 2) == 0);
        AS_ASSERT(err->p[i] >= ' ' || err->p[i] == '\n');
    }
}

static void unchanged(void *ctx, const struct as_spec_change *c)
{
    (void)ctx;
    AS_ASSERT(c->step == AS_SPEC_UNCHANGED);
}

static void check_same(const struct as_spec *s, const struct as_spec_limits *l,
                       const struct as_buf *b)
{
    struct as_buf err;
    struct as_spec *again;
    int rc;

    as_buf_init(&err);
    rc = as_spec_parse(&again, l, "f", as_buf_slice(b), &err);
    AS_ASSERT(rc == 0);
    as_spec_diff(s, again, unchanged, NULL);
    AS_ASSERT(as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS) ==
              as_spec_count(again->file, AS_SPEC_FILE_APPLICATIONS));
    as_spec_free(again);
    as_buf_fini(&err);
}

static void check_spec(const struct as_spec *s, const struct as_spec_limits *l)
{
    /* what is written out takes more room than what was left out */
    struct as_spec_limits roomy = *l;
    struct as_buf b;

    roomy.bytes = 64u << 20;
    as_buf_init(&b);
    as_spec_print(s, true, &b);
    check_same(s, &roomy, &b);
    b.n = 0;
    as_spec_json(s->file, true, &b);
    check_same(s, &roomy, &b);
    b.n = 0;
    as_spec_json(s->file, false, &b);
    check_same(s, &roomy, &b);
    as_buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_option_set o;
    struct as_spec_limits l;
    struct as_spec *s;
    struct as_buf err;
    int rc;

    as_option_init(&o, AS_SCOPE_CHECK);
    as_spec_limits_from_options(&l, &o);
    as_buf_init(&err);
    rc = as_spec_parse(&s, &l, "f", (struct as_str){(const char *)data, size}, &err);
    if (rc < 0) {
        check_refusal(rc, &err);
    } else {
        AS_ASSERT(err.n == 0);
        check_spec(s, &l);
        as_spec_free(s);
    }
    as_buf_fini(&err);
    return 0;
}
