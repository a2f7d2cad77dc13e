/* A deployment that calls another one (tests/e2e/worker/test_c_calls.py). What a request asks for
 * is a text; it comes as the tensor `ask` of the model NAME.in, or as the bytes of a call of NAME.
 *
 *   calling NAME THREADS NEXT-APPLICATION NEXT
 *
 * ONCE in the environment: calls of NAME may not run twice.
 *
 *   trail N   NAME, and what `trail N-1` gives at NEXT
 *   count N   a stream of N numbers        sum N     the sum of NEXT's `count N`
 *   wait      waits until it is cancelled  hold      waits for NEXT's `wait`
 *   pid       of this process              next-pid  of NEXT
 *   die       kills this process           next-die  says how NEXT's `die` ended
 *   many N    N calls of NEXT at once      forget N  N calls for which nobody waits
 */
#include <anyserve/worker.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT 4096u

static const char *name;
static uint32_t next;

static int open_next(struct as_worker_call *call, const char *text, bool stream,
                     struct as_worker_out **ret_o)
{
    struct as_body body = {.codec = AS_BODY_BYTES, .data = {text, strlen(text)}};
    struct as_worker_open o = {
        .size = sizeof(o), .target = next, .body = &body, .stream = stream, .window = 4};

    return as_worker_call_open(call, &o, ret_o);
}

/* The next message as text. AS_EOF: there is none; AS_EHANDLER: the call has failed, as *ret_m
 * says.
 */
static int read_text(struct as_worker_out *o, char to[TEXT], struct as_worker_out_msg *ret_m)
{
    int err;

    (void)as_worker_out_wait(o, AS_NEVER);
    err = as_worker_out_read(o, ret_m);
    if (!err)
        snprintf(to, TEXT, "%.*s", (int)ret_m->body->data.n, ret_m->body->data.p);
    return err;
}

static int fail_as(struct as_worker_call *call, const struct as_worker_out_msg *m)
{
    char text[512];

    snprintf(text, sizeof(text), "%.*s", (int)m->text.n, m->text.p);
    return as_worker_call_fail(call, m->status, text);
}

static int ask_next(struct as_worker_call *call, const char *text, char to[TEXT])
{
    struct as_worker_out_msg m;
    struct as_worker_out *o;
    int err = open_next(call, text, false, &o);

    if (err)
        return err;
    err = read_text(o, to, &m);
    if (err)
        err = fail_as(call, &m);
    as_worker_out_free(o);
    return err;
}

static int trail(struct as_worker_call *call, long n, char to[TEXT])
{
    char text[32], rest[TEXT];
    int err;

    snprintf(to, TEXT, "%s", name);
    if (!n)
        return 0;
    snprintf(text, sizeof(text), "trail %ld", n - 1);
    err = ask_next(call, text, rest);
    if (!err)
        snprintf(to, TEXT, "%.100s>%.3900s", name, rest);
    return err;
}

static int count(struct as_worker_call *call, long n)
{
    for (long i = 0; i < n; i++) {
        char text[24];
        struct as_body body = {.codec = AS_BODY_BYTES, .data.p = text};
        int err;

        body.data.n = (size_t)snprintf(text, sizeof(text), "%ld", i);
        err = as_worker_call_send_body(call, &body);
        if (err)
            return err;
    }
    return 0;
}

static int sum(struct as_worker_call *call, const char *ask, char to[TEXT])
{
    struct as_worker_out_msg m;
    struct as_worker_out *o;
    char text[TEXT];
    long total = 0;
    int err = open_next(call, ask, true, &o);

    if (err)
        return err;
    while (!(err = read_text(o, text, &m)))
        total += atol(text);
    err = err == AS_EOF ? 0 : fail_as(call, &m);
    as_worker_out_free(o);
    snprintf(to, TEXT, "%ld", total);
    return err;
}

static int many(struct as_worker_call *call, long n, bool forget, char to[TEXT])
{
    struct as_worker_out **o = calloc((size_t)n, sizeof(struct as_worker_out *));
    struct as_worker_out_msg m;
    char text[TEXT];
    long ok = 0;
    int err = 0;

    for (long i = 0; o && i < n && !err; i++)
        err = open_next(call, "trail 0", false, &o[i]);
    for (long i = 0; o && i < n && o[i]; i++) {
        if (forget) {
            as_worker_out_detach(o[i]);
        } else {
            ok += !read_text(o[i], text, &m);
            as_worker_out_free(o[i]);
        }
    }
    free(o);
    snprintf(to, TEXT, "%ld", forget ? n : ok);
    return err;
}

