#include "app/server/resume.h"

#include "app/client/control_client.h"
#include "app/client/outcome_wait.h"
#include "app/client/print.h"
#include "app/controller/desired_state.h"
#include "app/options/conf.h"
#include "app/options/tls_conf.h"
#include "app/server/ports.h"
#include "conf/option/exit_code.h"
#include "ctl/state/key_file.h"
#include "ctl/state/outcome.h"
#include "ctl/supervise/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* --- the program --- */

/* argv[0] of this process, from /proc. */
static char *first_argument(void)
{
    char text[PATH_BYTES];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (fd >= 0)
        close(fd);
    return n > 0 && memchr(text, 0, (size_t)n) ? as_str_dup(as_str_of(text)) : NULL;
}

char *as_resume_find_program(void)
{
    char at[PATH_BYTES], *given = first_argument(), *path = NULL;
    struct as_buf b = {0};
    ssize_t n;

    if (given && given[0] == '/')
        as_buf_str(&b, given);
    else if (given && strchr(given, '/') && getcwd(at, sizeof(at)))
        as_buf_printf(&b, "%s/%s", at, given);
    else if ((n = readlink("/proc/self/exe", at, sizeof(at))) > 0) /* found by $PATH */
        as_buf_add(&b, at, (size_t)n);
    if (b.n)
        path = as_str_dup(as_buf_slice(&b));
    as_buf_fini(&b);
    free(given);
    return path;
}

/* --- the state that an upgrade carries over --- */

void as_resume_write_state(void *resume, As__Supervisor *state)
{
    const struct as_resume *r = resume;
    char **options = as_option_argv(r->opts, r->opts->scope);
    As__Command *m = as_reexec_new(&as__command__descriptor);

    state->command = m;
    m->name = as_str_dup(as_str_of(r->command));
    for (char **o = options; *o; o++)
        AS_REEXEC_APPEND(m, options, as_str_dup(as_str_of(*o)));
    for (uint32_t i = 0; i < r->opts->n_args; i++)
        AS_REEXEC_APPEND(m, arguments, as_str_dup(as_str_of(r->opts->args[i])));
    m->runtime_base = as_str_dup(as_str_of(r->dir->base));
    m->runtime_path = as_str_dup(as_str_of(r->dir->path));
    m->runtime_lock = as_reexec_put_fd(state, r->dir->lock);
    m->notify =
        as_reexec_bytes((struct as_str){(const char *)&r->notify->addr, (size_t)r->notify->n});
    m->hold = as_reexec_put_fd(state, r->hold);
    as_option_argv_free(options);
}

struct resumed {
    struct as_supervisor_conf conf;
    struct as_option_set opts;
    char **argv; /* the words of the options, which point into them */
    int argc;
    struct as_runtime_dir dir;
    struct as_notify notify;
    struct as_resume resume;
    struct as_reexec_reader in;
    bool dry;
};

static void read_words(struct resumed *r, char *const *words, size_t n)
{
    r->argv = as_xrealloc(r->argv, ((size_t)r->argc + n + 2) * sizeof(*r->argv));
    for (size_t i = 0; i < n; i++)
        r->argv[r->argc++] = as_str_dup(as_str_of(words[i]));
    r->argv[r->argc] = NULL;
}

/* The commands that run a supervisor. */
static const struct {
    const char *command;
    uint32_t scope;
} kinds[] = {{"run", AS_SCOPE_RUN}, {"start", AS_SCOPE_START}};

static void read_options(struct resumed *r, const As__Command *m, struct as_buf *err)
{
    struct as_buf why = {0};

    r->resume = (struct as_resume){NULL, &r->opts, &r->dir, &r->notify, -1};
    for (size_t i = 0; i < AS_COUNT(kinds) && !r->resume.command; i++) {
        if (strcmp(m->name, kinds[i].command) == 0) {
            r->resume.command = kinds[i].command;
            as_option_init(&r->opts, kinds[i].scope);
        }
    }
    if (!r->resume.command)
        as_reexec_fail(&r->in, "command", "is not a command that can be taken over");
    r->argv = NULL;
    read_words(r, m->options, m->n_options);
    r->argv[r->argc++] =
        as_str_dup(AS_STR("--")); /* arguments follow, even if they look like options */
    read_words(r, m->arguments, m->n_arguments);
    if (r->in.failed)
        return;
    if (as_option_parse(&r->opts, r->argc, r->argv, &why) < 0) {
        r->in.failed = true;
        as_buf_printf(err, "the new program does not know an option of the running server: %.*s",
                      AS_STR_FMT(as_buf_slice(&why)));
    }
    as_buf_fini(&why);
}

static void read_notify(struct resumed *r, struct as_str addr)
{
    if (addr.n > sizeof(r->notify.addr)) {
        as_reexec_fail(&r->in, "notify", "is no address");
        return;
    }
    if (addr.n)
        memcpy(&r->notify.addr, addr.p, addr.n);
    r->notify.n = (socklen_t)addr.n;
}

/* Can the new program's controller read the store? It is in --state-dir or, for `run`, in the
 * runtime folder once something was changed. */
static bool can_read_state(const struct resumed *r, struct as_buf *err)
{
    bool starts = r->opts.scope == AS_SCOPE_START;
    struct as_buf why = {0};
    int rc;

    rc = as_desired_state_probe(starts ? as_option_str(&r->opts, AS_OPT_STATE_DIR) : r->dir.path,
                                &why);
    if (rc == AS_ENOTFOUND && !starts)
        rc = 0;
    if (rc == AS_ENOTFOUND && !why.n)
        as_buf_str(&why, "there is no " AS_STORE_FILE " in --state-dir");
    if (rc < 0) /* only one line reaches the user */
        as_buf_printf(err, "the stored state cannot be read: %.*s",
                      (int)strcspn(as_buf_cstr(&why), "\n"), as_buf_cstr(&why));
    as_buf_fini(&why);
    return rc == 0;
}

