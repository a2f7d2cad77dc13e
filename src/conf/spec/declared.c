#include "conf/spec/declared.h"

#include "conf/spec/spec_row.h"
#include "core/registry/registry.h"
#include "wire/grpc/grpc.h"

/* Works for a partly filled one, too. */
void as_declared_fini(struct as_declared *app)
{
    for (uint32_t i = 0; i < app->n; i++) {
        for (uint32_t k = 0; k < app->deployments[i].n_models; k++) {
            free(app->deployments[i].models[k].name);
            as_buf_fini(&app->deployments[i].models[k].frame);
        }
        free(app->deployments[i].models);
        free(app->deployments[i].name);
        free(app->deployments[i].options);
    }
    free(app->deployments);
    free(app->code);
    for (uint32_t i = 0; i < app->n_files; i++)
        free(app->files[i]);
    free(app->files);
    free(app->call);
    free(app->args);
    *app = (struct as_declared){0};
}

/* The text comes from our program, but it runs in an interpreter that the user chose, maybe with an
 * older version or with another module of its name. So the error shows what was read. */
static int refuse(struct as_buf *err, const char *what, struct as_str name)
{
    as_buf_printf(err, "the worker described %s '%.*s'", what, AS_STR_FMT(name));
    return AS_EINVALID;
}

static struct as_declared_model *append_model(struct as_declared_deployment *d, struct as_str name)
{
    d->models = as_xrealloc(d->models, (d->n_models + 1) * sizeof(*d->models));
    d->models[d->n_models] = (struct as_declared_model){.name = as_str_dup(name)};
    return &d->models[d->n_models++];
}

/* Keeps the order: the example in the banner calls the first model. */
static int add_model(struct as_declared_deployment *d, struct as_str model, struct as_buf *err)
{
    if (model.n == 0 || !memchr(model.p, ':', model.n))
        return refuse(err, "a model without a version:", model);
    if (d->n_models == AS_DECLARED_MODELS_MAX)
        return refuse(err, "too many models; the first one over the limit is", model);
    append_model(d, model);
    return 0;
}

static struct as_declared_deployment *append_deployment(struct as_declared *app, struct as_str name)
{
    app->deployments = as_xrealloc(app->deployments, (app->n + 1) * sizeof(*app->deployments));
    app->deployments[app->n] = (struct as_declared_deployment){.name = as_str_dup(name)};
    return &app->deployments[app->n++];
}

/* One line that has a tab. */
static int add_deployment(struct as_declared *app, struct as_str line, struct as_buf *err)
{
    const char *tab = memchr(line.p, '\t', line.n), *end = line.p + line.n;
    struct as_str name = {line.p, (size_t)(tab - line.p)};
    struct as_declared_deployment *d;
    int rc = 0;

    if (name.n == 0 || name.n > AS_NAME_MAX)
        return refuse(err, "a deployment with a bad name:", name);
    if (memchr(line.p, 0, line.n)) /* it would end the text for later readers */
        return refuse(err, "a NUL byte, of deployment",
                      (struct as_str){name.p, strnlen(name.p, name.n)});
    if (app->n == AS_DECLARED_DEPLOYMENTS_MAX)
        return refuse(err, "too many deployments; the first one over the limit is", name);
    d = append_deployment(app, name);
    for (const char *p = tab + 1; rc == 0 && p <= end;) {
        const char *next = p < end ? memchr(p, '\t', (size_t)(end - p)) : NULL;
        struct as_str model = {p, (size_t)((next ? next : end) - p)};

        if (p == tab + 1 && model.n && model.p[0] == '{')
            d->options = as_str_dup(model); /* parsed and checked by as_spec_overlay */
        else
            rc = add_model(d, model, err);
        p = (next ? next : end) + 1;
    }
    return rc == 0 && d->n_models == 0 ? refuse(err, "a deployment without a model:", name) : rc;
}

static int set_code(struct as_declared *app, struct as_str value, struct as_buf *err)
{
    const struct as_spec_row *row = &as_spec_rows[AS_SPEC_APPLICATION_CODE];

    if (value.n > (size_t)row->max || memchr(value.p, 0, value.n) || !as_spec_matches(row, value))
        return refuse(err, "its code with a bad name:", AS_STR(""));
    free(app->code);
    app->code = as_str_dup(value);
    return 0;
}

