#include "app/commands/shutdown.h"

#include "app/client/control_client.h"
#include "app/client/outcome_wait.h"
#include "app/client/server_process.h"
#include "conf/option/exit_code.h"
#include "io/loop/clock.h"
#include "io/process/runtime.h"

#include <signal.h>
#include <unistd.h>

/* Asks on the terminal; a script must give --yes. */
static int ask_for_confirmation(const struct as_server_process *p)
{
    char line[64];

    if (!isatty(STDIN_FILENO)) {
        fprintf(stderr, "anyserve: cannot ask for confirmation, since stdin is not a terminal; add "
                        "--yes (-y)\n");
        return AS_EXIT_CODE_USAGE;
    }
    fprintf(stderr, "End the server on port %u (pid %d)? [y/N] ", p->port, (int)p->pid);
    if (!fgets(line, sizeof(line), stdin))
        line[0] = 0;
    if (strcasecmp(line, "y\n") == 0 || strcasecmp(line, "yes\n") == 0)
        return AS_EXIT_CODE_OK;
    fprintf(stderr, "anyserve: nothing was done\n");
    return AS_EXIT_CODE_FAILED;
}

static int end_server(const struct as_server_process *p, const struct as_option_set *opts)
{
    as_ns wait = as_option_ns(opts, AS_OPT_WAIT_TIMEOUT);
    as_ns deadline = wait ? as_clock_now() + wait : AS_NEVER;
    int code = as_server_process_signal(p, SIGTERM);

    if (code != AS_EXIT_CODE_OK)
        return code;
    if (as_server_process_wait_end(
            p, AS_MIN(deadline, as_clock_now() + as_option_ns(opts, AS_OPT_ANSWER_TIMEOUT))))
        deadline = 0; /* it has ended */
    else
        as_server_process_print_stopped(p);
    if (!as_server_process_wait_end(p, deadline)) {
        fprintf(stderr,
                "anyserve: the server has not ended within --timeout; it continues to end\n");
        return AS_EXIT_CODE_TIMEOUT;
    }
    printf("the server on port %u has ended\n", p->port);
    return fflush(stdout) == 0 ? AS_EXIT_CODE_OK : AS_EXIT_CODE_FAILED;
}

int as_reload_main(struct as_option_set *opts)
{
    static const struct as_outcome_command command = {
        .done = "reloaded",
        .failed = "not reloaded",
        .nothing = "nothing to reload: the server has neither certificates nor API keys",
        .in_turn = true};

    return as_outcome_wait_signal(opts, SIGHUP, AS_RUNTIME_RELOAD, &command);
}

int as_shutdown_main(struct as_option_set *opts)
{
    struct as_server_process p;
    int code = as_server_process_find(&p, opts);

    if (code == AS_EXIT_CODE_OK && !as_option_bool(opts, AS_OPT_YES))
        code = ask_for_confirmation(&p);
    if (code == AS_EXIT_CODE_OK)
        code = end_server(&p, opts);
    as_server_process_fini(&p);
    return code;
}