/* Can the new program's dispatcher load the certificates? Else it would take over, and refuse the
 * clients that the former one serves. */
static bool can_use_certificates(const struct resumed *r, struct as_buf *err)
{
    struct as_tls_conf c;
    struct as_buf why = {0};
    bool ok = !as_tls_conf_read(&c, &r->opts, &why) &&
              !as_tls_conf_check(&c, AS_TLS_EXPIRY_ALLOWED, &why);

    if (!ok)
        as_buf_printf(err, "the certificates cannot be loaded: %.*s",
                      AS_STR_FMT(as_buf_slice(&why)));
    as_buf_fini(&why);
    return ok;
}

/* Likewise its file of API keys: without one every request is refused. */
static bool can_use_keys(const struct resumed *r, struct as_buf *err)
{
    const char *path = as_option_str(&r->opts, AS_OPT_API_KEYS);
    struct as_key_table *t = NULL;
    struct as_buf why = {0};
    bool ok =
        !path[0] || !as_key_file_load(path, (uint32_t)as_option_u64(&r->opts, AS_OPT_MAX_API_KEYS),
                                      NULL, &t, &why);

    if (!ok)
        as_buf_printf(err, "the API keys cannot be loaded: %.*s", AS_STR_FMT(as_buf_slice(&why)));
    if (ok && t)
        as_key_table_unref(t);
    as_buf_fini(&why);
    return ok;
}

static int take_over(struct resumed *r, int fd, struct as_buf *err)
{
    As__Command *m;
    int code = as_reexec_reader_load(&r->in, fd, r->dry, err);

    close(fd);
    if (code < 0)
        return AS_EXIT_CODE_CONFIG;
    if (!r->in.state->command)
        r->in.state->command = as_reexec_new(&as__command__descriptor);
    m = r->in.state->command;
    as_supervisor_conf_restore(&r->conf, &r->in);
    read_options(r, m, err);
    r->dir.base = as_str_dup(as_str_of(m->runtime_base));
    r->dir.path = as_str_dup(as_str_of(m->runtime_path));
    r->dir.lock = as_reexec_take_fd(&r->in, "runtime_lock", m->runtime_lock);
    read_notify(r, as_reexec_str(m->notify));
    (void)as_notify_init_watchdog(&r->notify); /* the former program wrote it to the environment */
    r->resume.hold = as_reexec_take_fd(&r->in, "hold", m->hold);
    if (!r->in.failed)
        as_conf_limit_core_dumps(&r->opts);
    r->conf.opts = &r->opts;
    r->conf.notify = &r->notify;
    r->conf.save_state = as_resume_write_state;
    r->conf.upgraded = as_resume_write_outcome;
    r->conf.ctx = &r->resume;
    r->conf.reexec = &r->in;
    if (r->dry) {
        r->dir.lock = r->resume.hold = -1; /* they belong to the process that serves */
        r->conf.signal_fd = as_supervisor_signals();
    } else {
        if (!r->in.failed && as_supervisor_signals_restore(r->conf.signal_fd) < 0)
            as_fatal_system("a signalfd", errno);
    }
    code = r->in.failed ? AS_EXIT_CODE_CONFIG : as_supervisor_run(&r->conf);
    if (r->dry && code == AS_EXIT_CODE_OK &&
        !(can_read_state(r, err) && can_use_certificates(r, err) && can_use_keys(r, err)))
        code = AS_EXIT_CODE_CONFIG;
    as_reexec_reader_fini(&r->in);
    return code;
}

int as_resume_main(struct as_option_set *opts)
{
    struct resumed r = {.dir = {.lock = -1}, .resume = {.hold = -1}};
    struct as_buf err = {0};
    uint64_t fd;
    int code;

    if (as_str_u64(as_str_of(opts->args[0]), &fd) < 0 || fd < 3 || fd > INT32_MAX ||
        (opts->n_args > 1 && strcmp(opts->args[1], "check") != 0)) {
        fprintf(stderr, "anyserve: resume is only executed by a supervisor, for an upgrade\n");
        return AS_EXIT_CODE_USAGE;
    }
    r.dry = opts->n_args > 1;
    as_fatal_set_cleanup(as_runtime_dir_on_fatal, &r.dir);
    code = take_over(&r, (int)fd, &err);
    as_print_error(&err, code);
    as_fatal_set_cleanup(NULL, NULL);
    as_runtime_dir_close(&r.dir);
    if (!r.dry)
        as_ports_remove_sockets(&r.opts, UINT32_MAX);
    if (r.resume.hold >= 0)
        close(r.resume.hold);
    as_supervisor_conf_fini(&r.conf);
    as_option_argv_free(r.argv);
    return code;
}

/* --- `anyserve upgrade` --- */

void as_resume_write_outcome(void *resume, struct as_str outcome)
{
    const struct as_resume *r = resume;

    as_outcome_write(r->dir->path, AS_RUNTIME_UPGRADE, outcome);
}

int as_upgrade_main(struct as_option_set *opts)
{
    static const struct as_outcome_command command = {.done = "upgraded to",
                                                      .failed = "not upgraded"};

    return as_outcome_wait_signal(opts, SIGUSR2, AS_RUNTIME_UPGRADE, &command);
}
