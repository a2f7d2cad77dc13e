#include "app/commands/file_commands.h"

#include "app/client/print.h"
#include "app/options/argument.h"
#include "conf/option/exit_code.h"
#include "conf/spec/spec.h"
#include "ctl/supervise/supervisor.h"
#include "ctl/worker/describe.h"
#include "ctl/worker/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes the whole text and closes fd. False: errno. */
static bool write_and_close(int fd, const struct as_buf *text)
{
    size_t at = 0;
    ssize_t n = 1;
    int e;

    while (at < text->n && n > 0) {
        n = write(fd, text->p + at, text->n - at);
        at += n > 0 ? (size_t)n : 0;
    }
    e = n == 0 ? ENOSPC : errno;
    if (close(fd) < 0 && at == text->n)
        return false;
    errno = e;
    return at == text->n;
}

/* Writes to PATH.new and renames it, so that the file is never half written, and the old one stays
 * if writing fails. */
static bool replace_file(const char *path, mode_t mode, const struct as_buf *text)
{
    char *fresh = as_str_format("%s.new", path);
    int fd, e;
    bool ok;

    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
    ok = fd >= 0 && write_and_close(fd, text) && rename(fresh, path) == 0;
    e = errno;
    if (fd >= 0 && !ok)
        unlink(fresh);
    free(fresh);
    errno = e;
    return ok;
}

/* Replaces a regular file; a device, a pipe or the target of a link is written to in place. */
static bool write_file(const char *path, const struct as_buf *text)
{
    struct stat st;
    bool there = lstat(path, &st) == 0;
    int fd;

    if (!there || S_ISREG(st.st_mode))
        return replace_file(path, there ? st.st_mode & 0777 : 0666, text);
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    return fd >= 0 && write_and_close(fd, text);
}

/* Writes to the file, or to stdout if the path is empty. Frees the text. */
static int write_output(struct as_buf *text, const char *path)
{
    bool ok = path[0] ? write_file(path, text)
                      : fwrite(text->p, 1, text->n, stdout) == text->n && fflush(stdout) == 0;

    if (!ok)
        fprintf(stderr, "anyserve: %s: %s\n", path[0] ? path : "stdout", strerror(errno));
    as_buf_fini(text);
    return ok ? AS_EXIT_CODE_OK : AS_EXIT_CODE_FAILED;
}

int as_check_main(struct as_option_set *opts)
{
    struct as_spec *spec;
    struct as_buf text = {0};
    uint32_t apps, deployments = 0;
    int rc;

    rc = as_argument_check_file("check", opts->args[0]);
    if (rc != AS_EXIT_CODE_OK)
        return rc;
    rc = as_argument_load_file(opts, &spec, &text);
    if (rc != AS_EXIT_CODE_OK)
        return as_print_plain_error(&text, rc);
    apps = as_spec_count(spec->file, AS_SPEC_FILE_APPLICATIONS);
    for (struct as_spec_walk w = {0}; as_spec_next(spec->file, &w);)
        deployments++;
    as_buf_printf(&text, "%s: %u application%s, %u deployment%s listed\n", spec->name, apps,
                  apps == 1 ? "" : "s", deployments, deployments == 1 ? "" : "s");
    as_spec_free(spec);
    return write_output(&text, "");
}

static int build_file_text(struct as_option_set *opts, const char *python, int signal_fd,
                           struct as_buf *out, struct as_buf *err)
{
    const char *target = opts->args[0];
    struct as_spec_limits limits;
    struct as_spec *spec;
    struct as_declared app;
    int rc = as_describe_run(&app, &(struct as_describe_source){.python = python, .target = target},
                             signal_fd, err);

    if (rc != AS_EXIT_CODE_OK)
        return rc;
    as_spec_limits_from_options(&limits, opts);
    rc = as_spec_new_from_code(&spec, &limits, "default", target, &app, err);
    as_declared_fini(&app);
    if (rc < 0)
        return AS_EXIT_CODE_CONFIG;
    as_buf_str(out, "# Written by `anyserve build`: what the code declares, and the defaults.\n");
    as_spec_print(spec, true, out);
    as_spec_free(spec);
    return AS_EXIT_CODE_OK;
}

int as_build_main(struct as_option_set *opts)
{
    struct as_interpreter python = {0};
    struct as_buf out = {0}, err = {0};
    int signal_fd, rc = as_argument_check_code("build", opts->args[0]);

    if (rc != AS_EXIT_CODE_OK)
        return rc;
    signal_fd = as_supervisor_signals();
    if (signal_fd < 0) {
        as_buf_printf(&err, "cannot watch for signals: %s", strerror(errno));
        return as_print_error(&err, AS_EXIT_CODE_SYSTEM);
    }
    as_interpreter_choose(&python, as_option_str(opts, AS_OPT_PYTHON));
    rc = build_file_text(opts, python.path, signal_fd, &out, &err);
    as_interpreter_fini(&python);
    close(signal_fd);
    if (rc != AS_EXIT_CODE_OK) {
        as_buf_fini(&out);
        return as_print_plain_error(&err, rc);
    }
    as_buf_fini(&err);
    return write_output(&out, as_option_str(opts, AS_OPT_OUTPUT_FILE));
}

int as_schema_main(struct as_option_set *opts AS_UNUSED)
{
    struct as_buf text = {0};

    as_spec_schema(&text);
    return write_output(&text, "");
}

int as_page_main(struct as_option_set *opts AS_UNUSED)
{
    struct as_buf text = {0};

    as_spec_markdown(&text);
    return write_output(&text, "");
}
