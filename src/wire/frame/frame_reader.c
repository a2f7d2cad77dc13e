#include "wire/frame/frame_reader.h"

#include <string.h>

enum as_frame_read as_frame_reader_next(struct as_frame_reader *r, struct as_frame *ret_f)
{
    size_t k;
    int64_t n;

    /* padding, which may come with a later read than its payload */
    if (r->skip) {
        k = AS_MIN(r->skip, r->end - r->at);
        r->at += k;
        r->skip -= k;
        if (r->skip)
            return AS_FRAME_READ_MORE;
    }
    if (r->in_body) {
        k = AS_MIN(r->left, r->end - r->at);
        if (k && r->sink) {
            memcpy(r->sink, r->p + r->at, k);
            r->sink += k;
        }
        r->at += k;
        r->left -= k;
        if (r->left)
            return AS_FRAME_READ_MORE;
        r->in_body = false;
        r->skip = r->pad;
        return AS_FRAME_READ_BODY_END;
    }
    n = as_frame_peek(r->p + r->at, r->end - r->at, ret_f);
    if (n <= 0)
        return n ? AS_FRAME_READ_BAD : AS_FRAME_READ_MORE;
    if (ret_f->type == AS_FRAME_DATA && !(ret_f->flags & AS_FRAME_F_MSG)) {
        r->at += AS_FRAME_HEADER;
        r->sink = NULL;
        r->left = ret_f->n;
        r->pad = (size_t)n - AS_FRAME_HEADER - ret_f->n;
        r->in_body = true;
        return AS_FRAME_READ_BODY;
    }
    if ((size_t)n > r->end - r->at) {
        r->need = (size_t)n;
        return AS_FRAME_READ_MORE;
    }
    r->at += (size_t)n;
    r->need = 0;
    return AS_FRAME_READ_FRAME;
}