static int next_die(struct as_worker_call *call, char to[TEXT])
{
    struct as_worker_out_msg m;
    struct as_worker_out *o;
    int err = open_next(call, "die", false, &o);

    if (err)
        return err;
    if (read_text(o, to, &m) == AS_EHANDLER)
        snprintf(to, TEXT, "%u %u %.*s", m.status, m.flags, (int)m.text.n, m.text.p);
    as_worker_out_free(o);
    return 0;
}

static int wait_for_cancel(const struct as_worker_call *call)
{
    while (!as_worker_call_cancelled(call))
        (void)poll(NULL, 0, 1);
    fprintf(stderr, "%s: cancelled\n", name);
    return AS_ECANCELLED;
}

static int perform(struct as_worker_call *call, const char *ask, char to[TEXT])
{
    const char *number = strchr(ask, ' ');
    long n = number ? atol(number) : 0;
    char text[32];

    to[0] = 0;
    snprintf(text, sizeof(text), "count %ld", n);
    if (!strncmp(ask, "trail ", 6))
        return trail(call, n, to);
    if (!strncmp(ask, "count ", 6))
        return count(call, n);
    if (!strncmp(ask, "sum ", 4))
        return sum(call, text, to);
    if (!strncmp(ask, "many ", 5) || !strncmp(ask, "forget ", 7))
        return many(call, n, ask[0] == 'f', to);
    if (!strcmp(ask, "wait"))
        return wait_for_cancel(call);
    if (!strcmp(ask, "hold"))
        return ask_next(call, "wait", to);
    if (!strcmp(ask, "next-pid"))
        return ask_next(call, "pid", to);
    if (!strcmp(ask, "next-die"))
        return next_die(call, to);
    if (!strcmp(ask, "die"))
        (void)kill(getpid(), SIGKILL);
    snprintf(to, TEXT, "%ld", (long)getpid());
    return strcmp(ask, "pid") ? AS_EINVALID : 0;
}

static int on_call(struct as_worker_call *call, void *ctx)
{
    const struct as_body *body = as_worker_call_body(call);
    struct as_body answer = {.codec = AS_BODY_BYTES};
    char ask[TEXT], to[TEXT];
    int err;

    (void)ctx;
    snprintf(ask, sizeof(ask), "%.*s", (int)body->data.n, body->data.p);
    err = perform(call, ask, to);
    if (err || as_worker_call_streams(call))
        return err;
    answer.data = (struct as_str){to, strlen(to)};
    return as_worker_call_answer(call, &answer);
}

static int on_tensor(struct as_worker_call *call, void *ctx)
{
    const struct as_tensor *x = as_worker_call_input(call, "ask");
    char ask[TEXT], to[TEXT];
    int64_t n;
    uint8_t *said;
    int err;

    (void)ctx;
    snprintf(ask, sizeof(ask), "%.*s", (int)x->nbytes - 4, (const char *)x->data + 4);
    err = perform(call, ask, to);
    if (err)
        return err;
    n = (int64_t)strlen(to);
    said = as_worker_call_output(call, "said", AS_DT_UINT8, 1, &n);
    if (said)
        memcpy(said, to, (size_t)n);
    return said ? 0 : AS_EINVALID;
}

int main(int argc, char **argv)
{
    static const int64_t one[] = {1}, any[] = {-1};
    static const struct as_tensor_spec in = {AS_STR_INIT("ask"), AS_DT_BYTES, 1, one, NULL, 0};
    static const struct as_tensor_spec out = {AS_STR_INIT("said"), AS_DT_UINT8, 1, any, NULL, 0};
    struct as_worker_conf conf = {.size = sizeof(conf)};
    struct as_worker_model calls = {
        .size = sizeof(calls), .idempotent = true, .opaque = true, .handler = on_call};
    struct as_worker_model tensors = {.size = sizeof(tensors),
                                      .idempotent = true,
                                      .has_inputs = true,
                                      .n_inputs = 1,
                                      .inputs = &in,
                                      .has_outputs = true,
                                      .n_outputs = 1,
                                      .outputs = &out,
                                      .handler = on_tensor};
    char entry[64];
    struct as_worker *w;
    int err;

    if (argc != 5)
        return 2;
    name = calls.name = argv[1];
    calls.idempotent = tensors.idempotent = !getenv("ONCE");
    snprintf(entry, sizeof(entry), "%s.in", name);
    tensors.name = entry;
    conf.threads = (uint32_t)atoi(argv[2]);
    if (as_worker_new(&w, &conf) || as_worker_add(w, &calls) || as_worker_add(w, &tensors) ||
        as_worker_target(w, argv[3], argv[4], &next))
        return 1;
    err = as_worker_run(w);
    as_worker_free(w);
    return err != 0;
}
