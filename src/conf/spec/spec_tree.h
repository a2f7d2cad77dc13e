/* conf/spec/spec_tree.h — parses a YAML text into a tree of nodes that have their line and column.
 *
 * The text is one document of YAML in block or flow form, so JSON, too. Not supported, and reported
 * as errors: anchors and aliases (a small text could expand to a huge one), tags, keys that are not
 * scalars, duplicate keys. A scalar keeps its text; as_spec_scalar resolves its type by the core
 * schema of YAML 1.2 (`no` is a word, `true` a boolean). Pure.
 */
#ifndef AS_CONF_SPEC_TREE_H
#define AS_CONF_SPEC_TREE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/memory/arena.h"

/* Collects errors as lines "NAME:LINE:COLUMN: text\n". */
struct as_spec_errors {
    struct as_buf *out;
    const char *name;
    uint32_t n, max; /* errors so far; how many of them are written to `out` */
};
/* line 0: the error has no place. The text has no newline at its end. */
void as_spec_error(struct as_spec_errors *e, uint32_t line, uint32_t column, const char *fmt, ...)
    AS_PRINTF(4, 5);
/* Adds a line with the number of errors that were not written, if any. 0: there was no error; else
 * AS_EINVALID. */
int as_spec_errors_end(struct as_spec_errors *e);

enum as_spec_node_type { AS_SPEC_NODE_SCALAR, AS_SPEC_NODE_LIST, AS_SPEC_NODE_MAP };

struct as_spec_node {
    enum as_spec_node_type type;
    bool plain;            /* a scalar without quotes */
    uint32_t line, column; /* from 1 */
    struct as_str text;    /* of a scalar */
    struct as_str key;     /* of this member of a mapping */
    uint32_t key_line, key_column;
    uint32_t n;                        /* of a list or mapping */
    struct as_spec_node *first, *next; /* its first member; the next member of its parent */
};

/* The tree is in the arena. An empty document is a plain empty scalar. `depth`: the most levels of
 * nested lists and mappings. NULL: there was an error. Errors are reported to `e`, some of them
 * beside a tree. */
struct as_spec_node *as_spec_tree(struct as_arena *a, struct as_str text, uint32_t depth,
                                  struct as_spec_errors *e);

/* The members of a list or mapping; of a mapping sorted by key, equal keys in the order of the
 * text. The caller frees the array. */
const struct as_spec_node **as_spec_members(const struct as_spec_node *n);

enum as_spec_scalar { AS_SPEC_NULL, AS_SPEC_WORD_BOOL, AS_SPEC_WHOLE, AS_SPEC_REAL, AS_SPEC_WORD };

/* The type of a scalar. Whole: decimal, 0o17, 0xff; real: with fraction or exponent. .inf and .nan
 * are words here, since no key accepts them. */
enum as_spec_scalar as_spec_scalar(const struct as_spec_node *n);
/* The value of a boolean; of a whole number (AS_EINVALID: it does not fit); of any number. */
bool as_spec_scalar_bool(const struct as_spec_node *n);
int as_spec_scalar_i64(const struct as_spec_node *n, int64_t *ret_v);
double as_spec_scalar_f64(const struct as_spec_node *n);

/* The first bytes of a text of the file, for an error text. */
struct as_str as_spec_excerpt(struct as_str s);
/* Appends "a list", "'abc'" or, for a scalar in quotes, "the text '5'", for an error text. */
void as_spec_node_describe(const struct as_spec_node *n, struct as_buf *out);

#endif
