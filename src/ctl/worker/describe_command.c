/* The command line of the worker program that describes code. */
#include "ctl/state/code_store.h"
#include "ctl/state/pickle_store.h"
#include "ctl/worker/describe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define FIXED 11u /* arguments of a command without the --exclude ones */

/* Arguments are written to one buffer. Their offsets are used until it is complete, since it may
 * move. */
static size_t next_text(const struct as_describe_command *c)
{
    return c->texts.n;
}

static size_t put_text(struct as_describe_command *c, const char *key, const char *value)
{
    size_t at = next_text(c);

    as_buf_printf(&c->texts, "%s%s", key, value ? value : "");
    as_buf_add(&c->texts, "", 1);
    return at;
}

static size_t put_number(struct as_describe_command *c, const char *key, uint64_t value)
{
    size_t at = next_text(c);

    as_buf_printf(&c->texts, "%s%" PRIu64, key, value);
    as_buf_add(&c->texts, "", 1);
    return at;
}

static const char *text_at(const struct as_describe_command *c, size_t offset)
{
    return (const char *)c->texts.p + offset;
}

/* Left out for the default application, which a worker program that does not know it serves, too.
 */
static bool is_named(const struct as_describe_source *source)
{
    return source->application && strcmp(source->application, "default") != 0;
}

/* The process makes the copy, and then describes it. */
static void make_copy(struct as_describe_command *c, const struct as_describe_source *source)
{
    const struct as_describe_code *code = source->code;
    size_t store = put_text(c, "--store=", code->store),
           bytes = put_number(c, "--max-bytes=", code->max_bytes),
           files = put_number(c, "--max-files=", code->max_files),
           known = put_text(c, "--known=", code->known),
           application = put_text(c, "--application=", source->application),
           excludes = next_text(c);
    uint32_t n = 3, n_exclude = 0;

    while (code->exclude && code->exclude[n_exclude])
        put_text(c, "--exclude=", code->exclude[n_exclude++]);
    c->argv = as_xrealloc(c->argv, (FIXED + n_exclude) * sizeof(*c->argv));
    c->argv[2] = "anyserve.code.pin";
    c->argv[n++] = text_at(c, store);
    c->argv[n++] = text_at(c, bytes);
    c->argv[n++] = text_at(c, files);
    c->argv[n++] = text_at(c, known);
    if (code->folder)
        c->argv[n++] = "--folder";
    if (is_named(source))
        c->argv[n++] = text_at(c, application);
    for (const char *p = text_at(c, excludes); n_exclude--; p += strlen(p) + 1)
        c->argv[n++] = p;
    c->argv[n++] = source->target;
    c->argv[n] = NULL;
    c->dir = source->dir;
}

/* The same arguments as a replica that starts from the copy (ctl/worker/worker_spec.c). */
static void use_copy(struct as_describe_command *c, const struct as_describe_source *source)
{
    const char *dir = source->dir ? source->dir : "";
    char cwd[4096] = "";
    size_t copy = next_text(c), target, work, source_option, application;

    if (!getcwd(cwd, sizeof(cwd)))
        cwd[0] = 0;
    as_code_store_path(source->code->store, source->code->copy, &c->texts);
    target = next_text(c);
    as_code_store_target(source->code->copy, source->target, &c->texts);
    work = next_text(c);
    as_buf_printf(&c->texts, "--working-dir=%s%s%s", dir[0] == '/' ? "" : cwd,
                  dir[0] && dir[0] != '/' && cwd[0] ? "/" : "", dir);
    as_buf_add(&c->texts, "", 1);
    source_option = next_text(c);
    as_code_store_source(cwd, source->dir, source->code->copy, source->target, &c->texts);
    application = put_text(c, "--application=", source->application);
    c->argv[3] = text_at(c, target);
    c->argv[4] = "--describe=lines";
    c->argv[5] = text_at(c, work);
    c->argv[6] = text_at(c, source_option);
    c->argv[7] = is_named(source) ? text_at(c, application) : NULL;
    c->argv[8] = NULL;
    c->dir = text_at(c, copy);
}

static void use_pickle(struct as_describe_command *c, const struct as_describe_source *source)
{
    size_t target = next_text(c); /* it has its application's name */

    as_pickle_store_target(source->code->store, source->code->pickle, &c->texts);
    c->argv[3] = text_at(c, target);
}

static void name_application(struct as_describe_command *c, const struct as_describe_source *source)
{
    size_t application = put_text(c, "--application=", source->application);

    c->argv[5] = text_at(c, application);
    c->argv[6] = NULL;
}

void as_describe_command_init(struct as_describe_command *ret_c,
                              const struct as_describe_source *source)
{
    struct as_describe_command c = {.argv = as_xalloc(FIXED * sizeof(*c.argv)), .dir = source->dir};

    as_buf_init(&c.texts);
    c.argv[0] = source->python;
    c.argv[1] = "-m";
    c.argv[2] = "anyserve.worker";
    c.argv[3] = source->target;
    c.argv[4] = "--describe=lines";
    c.argv[5] = NULL;
    if (source->code && source->code->pickle)
        use_pickle(&c, source);
    else if (source->code && source->code->copy)
        use_copy(&c, source);
    else if (source->code)
        make_copy(&c, source);
    else if (is_named(source))
        name_application(&c, source);
    *ret_c = c;
}

void as_describe_command_fini(struct as_describe_command *c)
{
    free(c->argv);
    as_buf_fini(&c->texts);
}
