#include "app/client/event_stream.h"

#include "conf/option/exit_code.h"
#include "io/process/runtime.h"

#include <poll.h>

#define MAX_EMPTY_STREAMS 50  /* streams in a row without an event */
#define RECONNECT_PAUSE   100 /* ms between two streams */

static void report_change(struct as_event_stream *f, const struct as_state *st, bool gone)
{
    if (f->on_change)
        f->on_change(f->ctx, st, gone);
}

static bool on_event(void *ctx, struct as_str data)
{
    struct as_event_stream *f = ctx;
    const struct as_state *st;

    f->has_received = true;
    if (f->on_raw)
        f->on_raw(f->ctx, data);
    switch (as_states_event(&f->states, data, &st)) {
    case AS_STATES_CHANGED:
        report_change(f, st, false);
        break;
    case AS_STATES_GONE:
        report_change(f, st, true);
        break;
    case AS_STATES_SYNCED:
        while ((st = as_states_next_missing(&f->states)))
            report_change(f, st, true);
        break;
    case AS_STATES_NOTHING:
        break;
    case AS_STATES_INVALID:
        fprintf(stderr, "anyserve: the server sent an event that cannot be read: %.*s\n",
                AS_STR_CUT(data, 200));
    }
    return true;
}

static bool on_batch_end(void *ctx)
{
    struct as_event_stream *f = ctx;

    return !f->states.synced || f->on_caught_up(f->ctx, &f->states);
}

enum as_control_client_end as_event_stream_run(struct as_event_stream *f,
                                               const struct as_option_set *opts)
{
    struct as_control_client_request q = {.socket = AS_RUNTIME_CONTROL,
                                          .method = "GET",
                                          .target = AS_EVENT_STREAM_TARGET,
                                          .is_slow = true}; /* there may be no event for long */
    struct as_control_client_stream s = {.on_event = on_event,
                                         .on_batch_end = on_batch_end,
                                         .ctx = f,
                                         .stop_fd = f->stop_fd,
                                         .deadline = f->deadline};
    uint32_t tries = 0;
    bool has_connected = false;

    for (;;) {
        struct as_control_client_answer a;
        enum as_control_client_end end = as_control_client_watch(opts, &q, &s, &a, &f->code);

        if (end != AS_CONTROL_CLIENT_NO_SERVER && end != AS_CONTROL_CLIENT_SILENT)
            f->code = AS_EXIT_CODE_FAILED;
        if (end == AS_CONTROL_CLIENT_REFUSED)
            as_control_client_print_refused(&a);
        as_control_client_answer_fini(&a);
        if (end == AS_CONTROL_CLIENT_NO_SERVER && has_connected)
            fprintf(stderr, "anyserve: the server has ended\n");
        if (end != AS_CONTROL_CLIENT_BROKEN)
            return end;
        has_connected = q.is_quiet = true;
        tries = f->has_received ? 0 : tries + 1;
        if (tries == MAX_EMPTY_STREAMS) {
            fprintf(stderr,
                    "anyserve: the server ended %d event streams in a row without an event\n",
                    MAX_EMPTY_STREAMS);
            return AS_CONTROL_CLIENT_BROKEN;
        }
        f->has_received = false;
        as_states_restart(&f->states);
        poll(&(struct pollfd){.fd = f->stop_fd, .events = POLLIN}, 1, RECONNECT_PAUSE);
    }
}

void as_event_stream_fini(struct as_event_stream *f)
{
    as_states_fini(&f->states);
}
