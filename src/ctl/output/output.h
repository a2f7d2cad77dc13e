/* ctl/output/output.h — cuts the output of a process into lines, and keeps the last ones.
 *
 * A line ends with a newline; a bare carriage return starts it anew, as on a terminal (progress
 * bars). Lines longer than AS_OUTPUT_LINE_MAX are cut and marked. No I/O.
 */
#ifndef AS_CTL_OUTPUT_H
#define AS_CTL_OUTPUT_H

#include "ctl/message/reexec_state.h"

#define AS_OUTPUT_LINE_MAX      16384u /* bytes of a line that are passed on */
#define AS_OUTPUT_TAIL_LINES    20u    /* lines kept for the report of its end */
#define AS_OUTPUT_TAIL_LINE_MAX 256u   /* bytes of a kept line */

struct as_output {
    /* Called with each whole line, without its newline; valid during the call. */
    void (*on_line)(void *ctx, struct as_str line);
    void *ctx;
    char text[AS_OUTPUT_LINE_MAX];
    size_t n;
    bool cut;      /* the line is longer: the rest is skipped */
    bool returned; /* the last byte was a carriage return */
    char tail[AS_OUTPUT_TAIL_LINES][AS_OUTPUT_TAIL_LINE_MAX];
    uint16_t tail_n[AS_OUTPUT_TAIL_LINES];
    char crash[AS_OUTPUT_TAIL_LINE_MAX]; /* as_output_crash */
    uint16_t crash_n;
    uint8_t stack_state; /* an enum in output.c: how much of faulthandler's report was parsed */
    uint32_t lines;      /* so far; the newest is in tail[(lines - 1) % AS_OUTPUT_TAIL_LINES] */
};

void as_output_init(struct as_output *o, void (*line)(void *ctx, struct as_str line), void *ctx);
void as_output_feed(struct as_output *o, const char *p, size_t n);
/* The output ends: passes on a last line without newline */
void as_output_end(struct as_output *o);

/* For an upgrade's exec (ctl/message/reexec_state.h): keeps an incomplete line and the tail.
 * _restore: on one that was initialised. */
As__Output *as_output_save(const struct as_output *o);
void as_output_restore(struct as_output *o, const As__Output *m); /* m may be NULL */

/* Appends the kept lines, oldest first, each with a newline. */
void as_output_tail(const struct as_output *o, struct as_buf *b);
/* The newest line that is not blank, or empty. Valid until the next feed. */
struct as_str as_output_last(const struct as_output *o);
/* From the last report of Python's faulthandler: the innermost frame of the thread that crashed, as
 * `File "app.py", line 12 in crash`, or empty. Valid as long as o. */
struct as_str as_output_crash(const struct as_output *o);
/* Splits as_process_end.reason: its first line, and the last line of output in it that is not blank
 * (or empty). */
void as_output_split_report(struct as_str text, struct as_str *ret_why, struct as_str *ret_last);

#endif
