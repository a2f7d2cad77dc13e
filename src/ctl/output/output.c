#include "ctl/output/output.h"

/* replaces the end of a line that was cut */
#define CUT_MARK " [cut]"

enum stack_state { NO_STACK, FATAL, CURRENT_THREAD };

void as_output_init(struct as_output *o, void (*line)(void *ctx, struct as_str line), void *ctx)
{
    o->on_line = line;
    o->ctx = ctx;
    o->n = 0;
    o->cut = o->returned = false;
    o->lines = 0;
    o->crash_n = 0;
    o->stack_state = NO_STACK;
}

static bool starts_with(struct as_str s, struct as_str head)
{
    return s.n >= head.n && memcmp(s.p, head.p, head.n) == 0;
}

/* faulthandler prints "Fatal Python error: …", then a stack for each thread. The thread that
 * crashed is called the current one, and the first line of its stack is the innermost frame. */
static void parse_python_stack(struct as_output *o)
{
    struct as_str line = {o->text, o->n};
    enum stack_state was = o->stack_state;

    if (starts_with(line, AS_STR("Fatal Python error: "))) {
        o->stack_state = FATAL;
        o->crash_n = 0;
    } else if (was == FATAL && starts_with(line, AS_STR("Current thread 0x"))) {
        o->stack_state = CURRENT_THREAD;
    } else if (was == CURRENT_THREAD) {
        o->stack_state = NO_STACK;
        if (!starts_with(line, AS_STR("  File \"")))
            return; /* a thread that runs no Python */
        o->crash_n = (uint16_t)AS_MIN(line.n - 2, (size_t)AS_OUTPUT_TAIL_LINE_MAX);
        memcpy(o->crash, line.p + 2, o->crash_n);
    }
}

static void end_line(struct as_output *o)
{
    uint32_t slot = o->lines++ % AS_OUTPUT_TAIL_LINES;
    size_t keep = AS_MIN(o->n, (size_t)AS_OUTPUT_TAIL_LINE_MAX);

    if (o->cut)
        memcpy(o->text + AS_OUTPUT_LINE_MAX - (sizeof(CUT_MARK) - 1), CUT_MARK,
               sizeof(CUT_MARK) - 1);
    parse_python_stack(o);
    /* before the callback, which may ask for the tail */
    memcpy(o->tail[slot], o->text, keep);
    o->tail_n[slot] = (uint16_t)keep;
    o->on_line(o->ctx, (struct as_str){o->text, o->n});
    o->n = 0;
    o->cut = o->returned = false;
}

void as_output_feed(struct as_output *o, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n') {
            end_line(o);
            /* the next byte decides: "\r\n" ends a line as "\n" does */
        } else if (p[i] == '\r') {
            o->returned = true;
        } else {
            if (o->returned) {
                o->n = 0;
                o->cut = o->returned = false;
            }
            if (o->n < AS_OUTPUT_LINE_MAX)
                o->text[o->n++] = p[i];
            else
                o->cut = true;
        }
    }
}

/* A process that dies in the middle of a line often says there why. */
void as_output_end(struct as_output *o)
{
    if (o->n > 0)
        end_line(o);
}

static struct as_str tail_line(const struct as_output *o, uint32_t line)
{
    uint32_t slot = line % AS_OUTPUT_TAIL_LINES;

    return (struct as_str){o->tail[slot], o->tail_n[slot]};
}

static uint32_t first_tail_line(const struct as_output *o)
{
    return o->lines > AS_OUTPUT_TAIL_LINES ? o->lines - AS_OUTPUT_TAIL_LINES : 0;
}

void as_output_tail(const struct as_output *o, struct as_buf *b)
{
    for (uint32_t i = first_tail_line(o); i < o->lines; i++) {
        struct as_str s = tail_line(o, i);

        as_buf_add(b, s.p, s.n);
        as_buf_str(b, "\n");
    }
}

static bool is_blank(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != ' ' && s.p[i] != '\t')
            return false;
    }
    return true;
}

struct as_str as_output_last(const struct as_output *o)
{
    for (uint32_t i = o->lines; i > first_tail_line(o); i--) {
        struct as_str s = tail_line(o, i - 1);

        if (!is_blank(s))
            return s;
    }
    return (struct as_str){NULL, 0};
}

struct as_str as_output_crash(const struct as_output *o)
{
    return (struct as_str){o->crash, o->crash_n};
}

/* Removes the first line from `text` and returns it. */
static struct as_str cut_first_line(struct as_str *text)
{
    const char *nl = memchr(text->p, '\n', text->n);
    struct as_str line = {text->p, nl ? (size_t)(nl - text->p) : text->n};
    size_t n = line.n + (nl ? 1 : 0);

    *text = (struct as_str){text->p + n, text->n - n};
    return line;
}

void as_output_split_report(struct as_str text, struct as_str *ret_why, struct as_str *ret_last)
{
    *ret_last = (struct as_str){NULL, 0};
    *ret_why = text.n ? cut_first_line(&text) : text;
    while (text.n) {
        struct as_str line = cut_first_line(&text);

        if (!is_blank(line))
            *ret_last = line;
    }
}

As__Output *as_output_save(const struct as_output *o)
{
    As__Output *m = as_reexec_new(&as__output__descriptor);

    m->line = as_reexec_bytes((struct as_str){o->text, o->n});
    m->cut = o->cut;
    m->returned = o->returned;
    for (uint32_t i = first_tail_line(o); i < o->lines; i++)
        AS_REEXEC_APPEND(m, tail, as_reexec_bytes(tail_line(o, i)));
    return m;
}

void as_output_restore(struct as_output *o, const As__Output *m)
{
    if (!m)
        return;
    o->n = AS_MIN(m->line.len, (size_t)AS_OUTPUT_LINE_MAX);
    if (o->n)
        memcpy(o->text, m->line.data, o->n);
    o->cut = m->cut;
    o->returned = m->returned;
    o->lines = (uint32_t)AS_MIN(m->n_tail, (size_t)AS_OUTPUT_TAIL_LINES);
    for (uint32_t i = 0; i < o->lines; i++) {
        struct as_str line = as_reexec_str(m->tail[m->n_tail - o->lines + i]);

        o->tail_n[i] = (uint16_t)AS_MIN(line.n, (size_t)AS_OUTPUT_TAIL_LINE_MAX);
        if (line.n)
            memcpy(o->tail[i], line.p, o->tail_n[i]);
    }
}