static int set_args(struct as_declared *app, struct as_str json, struct as_buf *err)
{
    if (json.n > (size_t)as_spec_rows[AS_SPEC_APPLICATION_ARGS].max || json.n < 2 ||
        json.p[0] != '{' || memchr(json.p, 0, json.n))
        return refuse(err, "arguments that are no JSON object:", json);
    free(app->args);
    app->args = as_str_dup(json);
    return 0;
}

static int add_file(struct as_declared *app, struct as_str path, struct as_buf *err)
{
    if (!path.n || path.p[0] != '/' || memchr(path.p, 0, path.n))
        return refuse(err, "a file whose path is not absolute:", path);
    if (app->n_files == AS_DECLARED_FILES_MAX)
        return refuse(err, "too many files; the first one over the limit is", path);
    app->files = as_xrealloc(app->files, (app->n_files + 1) * sizeof(*app->files));
    app->files[app->n_files++] = as_str_dup(path);
    return 0;
}

/* The next part of a line, up to a tab or the end. */
static struct as_str take_part(struct as_str *line)
{
    const char *tab = line->n ? memchr(line->p, '\t', line->n) : NULL;
    struct as_str part = {line->p, tab ? (size_t)(tab - line->p) : line->n};

    *line = tab ? (struct as_str){tab + 1, line->n - part.n - 1} : AS_STR("");
    return part;
}

static int set_registration(const struct as_declared *app, struct as_str line, struct as_buf *err)
{
    struct as_str deployment = take_part(&line), name = take_part(&line);
    const struct as_declared_deployment *d = as_declared_find(app, deployment);
    uint8_t *bytes = as_xalloc(AS_GRPC_BIN_BYTES(line.n));
    size_t n = 0;
    int rc = as_grpc_decode_bin(line, bytes, &n) || !d || !n
                 ? refuse(err, "a registration that is none, of model", name)
                 : 0;

    for (uint32_t i = 0; rc == 0 && i < d->n_models; i++) {
        struct as_declared_model *m = &d->models[i];

        if (!m->frame.n && as_str_eq(as_str_of(m->name), name))
            as_buf_add(&m->frame, bytes, n);
    }
    free(bytes);
    return rc;
}

/* A line with a tab that begins with "@". Unknown ones, of a newer program, are ignored. */
static int add_note(struct as_declared *app, struct as_str line, struct as_buf *err)
{
    const char *tab = memchr(line.p, '\t', line.n), *end = line.p + line.n;
    struct as_str key = {line.p, (size_t)(tab - line.p)};
    int rc = 0;

    if (as_str_eq(key, AS_STR("@code")))
        return set_code(app, (struct as_str){tab + 1, (size_t)(end - tab - 1)}, err);
    if (as_str_eq(key, AS_STR("@register")))
        return set_registration(app, (struct as_str){tab + 1, (size_t)(end - tab - 1)}, err);
    if (as_str_eq(key, AS_STR("@args")))
        return set_args(app, (struct as_str){tab + 1, (size_t)(end - tab - 1)}, err);
    if (as_str_eq(key, AS_STR("@call"))) {
        free(app->call);
        app->call = as_str_dup((struct as_str){tab + 1, (size_t)(end - tab - 1)});
        return strlen(app->call) == (size_t)(end - tab - 1)
                   ? 0
                   : refuse(err, "a NUL byte in a call:", as_str_of(app->call));
    }
    for (const char *p = tab + 1; rc == 0 && p <= end && as_str_eq(key, AS_STR("@files"));) {
        const char *next = p < end ? memchr(p, '\t', (size_t)(end - p)) : NULL;

        rc = add_file(app, (struct as_str){p, (size_t)((next ? next : end) - p)}, err);
        p = (next ? next : end) + 1;
    }
    return rc;
}

