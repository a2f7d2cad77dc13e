/* tests/sweep/page.h — what driver and shim say to each other: one shared page per server under
 * test.
 *
 * The driver writes `kind` and `at` and zeroes `seen` when a phase begins; the shim counts in
 * `seen`, and leaves a note when it made call number `at` fail. sweep.py knows this layout by
 * number.
 */
#ifndef AS_TESTS_SWEEP_PAGE_H
#define AS_TESTS_SWEEP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define SWEEP_FRAMES 24

enum sweep_kind {
    SWEEP_NOTHING,
    SWEEP_ALLOC,     /* an allocation gives NULL */
    SWEEP_CALL,      /* a system call fails with the error that is likely for it */
    SWEEP_INTERRUPT, /* a system call ends with EINTR, or EAGAIN where it does not block */
    SWEEP_SHORT,     /* a read or write of a stream moves one byte */
};

struct sweep_page {
    _Atomic uint32_t pid;  /* of the process that counts; 0: the first one of that role takes it */
    _Atomic uint32_t kind; /* what counts */
    _Atomic uint32_t at;   /* this one fails, from 1; 0: none */
    _Atomic uint32_t seen;
    _Atomic uint32_t fired;
    uint32_t error;    /* errno that it failed with */
    uint32_t n_frames; /* of who called */
    uint32_t starts;   /* processes of the role so far */
    char role[16];     /* second word of its command line, or "worker" */
    char call[32];     /* which call it was */
    uint64_t frames[SWEEP_FRAMES];
    char module[SWEEP_FRAMES][32]; /* file that the frame lies in; frames are offsets in it */
};

#endif
