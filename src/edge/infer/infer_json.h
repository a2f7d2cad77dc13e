/* edge/infer/infer_json.h — parses requests to models from JSON, and writes their responses.
 *
 * Small ones at once, large ones on the helper thread (edge/exchange/offload.h). Thread: the
 * loop's.
 */
#ifndef AS_EDGE_INFER_JSON_H
#define AS_EDGE_INFER_JSON_H

#include "edge/exchange/offload.h"
#include "wire/oip/oip_json.h"

enum as_infer_json_form {
    AS_FORM_JSON, /* the protocol's JSON, possibly with binary data behind it */
    AS_FORM_RAW,  /* the whole body is one input */
    AS_FORM_GENERATE,
};

/* Parses the body, of which `json` bytes are JSON, into x->infer. x->model must be set. Calls
 * `then` when the request is valid and its memory charged, or fails x. */
void as_infer_json_read(struct as_exchange *x, enum as_infer_json_form form, size_t json,
                        void (*then)(struct as_exchange *x));

/* A response as JSON. Binary outputs follow it, or are sent from where they lie. */
struct as_infer_json_text {
    struct as_oip_response r;
    enum as_infer_json_form form;
    bool copies; /* binary outputs were copied behind the JSON */
    uint8_t *p;  /* in `blob`, or in the arena */
    size_t json; /* bytes of JSON */
    size_t n;    /* bytes in all */
    struct as_blob *blob;
};

/* Writes the response, whose outputs lie as for as_infer_send. Calls `then` with the text, whose
 * blob is x->answer.text, or fails x. */
void as_infer_json_write(struct as_exchange *x, const struct as_oip_response *r,
                         enum as_infer_json_form form,
                         void (*then)(struct as_exchange *x, const struct as_infer_json_text *t));

/* The most bytes that the JSON of a response to q may have. 0; or an error of the response, with
 * `why`. Any thread. */
int as_infer_json_max(const struct as_oip_response *r, const struct as_oip_infer *q,
                      enum as_infer_json_form form, uint64_t *ret_max, char *why, size_t n_why);

#endif
