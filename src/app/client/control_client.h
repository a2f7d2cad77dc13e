/* app/client/control_client.h — one HTTP request to a server, for commands.
 *
 * By a unix socket in the folder of a server of this machine, which works whichever ports are off,
 * and whose place proves whose server it is; or, with --control, over TCP to its control API.
 * Blocking calls, each with an end: none waits for a silent server for longer than
 * --answer-timeout, nor beyond the --timeout of the whole command, and stderr says which process
 * did not answer. The server's bytes are read with care (wire/h1/h1_client.h): half an answer is
 * none.
 */
#ifndef AS_APP_CONTACT_H
#define AS_APP_CONTACT_H

#include "base/buf.h"
#include "conf/option.h"

struct as_control_client_request {
    const char
        *socket; /* a file of io/process/runtime.h; over TCP only AS_RUNTIME_CONTROL can be asked */
    const char *method, *target;
    struct as_str body; /* JSON or YAML; empty: none */
    as_ns wait;         /* for the next byte; 0: --answer-timeout */
    bool is_slow;  /* its answer may take any time: a silent server is asked whether it is well */
    bool is_quiet; /* that there is no server is not told: the caller goes on without */
};

struct as_control_client_answer {
    unsigned status;    /* of HTTP */
    struct as_str body; /* lies in `bytes` */
    struct as_buf bytes;
};

/* --port and --runtime-dir, or --control, of `opts` say which server; without --port, the only one
 * there is. AS_EXIT_CODE_OK: it answered, and the answer is whole; else stderr says why not, and
 * the exit code comes back. as_control_client_answer_fini in any case. */
int as_control_client_call(const struct as_option_set *opts,
                           const struct as_control_client_request *q,
                           struct as_control_client_answer *ret_a);
void as_control_client_answer_fini(struct as_control_client_answer *a);

/* The usual end of a command: a body with 200 goes to stdout, anything else to stderr. The exit
 * code. */
int as_control_client_print(const struct as_control_client_answer *a);
/* Tells on stderr, in the server's own words, why it has refused. The exit code. */
int as_control_client_print_refused(const struct as_control_client_answer *a);
/* A whole command: asks and prints. The exit code. */
int as_control_client_call_print(const struct as_option_set *opts,
                                 const struct as_control_client_request *q);
/* What an answer that is not 200 says, without its JSON; the caller empties ret_text. False: it is
 * not of ours, and this is its body. */
bool as_control_client_error_text(const struct as_control_client_answer *a,
                                  struct as_buf *ret_text);

/* --- streams of events --- */

enum as_control_client_end {
    AS_CONTROL_CLIENT_BROKEN,   /* the server ended it, or went away */
    AS_CONTROL_CLIENT_STOPPED,  /* on_event said so */
    AS_CONTROL_CLIENT_SIGNAL,   /* stop_fd became readable */
    AS_CONTROL_CLIENT_DEADLINE, /* the time is over */
    AS_CONTROL_CLIENT_SILENT,  /* the server does not answer, as stderr says; *ret_code has the exit
                                  code */
    AS_CONTROL_CLIENT_REFUSED, /* no such stream: the answer says why */
    AS_CONTROL_CLIENT_NO_SERVER /* nobody to ask, as stderr says; *ret_code has the exit code */
};

struct as_control_client_stream {
    bool (*on_event)(void *ctx, struct as_str data); /* false: enough */
    bool (*on_batch_end)(void *ctx);                 /* no other is there now; likewise */
    void *ctx;
    int stop_fd;    /* -1: none */
    as_ns deadline; /* CLOCK_MONOTONIC; AS_NEVER: none but that of as_control_client_deadline */
};

/* The events of q->target, one after the other, until something ends it: nothing happens for as
 * long as it likes (q->is_slow). as_control_client_answer_fini. */
enum as_control_client_end as_control_client_watch(const struct as_option_set *opts,
                                                   const struct as_control_client_request *q,
                                                   const struct as_control_client_stream *s,
                                                   struct as_control_client_answer *ret_a,
                                                   int *ret_code);

/* --- which server --- */

/* Of this machine: its --runtime-dir (the caller frees) and its port; whether it lives is not
 * looked at. */
uint16_t as_control_client_locate(const struct as_option_set *opts, char **ret_base);
/* Tells that nobody is there, and who is, since a forgotten --port is the likely reason. The exit
 * code. */
int as_control_client_print_no_server(const struct as_option_set *opts);

as_ns as_control_client_clock(void);      /* CLOCK_MONOTONIC */
void as_control_client_start_clock(void); /* the command begins: --timeout counts from here */
/* When a command that changes something must have ended, by its --timeout; AS_NEVER: it need not.
 */
as_ns as_control_client_deadline(const struct as_option_set *opts);
/* Tells on stderr that it has not, and, of a server of this machine, what keeps it. The exit code.
 */
int as_control_client_print_timeout(const struct as_option_set *opts, const char *what);
/* For commands that end with Ctrl-C: a descriptor that tells of SIGINT and SIGTERM, which do not
 * end the process any more, nor does a reader of ours that leaves (SIGPIPE). */
int as_control_client_signal_fd(void);

#endif
