/* ask.h — one random request to a model of model.py, and the verdict on what came back.
 *
 * What is asked can be told from the answer: the bytes of every row are random, so that rows of
 * somebody else, rows in another order, or outputs that were swapped do not look right. A model
 * gives back its input with the last dimension reversed, and the first element of each item; what
 * it has seen of parameters and ids it repeats.
 */
#ifndef ASK_H
#define ASK_H

#include "base/rand.h"
#include "tool/call/query.h"

#define ASK_KINDS 3u /* inputs of one kind that a theme has; requests of one kind share calls */

enum ask_fate {
    ASK_FINE,
    ASK_BAD,   /* its handler answers it, and it alone, with an error */
    ASK_FAILS, /* its handler raises: for all of the call, who have asked for the same */
    ASK_OVER,  /* more items than the model takes */
    ASK_FATES
};
extern const char *const ask_fate_names[];

/* What requests have in common for a while: few models and kinds, so that many share a call. */
struct ask_theme {
    uint32_t models[3];
    struct {
        enum as_dtype dtype;
        uint32_t ndim, width; /* of an item: its last dimension */
    } kinds[ASK_KINDS];
    bool is_wide; /* rows of many KiB */
};

struct ask_input {
    struct as_buf data;
    struct as_buf starts; /* BYTES: uint32_t, where each element begins */
    int64_t shape[3];
    uint64_t n; /* elements */
};

struct ask { /* zero-initialise; used again and again */
    enum ask_fate fate;
    uint64_t number;
    uint32_t model;
    uint32_t items;
    as_ns timeout;      /* 0: none */
    as_ns cancel_after; /* AS_NEVER: not */
    struct ask_input inputs[2];
    uint32_t n_inputs;
    struct as_tensor tensors[2];
    struct as_param params[4];
    uint32_t n_params;
    int64_t k; /* the parameter that the answer repeats; 0: none */
    char id[24], word[24];
    struct as_buf path, message; /* what is sent */
    size_t json_len;
};

void ask_draw_theme(struct ask_theme *t, struct as_rand *r);
void ask_draw(struct ask *a, const struct ask_theme *t, struct as_rand *r,
              enum as_model_call_protocol talk, uint64_t number);
void ask_fini(struct ask *a);
/* As it is sent; points into a. */
void ask_request(const struct ask *a, enum as_model_call_protocol talk,
                 struct as_model_call_request *ret_q);
/* A sentence in `why` when the answer, or the status, is none that this request can have. */
bool ask_judge(const struct ask *a, struct as_model_call *call, uint32_t status,
               struct as_buf *why);
const char *ask_model(const struct ask *a);

#endif
