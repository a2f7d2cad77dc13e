/* edge/infer/infer_json.h — requests and answers of models as JSON text, read and written in the
 * turn that asks for it when they are small, and beside the loop (edge/exchange/offload) when they
 * are large. Thread: the loop's.
 */
#ifndef AS_EDGE_INFER_JSON_H
#define AS_EDGE_INFER_JSON_H

#include "edge/exchange/offload.h"
#include "wire/oip/oip_json.h"

enum as_infer_json_form {
    AS_FORM_JSON, /* the protocol's own, binary data behind it */
    AS_FORM_RAW,  /* one input, the whole body */
    AS_FORM_GENERATE,
};

/* Reads the body into x->infer: `json` bytes of it are text. x->model is set. `then` is called when
 * the request is good and its memory charged; else x was failed. */
void as_infer_json_read(struct as_exchange *x, enum as_infer_json_form form, size_t json,
                        void (*then)(struct as_exchange *x));

/* An answer as text. Binary outputs lie behind it, or are sent from where they are. */
struct as_infer_json_text {
    struct as_oip_response r;
    enum as_infer_json_form form;
    bool copies; /* binary outputs lie behind the JSON */
    uint8_t *p;  /* kept by `blob`, or the exchange's arena */
    size_t json; /* bytes of JSON … */
    size_t n;    /* … and of what lies behind it too */
    struct as_blob *blob;
};

/* Writes the response, whose outputs lie as edge/infer/infer.h says. `then` is called with it,
 * `blob` being x->text; or x was failed. */
void as_infer_json_write(struct as_exchange *x, const struct as_oip_response *r,
                         enum as_infer_json_form form,
                         void (*then)(struct as_exchange *x, const struct as_infer_json_text *t));

#endif
