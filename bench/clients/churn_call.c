#include "churn_call.h"

#include "wire/grpc/grpc.h"
#include "wire/oip/oip.h"

#include <string.h>

static uint8_t pattern[CHURN_PATTERN];

const char *const churn_kind_names[] = {
    [CHURN_ECHO] = "echo",           [CHURN_ECHO_LOOP] = "echo_loop", [CHURN_RAISES] = "raises",
    [CHURN_ERROR] = "error",         [CHURN_BAD] = "bad_answer",      [CHURN_NO_MODEL] = "no_model",
    [CHURN_NO_METHOD] = "no_method", [CHURN_MALFORMED] = "malformed", [CHURN_NO_INPUT] = "no_input",
    [CHURN_TOO_LARGE] = "too_large", [CHURN_LATE] = "late",           [CHURN_CANCEL] = "cancel",
    [CHURN_FLAKY] = "flaky",
};

/* Of a thousand calls; what remains is CHURN_ECHO. */
static const uint32_t shares[CHURN_KINDS] = {
    [CHURN_ECHO_LOOP] = 150, [CHURN_RAISES] = 5,     [CHURN_ERROR] = 30,     [CHURN_BAD] = 20,
    [CHURN_NO_MODEL] = 30,   [CHURN_NO_METHOD] = 20, [CHURN_MALFORMED] = 20, [CHURN_NO_INPUT] = 20,
    [CHURN_TOO_LARGE] = 10,  [CHURN_LATE] = 10,      [CHURN_CANCEL] = 60,
};

static const int expected[CHURN_KINDS] = {
    [CHURN_ECHO] = 0,     [CHURN_ECHO_LOOP] = 0, [CHURN_RAISES] = 13,    [CHURN_ERROR] = 9,
    [CHURN_BAD] = 13,     [CHURN_NO_MODEL] = 5,  [CHURN_NO_METHOD] = 12, [CHURN_MALFORMED] = 3,
    [CHURN_NO_INPUT] = 3, [CHURN_TOO_LARGE] = 8, [CHURN_LATE] = 4,       [CHURN_CANCEL] = -1,
    [CHURN_FLAKY] = 0,
};

static const char *const models[CHURN_KINDS] = {
    [CHURN_ECHO] = "echo",         [CHURN_ECHO_LOOP] = "echo_loop",
    [CHURN_RAISES] = "raises",     [CHURN_ERROR] = "error",
    [CHURN_BAD] = "bad",           [CHURN_NO_MODEL] = "nobody",
    [CHURN_NO_METHOD] = "x",       [CHURN_MALFORMED] = "echo",
    [CHURN_NO_INPUT] = "declared", [CHURN_TOO_LARGE] = "x",
    [CHURN_LATE] = "sleep",        [CHURN_CANCEL] = "echo",
    [CHURN_FLAKY] = "flaky",
};

void churn_pattern_init(uint64_t seed)
{
    struct as_rand r = {seed};

    for (size_t i = 0; i < sizeof(pattern); i += 8) {
        uint64_t v = as_rand_next(&r);

        memcpy(pattern + i, &v, 8);
    }
}

/* Mostly small, with the places where the server changes its ways, and one in a hundred large. */
static size_t draw_size(struct as_rand *r)
{
    static const size_t edges[] = {8192, 65536, 262144, 1048576};
    uint64_t dice = as_rand_below(r, 1000);

    if (dice < 50)
        return 0;
    if (dice < 800)
        return as_rand_below(r, 512);
    if (dice < 900)
        return as_rand_below(r, 16384);
    if (dice < 940)
        return edges[as_rand_below(r, 2)] - 2 + as_rand_below(r, 5);
    if (dice < 990)
        return as_rand_below(r, 131072);
    if (dice < 994)
        return AS_MIN(edges[2 + as_rand_below(r, 2)] - 2 + as_rand_below(r, 5), CHURN_BODY_MAX);
    return as_rand_below(r, CHURN_BODY_MAX + 1);
}

/* --- the message --- */

/* ModelInferRequest with one UINT8 tensor; its bytes follow the head. */
static void put_message(struct churn_call *c, const char *model)
{
    const int64_t shape[] = {(int64_t)c->tensor_n};
    const struct as_tensor x = {.name = AS_STR("x"),
                                .dtype = AS_DT_UINT8,
                                .ndim = 1,
                                .shape = shape,
                                .data = c->tensor,
                                .nbytes = c->tensor_n};
    const struct as_oip_request r = {
        .head = {.model = as_str_of(model), .outputs = &x, .n_outputs = 1}};
    size_t n = as_oip_request_head_len(&r);

    AS_ASSERT(AS_GRPC_PREFIX + n + AS_OIP_RAW_HEAD_MAX <= sizeof(c->head));
    as_oip_put_request_head(c->head + AS_GRPC_PREFIX, &r);
    n += as_oip_put_request_raw_head(c->head + AS_GRPC_PREFIX + n, c->tensor_n);
    c->head_n = AS_GRPC_PREFIX + n;
    if (c->kind == CHURN_MALFORMED)
        c->head[AS_GRPC_PREFIX] = 0x0f; /* a wire type that there is not */
    as_grpc_prefix(c->head, c->kind == CHURN_TOO_LARGE ? 0x7fffffff : (uint32_t)(n + c->tensor_n));
}

