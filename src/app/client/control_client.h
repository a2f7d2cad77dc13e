/* app/client/control_client.h — HTTP requests from a command to a running server.
 *
 * A server on this machine is reached by a unix socket in its runtime folder: that works whichever
 * ports are off, and the folder's permissions prove whose server it is. With --control the server's
 * control API is reached over TCP.
 * Calls block, but not for ever: none waits for a silent server longer than --answer-timeout, nor
 * longer than the --timeout of the whole command, and stderr says which process did not answer. The
 * server's bytes are not trusted (wire/h1/h1_client.h); an incomplete answer counts as none. One
 * thread.
 */
#ifndef AS_APP_CONTROL_CLIENT_H
#define AS_APP_CONTROL_CLIENT_H

#include "base/buf.h"
#include "conf/option/option.h"

struct as_control_client_request {
    const char *socket; /* a file of io/process/runtime.h; over TCP only AS_RUNTIME_CONTROL */
    const char *method, *target;
    struct as_str body; /* JSON or YAML; empty: none */
    as_ns wait;         /* longest time until the next byte; 0: --answer-timeout */
    bool is_slow;  /* the answer may take any time: a silent server is sent another request, to see
                      whether it hangs */
    bool is_quiet; /* prints nothing if no server answers: the caller continues without one */
};

struct as_control_client_answer {
    unsigned status;    /* HTTP status */
    struct as_str body; /* points into `bytes` */
    struct as_buf bytes;
};

/* Sends a request and receives its whole answer. --port and --runtime-dir, or --control, of `opts`
 * select the server; without --port it is the only one there is. Returns AS_EXIT_CODE_OK, or the
 * exit code after printing the reason to stderr. Call as_control_client_answer_fini in any case. */
int as_control_client_call(const struct as_option_set *opts,
                           const struct as_control_client_request *q,
                           struct as_control_client_answer *ret_a);
void as_control_client_answer_fini(struct as_control_client_answer *a);

/* Prints an answer: the body to stdout if the status is 200, else the error to stderr. Returns the
 * exit code. */
int as_control_client_print(const struct as_control_client_answer *a);
/* Prints the server's error text to stderr. Returns the exit code. */
int as_control_client_print_refused(const struct as_control_client_answer *a);
/* as_control_client_call, then as_control_client_print. Returns the exit code. */
int as_control_client_call_print(const struct as_option_set *opts,
                                 const struct as_control_client_request *q);
/* Appends the error text of an answer that is not 200 to ret_text. True: the text of
 * {"error": text}. False: the body is not such an object, and is appended as it is. */
bool as_control_client_error_text(const struct as_control_client_answer *a,
                                  struct as_buf *ret_text);

/* --- streams of events --- */

enum as_control_client_end {
    AS_CONTROL_CLIENT_BROKEN,   /* the server ended the stream, or has ended itself */
    AS_CONTROL_CLIENT_STOPPED,  /* a callback returned false */
    AS_CONTROL_CLIENT_SIGNAL,   /* stop_fd became readable */
    AS_CONTROL_CLIENT_DEADLINE, /* the deadline has passed */
    AS_CONTROL_CLIENT_SILENT,   /* the server does not answer; printed, *ret_code is set */
    AS_CONTROL_CLIENT_REFUSED,  /* the answer is no stream of events; it has the reason */
    AS_CONTROL_CLIENT_NO_SERVER /* no connection to a server; printed, *ret_code is set */
};

struct as_control_client_stream {
    /* both return false to stop */
    bool (*on_event)(void *ctx, struct as_str data);
    bool (*on_batch_end)(void *ctx); /* all events that have come so far were delivered */
    void *ctx;
    int stop_fd;    /* -1: none */
    as_ns deadline; /* CLOCK_MONOTONIC; AS_NEVER: only that of as_control_client_deadline */
};

/* Delivers the events of q->target until something ends the stream; q->is_slow should be set, since
 * there may be no events for long. Call as_control_client_answer_fini in any case. */
enum as_control_client_end as_control_client_watch(const struct as_option_set *opts,
                                                   const struct as_control_client_request *q,
                                                   const struct as_control_client_stream *s,
                                                   struct as_control_client_answer *ret_a,
                                                   int *ret_code);

/* --- which server --- */

/* Prints to stderr that the selected server does not run, and which ones do, since a missing --port
 * is the likely reason. Returns the exit code. */
int as_control_client_print_no_server(const struct as_option_set *opts);

void as_control_client_start_clock(void); /* --timeout of the command counts from here */
/* The end of --timeout, for commands that change something; else AS_NEVER. */
as_ns as_control_client_deadline(const struct as_option_set *opts);
/* Prints `what` to stderr and, for a server on this machine, which of its processes are stopped.
 * Returns the exit code for a timeout. */
int as_control_client_print_timeout(const struct as_option_set *opts, const char *what);
/* For commands that end with Ctrl-C: returns a signalfd for SIGINT and SIGTERM, which do not kill
 * the process any more; SIGPIPE is ignored. */
int as_control_client_signal_fd(void);

#endif