int as_declared_parse(struct as_declared *ret_app, struct as_str text,
                      void (*other)(void *ctx, struct as_str line), void *ctx, struct as_buf *err)
{
    struct as_declared app = {0};
    const char *p = text.p, *end = text.p + text.n;
    int rc = 0;

    while (rc == 0 && p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        struct as_str line = {p, (size_t)((nl ? nl : end) - p)};

        if (memchr(line.p, '\t', line.n))
            rc = line.p[0] == '@' ? add_note(&app, line, err) : add_deployment(&app, line, err);
        else if (other && line.n)
            other(ctx, line);
        p = (nl ? nl : end) + 1;
    }
    if (rc == 0 && app.n == 0 && !app.code) {
        as_buf_str(err, "the worker described no model");
        rc = AS_EINVALID;
    }
    if (rc == 0)
        *ret_app = app;
    else
        as_declared_fini(&app);
    return rc;
}

static void write_registration(const struct as_declared_deployment *d,
                               const struct as_declared_model *m, struct as_buf *b)
{
    size_t n = AS_GRPC_BIN_CHARS(m->frame.n);

    as_buf_printf(b, "@register\t%s\t%s\t", d->name, m->name);
    as_grpc_encode_bin((char *)as_buf_reserve(b, n), m->frame.p, m->frame.n);
    b->n += n;
    as_buf_str(b, "\n");
}

void as_declared_write_deployments(const struct as_declared *app, struct as_buf *b)
{
    if (app->args)
        as_buf_printf(b, "@args\t%s\n", app->args);
    for (uint32_t i = 0; i < app->n; i++) {
        const struct as_declared_deployment *d = &app->deployments[i];

        as_buf_str(b, d->name);
        if (d->options)
            as_buf_printf(b, "\t%s", d->options);
        for (uint32_t k = 0; k < d->n_models; k++)
            as_buf_printf(b, "\t%s", d->models[k].name);
        as_buf_str(b, "\n");
        for (uint32_t k = 0; k < d->n_models; k++) {
            if (d->models[k].frame.n)
                write_registration(d, &d->models[k], b);
        }
    }
}

void as_declared_write(const struct as_declared *app, struct as_buf *b)
{
    if (app->code)
        as_buf_printf(b, "@code\t%s\n", app->code);
    as_declared_write_deployments(app, b);
    if (app->call)
        as_buf_printf(b, "@call\t%s\n", app->call);
    for (uint32_t i = 0; i < app->n_files; i++)
        as_buf_printf(b, "@files\t%s\n", app->files[i]);
}

/* --- models of deployments --- */

struct as_declared_deployment *as_declared_find(const struct as_declared *app, struct as_str name)
{
    for (uint32_t i = 0; i < app->n; i++) {
        if (as_str_eq(as_str_of(app->deployments[i].name), name))
            return &app->deployments[i];
    }
    return NULL;
}

void as_declared_add_model(struct as_declared *app, struct as_str deployment, struct as_str model,
                           struct as_str frame)
{
    struct as_declared_deployment *d = as_declared_find(app, deployment);

    as_buf_add(&append_model(d ? d : append_deployment(app, deployment), model)->frame, frame.p,
               frame.n);
}

void as_declared_copy_models(struct as_declared *app, const struct as_declared_deployment *from)
{
    for (uint32_t i = 0; i < from->n_models; i++)
        as_declared_add_model(app, as_str_of(from->name), as_str_of(from->models[i].name),
                              as_buf_slice(&from->models[i].frame));
}

void as_declared_copy_models_of(struct as_declared *app, struct as_str application,
                                const struct as_declared *from)
{
    for (uint32_t i = 0; i < from->n; i++) {
        const struct as_declared_deployment *d = &from->deployments[i];
        struct as_id id;

        as_id_make(&id, application, as_str_of(d->name));
        for (uint32_t k = 0; k < d->n_models; k++)
            as_declared_add_model(app, id.s, as_str_of(d->models[k].name),
                                  as_buf_slice(&d->models[k].frame));
    }
}

void as_declared_copy_all_models(struct as_declared *app, const struct as_declared *from)
{
    for (uint32_t i = 0; i < from->n; i++)
        as_declared_copy_models(app, &from->deployments[i]);
}
