#include "app/client/outcome_wait.h"

#include "app/client/server_process.h"
#include "conf/option/exit_code.h"
#include "ctl/state/outcome.h"
#include "io/loop/clock.h"
#include "io/process/proc.h"

#include <unistd.h>

#define PATH_BYTES 4096
#define LOOK_EVERY (20 * AS_MS)

/* What follows the word; NULL: the outcome is another one. */
static const char *behind(const char *outcome, const char *word)
{
    size_t n = strlen(word);

    return strncmp(outcome, word, n) == 0 ? outcome + n : NULL;
}

static int print_outcome(const char *outcome, const struct as_outcome_texts *texts)
{
    const char *rest = behind(outcome, AS_OUTCOME_DONE);

    if (rest) {
        printf("%s%s%s\n", texts->done, rest[0] ? " " : "", rest);
        return AS_EXIT_CODE_OK;
    }
    if (behind(outcome, AS_OUTCOME_NOTHING)) {
        printf("%s\n", texts->nothing);
        return AS_EXIT_CODE_OK;
    }
    rest = behind(outcome, AS_OUTCOME_FAILED);
    fprintf(stderr, "anyserve: %s: %s\n", texts->failed, rest ? rest : outcome);
    return AS_EXIT_CODE_FAILED;
}

static int wait_for_outcome(const struct as_server_process *o, const char *path,
                            const struct as_option_set *opts, const struct as_outcome_texts *texts)
{
    as_ns began = as_clock_now(), limit = as_option_ns(opts, AS_OPT_WAIT_TIMEOUT);
    as_ns deadline = limit ? began + limit : AS_NEVER;
    as_ns explain = AS_MIN(deadline, began + as_option_ns(opts, AS_OPT_ANSWER_TIMEOUT));
    char text[PATH_BYTES];

    while (!as_proc_read_file(path, text, sizeof(text))) {
        as_ns now = as_clock_now();

        if (now >= explain) {
            as_server_process_print_stopped(o);
            explain = AS_NEVER; /* only once */
        }
        if (now >= deadline) {
            fprintf(stderr, "anyserve: not done within --timeout; the server continues with it\n");
            return AS_EXIT_CODE_TIMEOUT;
        }
        if (as_server_process_wait_end(o, AS_MIN(deadline, now + LOOK_EVERY))) {
            fprintf(stderr, "anyserve: the server has ended\n");
            return AS_EXIT_CODE_FAILED;
        }
    }
    return print_outcome(text, texts);
}

int as_outcome_wait_signal(const struct as_option_set *opts, int signo, const char *name,
                           const struct as_outcome_texts *texts)
{
    char path[PATH_BYTES];
    struct as_server_process o;
    int code = as_server_process_find(&o, opts);

    if (code == AS_EXIT_CODE_OK) {
        snprintf(path, sizeof(path), "%s/%u/%s", o.base, o.port, name);
        unlink(path); /* the outcome of an earlier one */
        code = as_server_process_signal(&o, signo);
    }
    if (code == AS_EXIT_CODE_OK)
        code = wait_for_outcome(&o, path, opts, texts);
    as_server_process_fini(&o);
    return code;
}
