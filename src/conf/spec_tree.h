/* conf/spec_tree.h — a YAML text as a tree of nodes that know where they stand.
 *
 * One document of YAML in block or flow form, so JSON too. Left out on purpose: anchors and aliases
 * (a small text could mean a huge one), tags, keys that are no scalars, two equal keys. Scalars are
 * told as written; what a plain one means is resolved by YAML 1.2's core schema (`no` is a word,
 * `true` is not), as the reader of the value asks. Pure.
 */
#ifndef AS_CONF_SPEC_TREE_H
#define AS_CONF_SPEC_TREE_H

#include "base/memory/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* Collects what is wrong, as lines "NAME:LINE:COLUMN: text\n". */
struct as_spec_errors {
    struct as_buf *out;
    const char *name;
    uint32_t n, max; /* told and not told; how many are told */
};
/* line 0: no place. The text has no newline. */
void as_spec_error(struct as_spec_errors *e, uint32_t line, uint32_t column, const char *fmt, ...)
    AS_PRINTF(4, 5);
/* Says how many were left out, if any. 0 when there was none, else AS_EINVALID. */
int as_spec_errors_end(struct as_spec_errors *e);

enum as_spec_node_type { AS_SPEC_NODE_SCALAR, AS_SPEC_NODE_LIST, AS_SPEC_NODE_MAP };

struct as_spec_node {
    enum as_spec_node_type type;
    bool plain;            /* a scalar without quotes */
    uint32_t line, column; /* from 1 */
    struct as_str text;    /* of a scalar */
    struct as_str key;     /* in a mapping: of this member */
    uint32_t key_line, key_column;
    uint32_t n;                        /* of a list or mapping */
    struct as_spec_node *first, *next; /* its members in order; the next of the same parent */
};

/* All memory is of the arena. An empty document is a plain empty scalar. `depth`: of lists and
 * mappings inside each other. NULL: what is wrong was told to `e`; it may also have been told
 * beside a tree. */
struct as_spec_node *as_spec_tree(struct as_arena *a, struct as_str text, uint32_t depth,
                                  struct as_spec_errors *e);

enum as_spec_scalar { AS_SPEC_NULL, AS_SPEC_WORD_BOOL, AS_SPEC_WHOLE, AS_SPEC_REAL, AS_SPEC_WORD };

/* What a scalar is. Whole: decimal, 0o17, 0xff; real: with fraction or exponent; not .inf or .nan,
 * which are words here (no key of ours takes them). */
enum as_spec_scalar as_spec_scalar(const struct as_spec_node *n);
/* The value of a BOOL; of a whole number that fits (else AS_EINVALID); of any number. */
bool as_spec_scalar_bool(const struct as_spec_node *n);
int as_spec_scalar_i64(const struct as_spec_node *n, int64_t *ret_v);
double as_spec_scalar_f64(const struct as_spec_node *n);

/* The first bytes of a text of the file: what a message shows of it. */
struct as_str as_spec_excerpt(struct as_str s);
/* "a list", "'abc'", "the text '5'" (it was in quotes): for messages. */
void as_spec_node_describe(const struct as_spec_node *n, struct as_buf *out);

#endif
