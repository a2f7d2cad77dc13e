#include "app/client/outcome_wait.h"

#include "app/client/server_process.h"
#include "conf/option/exit_code.h"
#include "ctl/state/outcome.h"
#include "io/loop/clock.h"
#include "io/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define LOOK_EVERY (20 * AS_MS)

/* What follows the word; NULL: the outcome is another one. */
static const char *behind(const char *outcome, const char *word)
{
    size_t n = strlen(word);

    return strncmp(outcome, word, n) == 0 ? outcome + n : NULL;
}

static int print_outcome(const char *outcome, const struct as_outcome_command *c)
{
    const char *rest = behind(outcome, AS_OUTCOME_DONE);

    if (rest) {
        printf("%s%s%s\n", c->done, rest[0] ? " " : "", rest);
        return AS_EXIT_CODE_OK;
    }
    if (behind(outcome, AS_OUTCOME_NOTHING)) {
        printf("%s\n", c->nothing);
        return AS_EXIT_CODE_OK;
    }
    rest = behind(outcome, AS_OUTCOME_FAILED);
    fprintf(stderr, "anyserve: %s: %s\n", c->failed, rest ? rest : outcome);
    return AS_EXIT_CODE_FAILED;
}

struct waiting {
    struct as_server_process server;
    as_ns deadline;
    as_ns explain; /* when to say why the server may not answer; AS_NEVER: it was said */
};

static void begin(struct waiting *w, const struct as_option_set *opts)
{
    as_ns now = as_clock_now(), limit = as_option_ns(opts, AS_OPT_WAIT_TIMEOUT);

    w->deadline = limit ? now + limit : AS_NEVER;
    w->explain = AS_MIN(w->deadline, now + as_option_ns(opts, AS_OPT_ANSWER_TIMEOUT));
}

/* Until the next look. An exit code other than that of success: it is over. */
static int pause_a_moment(struct waiting *w, const char *what_goes_on)
{
    as_ns now = as_clock_now();

    if (now >= w->explain) {
        as_server_process_print_stopped(&w->server);
        w->explain = AS_NEVER;
    }
    if (now >= w->deadline) {
        fprintf(stderr, "anyserve: not done within --timeout; %s\n", what_goes_on);
        return AS_EXIT_CODE_TIMEOUT;
    }
    if (as_server_process_wait_end(&w->server, AS_MIN(w->deadline, now + LOOK_EVERY))) {
        fprintf(stderr, "anyserve: the server has ended\n");
        return AS_EXIT_CODE_FAILED;
    }
    return AS_EXIT_CODE_OK;
}

/* Else this command could take the outcome of another one, which asked before a file had changed.
 * *ret_fd: the lock, until it is closed; -1: it cannot be had. */
static int wait_for_turn(struct waiting *w, const char *path, int *ret_fd)
{
    char lock[PATH_BYTES + 8];
    int code = AS_EXIT_CODE_OK;

    snprintf(lock, sizeof(lock), "%s.lock", path);
    *ret_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (code == AS_EXIT_CODE_OK && *ret_fd >= 0 && flock(*ret_fd, LOCK_EX | LOCK_NB) < 0 &&
           errno == EWOULDBLOCK)
        code = pause_a_moment(w, "another command waits for the server; nothing was asked of it");
    return code;
}

static int wait_for_outcome(struct waiting *w, const char *path, const struct as_outcome_command *c)
{
    char text[PATH_BYTES];
    int code = AS_EXIT_CODE_OK;

    while (code == AS_EXIT_CODE_OK) {
        if (as_proc_read_file(path, text, sizeof(text)))
            return print_outcome(text, c);
        code = pause_a_moment(w, "the server continues with it");
    }
    return code;
}

int as_outcome_wait_signal(const struct as_option_set *opts, int signo, const char *name,
                           const struct as_outcome_command *c)
{
    struct waiting w;
    char path[PATH_BYTES];
    int code = as_server_process_find(&w.server, opts), lock = -1;

    begin(&w, opts);
    if (code == AS_EXIT_CODE_OK) {
        snprintf(path, sizeof(path), "%s/%u/%s", w.server.base, w.server.port, name);
        if (c->in_turn)
            code = wait_for_turn(&w, path, &lock);
    }
    if (code == AS_EXIT_CODE_OK) {
        unlink(path); /* the outcome of an earlier one */
        code = as_server_process_signal(&w.server, signo);
    }
    if (code == AS_EXIT_CODE_OK)
        code = wait_for_outcome(&w, path, c);
    if (lock >= 0)
        close(lock);
    as_server_process_fini(&w.server);
    return code;
}
