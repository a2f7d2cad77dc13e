/* bench/parts/wrap_dispatcher.c — preloaded into `anyserve run`: the dispatcher starts below
 * another program.
 *
 * $BENCH_WRAP holds that program and its arguments, separated by blanks; instructions.py puts
 * valgrind there. The supervisor itself and the workers run as they are. It stands in for libc's
 * execvpe, which the supervisor calls between fork and exec: nothing here allocates.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 256u

typedef int exec_fn(const char *file, char *const argv[], char *const envp[]);

int execvpe(const char *file, char *const argv[], char *const envp[])
{
    static char self[4096], words[4096];
    static char *args[ARGS_MAX];
    const char *wrap = getenv("BENCH_WRAP");
    size_t n = 0;
    void *next = dlsym(RTLD_NEXT, "execvpe");
    exec_fn *real;

    memcpy(&real, &next, sizeof(real));
    if (!wrap || !argv[0] || !argv[1] || strcmp(argv[1], "dispatcher") != 0)
        return real(file, argv, envp);
    if (strlen(wrap) >= sizeof(words) || readlink(file, self, sizeof(self) - 1) < 0)
        return -1;
    memcpy(words, wrap, strlen(wrap));
    for (char *word = strtok(words, " "); word && n < ARGS_MAX / 2; word = strtok(NULL, " "))
        args[n++] = word;
    args[n++] = self;
    for (size_t i = 1; argv[i]; i++) {
        if (n == ARGS_MAX - 1)
            return -1;
        args[n++] = argv[i];
    }
    return real(args[0], args, envp);
}