static enum churn_kind draw_kind(struct as_rand *r)
{
    uint32_t dice = (uint32_t)as_rand_below(r, 1000);

    for (uint32_t k = 0; k < CHURN_KINDS; k++) {
        if (dice < shares[k])
            return (enum churn_kind)k;
        dice -= shares[k];
    }
    return CHURN_ECHO;
}

/* When the client loses patience: before the message is whole, or some time after. */
static void draw_cancel(struct churn_call *c, struct as_rand *r)
{
    static const char *const targets[] = {"echo", "echo_loop", "sleep", "watch"};

    size_t i = as_rand_below(r, AS_COUNT(targets));

    c->cancel_after = 1 + as_rand_below(r, as_rand_below(r, 4) ? 200 * AS_US : 5 * AS_MS);
    if (as_rand_below(r, 4) == 0)
        c->stall_at = as_rand_below(r, c->head_n + c->tensor_n + 1);
    else
        put_message(c, targets[i]);
    c->is_echo = i < 2;
}

void churn_call_draw(struct churn_call *c, struct as_rand *r, int only)
{
    *c = (struct churn_call){.status = -1, .stall_at = SIZE_MAX};
    c->kind = only >= 0 ? (enum churn_kind)only : draw_kind(r);
    c->path = c->kind == CHURN_NO_METHOD ? "/inference.GRPCInferenceService/ModelGuess"
                                         : "/inference.GRPCInferenceService/ModelInfer";
    c->tensor_n = draw_size(r);
    c->tensor = pattern + as_rand_below(r, CHURN_PATTERN - CHURN_BODY_MAX);
    put_message(c, models[c->kind]);
    c->is_echo = c->kind == CHURN_ECHO || c->kind == CHURN_ECHO_LOOP || c->kind == CHURN_FLAKY;
    if (c->kind == CHURN_FLAKY)
        c->timeout = "30m";
    if (c->kind == CHURN_LATE)
        c->timeout = "8m";
    if (c->kind == CHURN_CANCEL)
        draw_cancel(c, r);
}

size_t churn_call_send(struct churn_call *c, uint8_t *to, size_t n, bool *ret_is_end)
{
    size_t all = c->head_n + c->tensor_n, may = AS_MIN(all, c->stall_at), k = 0;

    if (c->sent < c->head_n && c->sent < may) {
        k = AS_MIN(AS_MIN(n, may - c->sent), c->head_n - c->sent);
        memcpy(to, c->head + c->sent, k);
        c->sent += k;
    }
    if (c->sent >= c->head_n && c->sent < may && k < n) {
        size_t m = AS_MIN(n - k, may - c->sent);

        memcpy(to + k, c->tensor + (c->sent - c->head_n), m);
        c->sent += m;
        k += m;
    }
    *ret_is_end = c->sent == all;
    return k;
}

/* --- the answer --- */

void churn_call_take(struct churn_call *c, const uint8_t *p, size_t n)
{
    uint64_t end, tensor;

    while (n && c->got < 5) {
        c->prefix[c->got++] = *p++;
        n--;
        if (c->got == 5)
            c->announced = (uint64_t)c->prefix[1] << 24 | (uint64_t)c->prefix[2] << 16 |
                           (uint64_t)c->prefix[3] << 8 | c->prefix[4];
    }
    if (!n || !c->is_echo) {
        c->got += n;
        return;
    }
    end = 5 + c->announced; /* the tensor's bytes are the last of the message */
    tensor = end - AS_MIN((uint64_t)c->tensor_n, c->announced);
    if (c->got + n > end)
        c->is_wrong = true;
    for (uint64_t at = AS_MAX(c->got, tensor); !c->is_wrong && at < c->got + n; at = c->got + n)
        c->is_wrong = memcmp(p + (at - c->got), c->tensor + (at - tensor), c->got + n - at) != 0;
    c->got += n;
}

const char *churn_call_judge(const struct churn_call *c)
{
    if (c->kind == CHURN_CANCEL)
        return c->is_wrong ? "wrong bytes" : NULL;
    if (c->kind == CHURN_FLAKY && (c->status == 4 || c->status == 13 || c->status == 14))
        return c->got ? "an error with an answer" : NULL;
    if (c->status != expected[c->kind])
        return "another status";
    if (c->status == 0 && (c->got < 5 || c->got != 5 + c->announced || c->announced < c->tensor_n))
        return "an answer of another length";
    return c->is_wrong ? "wrong bytes" : NULL;
}
