#include "app/commands/simulate_plot.h"

#include "conf/option/exit_code.h"
#include "ctl/worker/interpreter.h"
#include "io/process/proc.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* simulate_plot.py, made into C by tools/embed.py */
extern const unsigned char as_simulate_plot_script[];
extern const size_t as_simulate_plot_script_len;

bool as_simulate_plot_can_draw(const char *path)
{
    struct as_str s = as_str_of(path);

    return s.n > 4 && (as_str_eq_nocase((struct as_str){path + s.n - 4, 4}, AS_STR(".svg")) ||
                       as_str_eq_nocase((struct as_str){path + s.n - 4, 4}, AS_STR(".png")));
}

/* A file in memory with the text, to be read from its beginning; -1: errno. */
static int open_text(struct as_str text)
{
    int fd = memfd_create("simulation", MFD_CLOEXEC);
    size_t at = 0;

    while (fd >= 0 && at < text.n) {
        ssize_t n = write(fd, text.p + at, text.n - at);

        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += (size_t)n;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

static int run_script(const struct as_interpreter *python, const char *path, int in)
{
    char *script = as_str_dup(
        (struct as_str){(const char *)as_simulate_plot_script, as_simulate_plot_script_len});
    const char *argv[] = {python->path, "-c", script, path, NULL};
    struct as_proc_spec spec = {.path = python->path, .argv = argv, .in = in, .out = -1, .err = -1};
    struct as_proc p;
    int status, e, rc = as_proc_spawn(&p, &spec, &e);

    free(script);
    if (rc < 0) {
        fprintf(stderr, "anyserve simulate: cannot run the interpreter %s (%s): %s\n", python->path,
                python->why, strerror(e));
        return AS_EXIT_CODE_INTERPRETER;
    }
    status = as_proc_wait(&p);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return AS_EXIT_CODE_OK;
    /* the script has said what is wrong, unless a signal has ended it */
    if (WIFSIGNALED(status))
        fprintf(stderr, "anyserve simulate: %s was ended by signal %d\n", python->path,
                WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == AS_EXIT_CODE_INTERPRETER
               ? AS_EXIT_CODE_INTERPRETER
               : AS_EXIT_CODE_FAILED;
}

int as_simulate_plot_draw(const char *python, const char *path, struct as_str json)
{
    struct as_interpreter interpreter = {0};
    int in = open_text(json), code;

    if (in < 0) {
        fprintf(stderr, "anyserve simulate: --plot: %s\n", strerror(errno));
        return AS_EXIT_CODE_SYSTEM;
    }
    as_interpreter_choose(&interpreter, python);
    code = run_script(&interpreter, path, in);
    as_interpreter_fini(&interpreter);
    close(in);
    return code;
}
