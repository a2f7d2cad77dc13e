#include "tool/simulate/trace_file.h"

#include <errno.h>

#define CHUNK (64u << 10) /* bytes of one read */

struct as_trace_file {
    FILE *file;
    char *name;
    struct as_trace *trace;
    struct as_buf text; /* what was read, from `at` on not used yet */
    size_t at;
    bool ended;
};

int as_trace_file_open(struct as_trace_file **ret_f, const char *path, struct as_buf *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    struct as_trace_file *f;

    if (!file) {
        as_buf_printf(err, "%s: %s", path, strerror(errno));
        return errno == ENOENT || errno == ENOTDIR ? AS_ENOTFOUND
               : errno == EACCES                   ? AS_EDENIED
                                                   : AS_EIO;
    }
    f = as_xalloc(sizeof(*f));
    f->file = file;
    f->name = as_str_dup(is_stdin ? AS_STR("stdin") : as_str_of(path));
    f->trace = as_trace_new(f->name);
    *ret_f = f;
    return 0;
}

const struct as_trace *as_trace_file_trace(const struct as_trace_file *f)
{
    return f->trace;
}

void as_trace_file_close(struct as_trace_file *f)
{
    if (!f)
        return;
    if (f->file != stdin)
        fclose(f->file);
    as_trace_free(f->trace);
    as_buf_fini(&f->text);
    free(f->name);
    free(f);
}

/* Reads more behind what is there. 1; 0: the end; AS_EIO. */
static int read_more(struct as_trace_file *f, struct as_buf *err)
{
    uint8_t *room;
    size_t n;

    as_buf_drop(&f->text, f->at);
    f->at = 0;
    room = as_buf_reserve(&f->text, CHUNK + AS_TRACE_PADDING);
    errno = 0;
    n = fread(room, 1, CHUNK, f->file);
    memset(room + n, 0, AS_TRACE_PADDING);
    f->text.n += n;
    f->ended = n == 0;
    if (!n && ferror(f->file)) {
        as_buf_printf(err, "%s: %s", f->name, strerror(errno));
        return AS_EIO;
    }
    return n > 0;
}

/* 1: a line; 0: the end; AS_EINVALID: it is too long; AS_EIO. */
static int next_line(struct as_trace_file *f, struct as_str *ret_line, struct as_buf *err)
{
    size_t searched = 0;
    int rc = 1;

    for (;;) {
        size_t n = f->text.n - f->at;
        const char *p = n ? (const char *)f->text.p + f->at : NULL;
        const char *end = p && n > searched ? memchr(p + searched, '\n', n - searched) : NULL;

        size_t length = end ? (size_t)(end - p) : n;

        if (length > AS_TRACE_LINE_MAX) {
            as_buf_printf(err, "%s:%llu: the line has more than %u bytes", f->name,
                          (unsigned long long)as_trace_lines(f->trace) + 1, AS_TRACE_LINE_MAX);
            return AS_EINVALID;
        }
        if (end || (f->ended && n)) {
            *ret_line = (struct as_str){p, length};
            f->at += length + (end != NULL);
            return 1;
        }
        if (f->ended)
            return 0;
        searched = n;
        rc = read_more(f, err);
        if (rc < 0)
            return rc;
    }
}

int as_trace_file_next(struct as_trace_file *f, struct as_trace_row *ret_row, struct as_buf *err)
{
    struct as_str line;
    int rc;

    do {
        rc = next_line(f, &line, err);
        if (rc == 0 && !as_trace_rows(f->trace)) {
            as_buf_printf(err, "%s: it has no requests", f->name);
            return AS_EINVALID;
        }
        if (rc <= 0)
            return rc;
        rc = as_trace_line(f->trace, line, ret_row, err);
    } while (rc == 0);
    return rc;
}
