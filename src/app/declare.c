#include "app/declare.h"

#include "conf/exit_code.h"
#include "conf/spec.h"
#include "ctl/describe.h"
#include "ctl/interp.h"
#include "ctl/supervisor.h"

#include <errno.h>
#include <unistd.h>

static int complain(struct as_buf *err, int code)
{
    if (err->n)
        fprintf(stderr, "%.*s%s", AS_STR_FMT(as_buf_slice(err)),
                err->p[err->n - 1] == '\n' ? "" : "\n");
    as_buf_fini(err);
    return code;
}

/* To stdout, or all or nothing to a file. */
static int deliver(struct as_buf *text, const char *path)
{
    FILE *f = path[0] ? fopen(path, "we") : stdout;
    bool ok = f && fwrite(text->p, 1, text->n, f) == text->n && fflush(f) == 0;
    int e = errno;

    if (f && f != stdout && fclose(f) != 0) {
        e = errno;
        ok = false;
    }
    if (!ok)
        fprintf(stderr, "anyserve: %s: %s\n", path[0] ? path : "stdout", strerror(e));
    if (!ok && f && path[0])
        unlink(path); /* half a file would be taken for one */
    as_buf_fini(text);
    return ok ? AS_CODE_OK : AS_CODE_FAILED;
}

int as_check_main(struct as_option_set *opts)
{
    struct as_spec_limits limits;
    struct as_spec *spec;
    struct as_buf text;
    uint32_t apps, deployments = 0;
    int rc;

    as_spec_limits_of(&limits, opts);
    as_buf_init(&text);
    rc = as_spec_load(&spec, &limits, opts->args[0], &text);
    if (rc < 0)
        return complain(&text, rc == AS_EINVALID    ? AS_CODE_CONFIG
                               : rc == AS_ENOTFOUND ? AS_CODE_NOT_FOUND
                                                    : AS_CODE_FAILED);
    apps = as_spec_count(spec->file, AS_SPEC_FILE_APPLICATIONS);
    for (uint32_t i = 0; i < apps; i++)
        deployments += as_spec_count(as_spec_object(spec->file, AS_SPEC_FILE_APPLICATIONS, i),
                                     AS_SPEC_APPLICATION_DEPLOYMENTS);
    as_buf_printf(&text, "%s: %u application%s, %u deployment%s listed\n", spec->name, apps,
                  apps == 1 ? "" : "s", deployments, deployments == 1 ? "" : "s");
    as_spec_free(spec);
    return deliver(&text, "");
}

static int build(struct as_option_set *opts, const char *python, int signal_fd, struct as_buf *out,
                 struct as_buf *err)
{
    const char *target = opts->args[0];
    struct as_spec_limits limits;
    struct as_spec *spec;
    struct as_app app;
    int rc = as_app_describe(&app, &(struct as_app_where){.python = python, .target = target},
                             signal_fd, err);

    if (rc != AS_CODE_OK)
        return rc;
    as_spec_limits_of(&limits, opts);
    rc = as_spec_of_code(&spec, &limits, "default", target, &app, err);
    as_app_fini(&app);
    if (rc < 0)
        return AS_CODE_CONFIG;
    as_buf_str(out, "# Written by `anyserve build`: what the code declares, and the defaults.\n");
    as_spec_print(spec, true, out);
    as_spec_free(spec);
    return AS_CODE_OK;
}

int as_build_main(struct as_option_set *opts)
{
    struct as_interp python = {0};
    struct as_buf out, err;
    int signal_fd = as_supervisor_signals(), rc;

    as_buf_init(&out);
    as_buf_init(&err);
    if (signal_fd < 0) {
        as_buf_printf(&err, "anyserve: cannot watch for signals: %s", strerror(errno));
        return complain(&err, AS_CODE_SYSTEM);
    }
    as_interp_choose(&python, as_option_str(opts, AS_OPT_PYTHON));
    rc = build(opts, python.path, signal_fd, &out, &err);
    as_interp_fini(&python);
    close(signal_fd);
    if (rc != AS_CODE_OK) {
        as_buf_fini(&out);
        return complain(&err, rc);
    }
    as_buf_fini(&err);
    return deliver(&out, as_option_str(opts, AS_OPT_OUTPUT_FILE));
}

int as_schema_main(struct as_option_set *opts AS_UNUSED)
{
    struct as_buf text;

    as_buf_init(&text);
    as_spec_schema(&text);
    return deliver(&text, "");
}

int as_page_main(struct as_option_set *opts AS_UNUSED)
{
    struct as_buf text;

    as_buf_init(&text);
    as_spec_markdown(&text);
    return deliver(&text, "");
}
