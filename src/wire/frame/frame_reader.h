/* wire/frame/frame_reader.h — finds the frames in a stream of bytes, at both ends of a link.
 *
 * The owner gives the memory: a buffer for whole frames, and for each frame that continues a body a
 * place for its payload, which is then read in place. Buffer and stream offsets are equal modulo
 * 64, so that bodies inside a frame are aligned. The owner reads into the pieces of
 * as_frame_reader_iov, reports how much came, and takes what is there with as_frame_reader_next.
 * Thread: that of the link.
 */
#ifndef AS_WIRE_FRAME_READER_H
#define AS_WIRE_FRAME_READER_H

#include "wire/frame/frame.h"

#include <sys/uio.h>

struct as_frame_reader {
    uint8_t *p;     /* the buffer, 64-byte aligned, and its size: the owner's … */
    size_t cap;     /* … who may change both while at == end, or move the bytes [at, end) */
    size_t at, end; /* bytes [at, end) were not taken yet */
    size_t need;    /* size of the incomplete frame at `at`; 0: not known yet */
    size_t skip;    /* padding bytes to skip */
    uint8_t *sink;  /* where the rest of the payload goes; NULL: it is discarded */
    size_t left;    /* bytes of that payload still to come */
    size_t pad;     /* padding behind it */
    bool in_body;   /* between BODY and BODY_END */
};

enum as_frame_read {
    AS_FRAME_READ_MORE,  /* more bytes are needed */
    AS_FRAME_READ_FRAME, /* a whole frame, which lies in the buffer */
    AS_FRAME_READ_BODY,  /* the header of a DATA frame that continues a body: the owner sets `sink`
                            to memory for ret_f->n bytes, or leaves it NULL */
    AS_FRAME_READ_BODY_END, /* all of that payload is there; ret_f is not set */
    AS_FRAME_READ_BAD       /* a malformed header: the link must end */
};

enum as_frame_read as_frame_reader_next(struct as_frame_reader *r, struct as_frame *ret_f);

/* After MORE: when the buffer has no bytes left, the next one goes to an offset that equals this
 * modulo 64. */
static inline size_t as_frame_reader_offset(const struct as_frame_reader *r)
{
    size_t ahead = r->skip + (r->left ? r->pad + (r->sink ? 0 : r->left) : 0);

    return -ahead % AS_FRAME_ALIGN;
}

/* The pieces for one read, at least one of them not empty: 1 or 2. The buffer must have room. */
static inline int as_frame_reader_iov(const struct as_frame_reader *r, struct iovec iov[2])
{
    int k = 0;

    if (r->left && r->sink)
        iov[k++] = (struct iovec){r->sink, r->left};
    iov[k++] = (struct iovec){r->p + r->end, r->cap - r->end};
    return k;
}

/* n bytes were read into these pieces. */
static inline void as_frame_reader_received(struct as_frame_reader *r, size_t n)
{
    size_t direct = r->sink ? AS_MIN(r->left, n) : 0;

    r->end += n - direct;
    if (direct) {
        r->sink += direct;
        r->left -= direct;
    }
}

#endif
