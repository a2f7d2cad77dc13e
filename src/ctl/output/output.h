/* ctl/output/output.h — what a process prints, cut into lines, the last of them kept.
 *
 * A line ends with a newline; a bare carriage return starts it again, as on a terminal (progress
 * bars). Longer lines than AS_OUTPUT_LINE_MAX are cut there and marked. No I/O.
 */
#ifndef AS_CTL_OUTPUT_H
#define AS_CTL_OUTPUT_H

#include "ctl/message/reexec_state.h"

#define AS_OUTPUT_LINE_MAX      16384u /* bytes of a line that are passed on */
#define AS_OUTPUT_TAIL_LINES    20u    /* lines kept for the exit report */
#define AS_OUTPUT_TAIL_LINE_MAX 256u   /* bytes of a kept line */

struct as_output {
    /* One whole line without its end; the bytes live until it returns. */
    void (*line)(void *ctx, struct as_str line);
    void *ctx;
    char text[AS_OUTPUT_LINE_MAX];
    size_t n;
    bool cut;      /* the line is longer: the rest is skipped */
    bool returned; /* the last byte was a carriage return */
    char tail[AS_OUTPUT_TAIL_LINES][AS_OUTPUT_TAIL_LINE_MAX];
    uint16_t tail_n[AS_OUTPUT_TAIL_LINES];
    char crash[AS_OUTPUT_TAIL_LINE_MAX]; /* where a Python program has crashed: a line of its stack
                                          */
    uint16_t crash_n;
    uint8_t stack_state; /* enum in output.c: what of Python's report has come */
    uint32_t lines;      /* seen; the newest is in tail[(lines - 1) % AS_OUTPUT_TAIL_LINES] */
};

void as_output_init(struct as_output *o, void (*line)(void *ctx, struct as_str line), void *ctx);
void as_output_feed(struct as_output *o, const char *p, size_t n);
void as_output_end(struct as_output *o); /* passes on a last line without its newline */

/* Over an exec (ctl/message/reexec_state.h): a half line is not lost. _resume on one that was
 * initialised. */
void as_output_save(const struct as_output *o, struct as_reexec_writer *c);
void as_output_restore(struct as_output *o, struct as_reexec_reader *c);

/* The kept lines, oldest first, each with a newline. */
void as_output_tail(const struct as_output *o, struct as_buf *b);
/* The newest line that is not blank; empty when there is none. Lives until the next feed. */
struct as_str as_output_last(const struct as_output *o);
/* The innermost frame of the thread that crashed, of what Python's faulthandler has printed last:
 * `File "app.py", line 12 in crash`. Empty when there is none. Lives as long as o. */
struct as_str as_output_crash(const struct as_output *o);
/* The parts of a report on the end of a process (ctl/supervise/process.h): its first line, and the
 * newest line of output behind it that is not blank; empty when there is none. */
void as_output_split_report(struct as_str text, struct as_str *ret_why, struct as_str *ret_last);

#endif
