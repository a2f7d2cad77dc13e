/* fuzz/f_declared.c — any bytes as what a program of the user's describes: refused with a sentence,
 * or read; and what is read is written so that it reads back the same. */
#include "base/err.h"
#include "conf/spec/declared.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lines of somebody else lie within the text, and have no tab. */
static void other(void *ctx, struct as_str line)
{
    const struct as_str *text = ctx;

    AS_ASSERT(line.n && line.p >= text->p && line.p + line.n <= text->p + text->n);
    AS_ASSERT(!memchr(line.p, '\t', line.n) && !memchr(line.p, '\n', line.n));
}

static void check(const struct as_declared *app)
{
    struct as_buf text, again, err;
    struct as_declared back;
    int rc;

    AS_ASSERT(app->n && app->n <= AS_DECLARED_DEPLOYMENTS_MAX);
    for (uint32_t i = 0; i < app->n; i++) {
        const struct as_declared_deployment *d = &app->deployments[i];

        AS_ASSERT(d->n_models && d->n_models <= AS_DECLARED_MODELS_MAX);
        AS_ASSERT(!d->options || d->options[0] == '{');
        for (uint32_t k = 0; k < d->n_models; k++)
            AS_ASSERT(d->models[k].name[0]);
    }
    as_buf_init(&text);
    as_buf_init(&again);
    as_buf_init(&err);
    as_declared_write(app, &text);
    rc = as_declared_parse(&back, as_buf_slice(&text), NULL, NULL, &err);
    AS_ASSERT(rc == 0);
    as_declared_write(&back, &again);
    AS_ASSERT(as_str_eq(as_buf_slice(&text), as_buf_slice(&again)));
    as_declared_fini(&back);
    as_buf_fini(&text);
    as_buf_fini(&again);
    as_buf_fini(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_str text = {(const char *)data, size};
    struct as_declared app;
    struct as_buf err;
    int rc;

    as_buf_init(&err);
    rc = as_declared_parse(&app, text, other, &text, &err);
    AS_ASSERT(rc == 0 || (rc == AS_EINVALID && err.n));
    if (rc == 0) {
        AS_ASSERT(err.n == 0);
        check(&app);
        as_declared_fini(&app);
    }
    as_buf_fini(&err);
    return 0;
}
