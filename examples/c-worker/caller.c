/* A deployment in C that calls a deployment in Python: "count" counts the words of a text, and asks
 * `Words` of words.py for them. The server starts it, since only such programs may open calls:
 *
 *   make && anyserve start deployment.yaml
 *   anyserve infer count text="to be or not to be"
 *
 * `count` is a model of tensors. `Count` does the same for callers: handles of Python, and other
 * programs like this one.
 */
#include <anyserve/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t words; /* the target */

/* Calls Words with a text. 0: *ret_n is its answer. */
static int ask(struct as_worker_call *call, struct as_str text, int64_t *ret_n)
{
    struct as_body body = {.codec = AS_BODY_BYTES, .data = text};
    struct as_worker_open open = {.size = sizeof(open), .target = words, .body = &body};
    struct as_worker_out_msg answer;
    struct as_worker_out *out;
    char reason[400];
    int err = as_worker_call_open(call, &open, &out);

    if (err)
        return err;
    (void)as_worker_out_wait(out, AS_NEVER); /* other handlers run in other threads */
    err = as_worker_out_read(out, &answer);
    if (err) { /* not found, unavailable, cancelled … */
        snprintf(reason, sizeof(reason), "%.*s", (int)answer.text.n, answer.text.p);
        err = as_worker_call_fail(call, answer.status, reason);
    } else if (answer.body->flags & AS_BODY_F_EXCEPTION) { /* Words has raised it */
        snprintf(reason, sizeof(reason), "%.*s", (int)answer.body->data.n, answer.body->data.p);
        err = as_worker_call_fail(call, AS_STATUS_INTERNAL, reason);
    } else if (answer.body->codec != AS_BODY_BYTES || answer.body->data.n >= sizeof(reason)) {
        err = as_worker_call_fail(call, AS_STATUS_INTERNAL, "Words did not answer with a number");
    } else {
        snprintf(reason, sizeof(reason), "%.*s", (int)answer.body->data.n, answer.body->data.p);
        *ret_n = atoll(reason);
    }
    as_worker_out_free(out);
    return err;
}

static int count_tensors(struct as_worker_call *call, void *ctx)
{
    static const int64_t one[] = {1};
    const struct as_tensor *x = as_worker_call_input(call, "text");
    /* an element of BYTES is its length in four bytes, and its bytes */
    struct as_str text = {(const char *)x->data + 4, x->nbytes - 4};
    int64_t n, *to;
    int err = ask(call, text, &n);

    (void)ctx;
    if (err)
        return err;
    to = as_worker_call_output(call, "words", AS_DT_INT64, 1, one);
    if (!to)
        return AS_EINVALID;
    *to = n;
    return 0;
}

static int count_bytes(struct as_worker_call *call, void *ctx)
{
    const struct as_body *body = as_worker_call_body(call);
    struct as_body answer = {.codec = AS_BODY_BYTES};
    char text[24];
    int64_t n;
    int err;

    (void)ctx;
    if (body->codec != AS_BODY_BYTES)
        return as_worker_call_fail(call, AS_STATUS_INVALID_ARGUMENT, "Count takes bytes");
    err = ask(call, body->data, &n);
    if (err)
        return err;
    answer.data.p = text;
    answer.data.n = (size_t)snprintf(text, sizeof(text), "%lld", (long long)n);
    return as_worker_call_answer(call, &answer);
}

static void say(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "caller: %s\n", text);
}

int main(void)
{
    static const int64_t one[] = {1};
    static const struct as_tensor_spec in = {AS_STR_INIT("text"), AS_DT_BYTES, 1, one, NULL, 0};
    static const struct as_tensor_spec out = {AS_STR_INIT("words"), AS_DT_INT64, 1, one, NULL, 0};
    struct as_worker_conf conf = {.size = sizeof(conf), .threads = 8, .log = say};
    struct as_worker_model tensors = {.size = sizeof(tensors),
                                      .name = "count",
                                      .idempotent = true,
                                      .has_inputs = true,
                                      .n_inputs = 1,
                                      .inputs = &in,
                                      .has_outputs = true,
                                      .n_outputs = 1,
                                      .outputs = &out,
                                      .handler = count_tensors};
    struct as_worker_model calls = {.size = sizeof(calls),
                                    .name = "Count",
                                    .idempotent = true,
                                    .opaque = true,
                                    .handler = count_bytes};
    struct as_worker *w;
    int err;

    if (as_worker_new(&w, &conf) || as_worker_add(w, &tensors) || as_worker_add(w, &calls) ||
        as_worker_target(w, "words", "Words", &words))
        return 1;
    err = as_worker_run(w); /* until SIGTERM, or until the server ends */
    as_worker_free(w);
    return err != 0;
}
