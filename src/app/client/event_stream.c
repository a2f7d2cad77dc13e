#include "app/client/event_stream.h"

#include "conf/exit_code.h"
#include "io/process/runtime.h"

#include <poll.h>

#define TRIES 50  /* streams in a row that bring nothing */
#define PAUSE 100 /* ms between two of them */

static void change(struct as_follow *f, const struct as_state *st, bool gone)
{
    if (f->on_change)
        f->on_change(f->ctx, st, gone);
}

static bool on_event(void *ctx, struct as_str data)
{
    struct as_follow *f = ctx;
    const struct as_state *st;

    f->heard = true;
    if (f->on_raw)
        f->on_raw(f->ctx, data);
    switch (as_states_event(&f->states, data, &st)) {
    case AS_STATES_CHANGED:
        change(f, st, false);
        break;
    case AS_STATES_GONE:
        change(f, st, true);
        break;
    case AS_STATES_SYNCED:
        while ((st = as_states_lapsed(&f->states)))
            change(f, st, true);
        break;
    case AS_STATES_NOTHING:
        break;
    case AS_STATES_BROKEN:
        fprintf(stderr, "anyserve: the server sent what is no event: %.*s\n",
                (int)AS_MIN(data.n, (size_t)200), data.p);
    }
    return true;
}

static bool on_pause(void *ctx)
{
    struct as_follow *f = ctx;

    return !f->states.synced || f->on_rest(f->ctx, &f->states);
}

enum as_contact_end as_follow_run(struct as_follow *f, const struct as_option_set *opts)
{
    struct as_contact_request q = {.socket = AS_RUNTIME_CONTROL,
                                   .method = "GET",
                                   .target = AS_FOLLOW_TARGET,
                                   .is_slow = true}; /* nothing may happen for long */
    struct as_contact_stream s = {.on_event = on_event,
                                  .on_pause = on_pause,
                                  .ctx = f,
                                  .stop_fd = f->stop_fd,
                                  .deadline = f->deadline};
    uint32_t tries = 0;
    bool met = false; /* it has been there */

    for (;;) {
        struct as_contact_answer a;
        enum as_contact_end end = as_contact_watch(opts, &q, &s, &a, &f->code);

        if (end != AS_CONTACT_ABSENT && end != AS_CONTACT_SILENT)
            f->code = AS_CODE_FAILED;
        if (end == AS_CONTACT_REFUSED)
            as_contact_refused(&a);
        as_contact_fini(&a);
        if (end == AS_CONTACT_ABSENT && met)
            fprintf(stderr, "anyserve: the server has gone\n");
        if (end != AS_CONTACT_BROKEN)
            return end;
        met = q.is_quiet = true;
        tries = f->heard ? 0 : tries + 1;
        if (tries == TRIES) {
            fprintf(stderr, "anyserve: the server ends every stream of events at once\n");
            return AS_CONTACT_BROKEN;
        }
        f->heard = false;
        as_states_restart(&f->states);
        poll(&(struct pollfd){.fd = f->stop_fd, .events = POLLIN}, 1, PAUSE);
    }
}

void as_follow_fini(struct as_follow *f)
{
    as_states_fini(&f->states);
}
