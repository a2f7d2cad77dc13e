#include "app/server/plugin_check.h"

#include "conf/option/exit_code.h"
#include "link/plugin/plugin.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: loads all and writes what is wrong. */
__attribute__((noreturn)) static void load(const char *list, int out)
{
    char why[1024] = "";
    int err = as_plugin_load_all(as_str_of(list), why, sizeof(why));

    if (err && write(out, why, strlen(why)) < 0)
        err = AS_EIO;
    _exit(err ? AS_EXIT_CODE_CONFIG : AS_EXIT_CODE_OK);
}

static void read_all(int in, struct as_buf *b)
{
    char part[1024];
    ssize_t n;

    while ((n = read(in, part, sizeof(part))) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0)
            as_buf_add(b, part, (size_t)n);
    }
}

int as_plugin_check(const struct as_option_set *opts, struct as_buf *err)
{
    const char *list = as_option_str(opts, AS_OPT_ROUTER_PLUGIN);
    int fds[2], status = 0;
    struct as_buf why = {0};
    pid_t pid;

    if (!list[0])
        return AS_EXIT_CODE_OK;
    if (pipe(fds) < 0)
        return AS_EXIT_CODE_SYSTEM;
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        load(list, fds[1]);
    }
    close(fds[1]);
    if (pid > 0) {
        read_all(fds[0], &why);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(fds[0]);
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == AS_EXIT_CODE_OK) {
        as_buf_fini(&why);
        return AS_EXIT_CODE_OK;
    }
    as_buf_printf(err, "--%s: ", as_option_key(AS_OPT_ROUTER_PLUGIN));
    if (why.n)
        as_buf_add(err, why.p, why.n);
    else if (pid > 0 && WIFSIGNALED(status))
        as_buf_printf(err, "loading '%s' ends the process with signal %d", list, WTERMSIG(status));
    else
        as_buf_printf(err, "'%s' cannot be tried", list);
    as_buf_fini(&why);
    return AS_EXIT_CODE_CONFIG;
}
