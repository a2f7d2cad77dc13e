#include "conf/spec/spec_tree.h"

#include "base/utf8.h"

#include <math.h>
#include <yaml.h>

#define SHOWN 40u /* bytes of a scalar in a message */

void as_spec_error(struct as_spec_errors *e, uint32_t line, uint32_t column, const char *fmt, ...)
{
    size_t from;
    va_list ap;

    if (e->n++ >= e->max)
        return;
    from = e->out->n;
    as_buf_printf(e->out, "%s:", e->name);
    if (line)
        as_buf_printf(e->out, "%u:%u:", line, column);
    as_buf_str(e->out, " ");
    va_start(ap, fmt);
    as_buf_vprintf(e->out, fmt, ap);
    va_end(ap);
    /* keys and values of the file are shown unchanged, but an error must stay one line */
    for (size_t i = from; i < e->out->n; i++) {
        if (e->out->p[i] < ' ' || e->out->p[i] == 0x7f)
            e->out->p[i] = '?';
    }
    as_buf_str(e->out, "\n");
}

int as_spec_errors_end(struct as_spec_errors *e)
{
    if (e->n > e->max)
        as_buf_printf(e->out, "%s: and %u more\n", e->name, e->n - e->max);
    return e->n ? AS_EINVALID : 0;
}

struct as_str as_spec_excerpt(struct as_str s)
{
    return as_utf8_cut(s, SHOWN);
}

/* --- building --- */

struct builder {
    struct as_arena *a;
    struct as_spec_errors *e;
    uint32_t depth, max_depth;
    struct level {
        struct as_spec_node *node, *last; /* the open list or mapping, its last member */
        struct as_spec_node key;          /* of the member that comes next: text and place */
        bool has_key;
    } * levels;
};

static void *alloc_zeroed(struct as_arena *a, size_t n)
{
    /* the text, and so the tree, is bounded: the process needs this memory */
    return memset(as_arena_xalloc(a, n), 0, n);
}

static uint32_t line_of(const yaml_mark_t *m)
{
    return (uint32_t)m->line + 1;
}

static uint32_t column_of(const yaml_mark_t *m)
{
    return (uint32_t)m->column + 1;
}

static int compare_keys(const void *x, const void *y)
{
    const struct as_spec_node *const *a = x, *const *b = y;
    size_t n = AS_MIN((*a)->key.n, (*b)->key.n);
    int c = n ? memcmp((*a)->key.p, (*b)->key.p, n) : 0;

    if (c == 0 && (*a)->key.n != (*b)->key.n)
        c = (*a)->key.n < (*b)->key.n ? -1 : 1;
    if (c == 0) /* equal keys in the order of the text */
        c = (*a)->key_line != (*b)->key_line ? ((*a)->key_line < (*b)->key_line ? -1 : 1)
                                             : ((*a)->key_column < (*b)->key_column ? -1 : 1);
    return c;
}

const struct as_spec_node **as_spec_members(const struct as_spec_node *n)
{
    const struct as_spec_node **all = as_xalloc(n->n * sizeof(const struct as_spec_node *));
    uint32_t i = 0;

    for (const struct as_spec_node *k = n->first; k; k = k->next)
        all[i++] = k;
    if (n->type == AS_SPEC_NODE_MAP)
        qsort(all, n->n, sizeof(const struct as_spec_node *), compare_keys);
    return all;
}

/* Sorts the keys: a mapping may be as long as the text, too long to compare all pairs. */
static void refuse_duplicate_keys(struct builder *b, const struct as_spec_node *map)
{
    const struct as_spec_node **all = as_spec_members(map);

    for (uint32_t i = 1; i < map->n; i++) {
        if (as_str_eq(all[i]->key, all[i - 1]->key))
            as_spec_error(b->e, all[i]->key_line, all[i]->key_column,
                          "%.*s: duplicate key; the first one is in line %u",
                          AS_STR_FMT(as_spec_excerpt(all[i]->key)), all[i - 1]->key_line);
    }
    free(all);
}

static void attach_member(struct builder *b, struct as_spec_node *n)
{
    struct level *l = &b->levels[b->depth - 1];

    if (l->node->type == AS_SPEC_NODE_MAP) {
        n->key = l->key.text;
        n->key_line = l->key.line;
        n->key_column = l->key.column;
        l->has_key = false;
    }
    if (l->last)
        l->last->next = n;
    else
        l->node->first = n;
    l->last = n;
    l->node->n++;
}

static struct as_str copy_text(struct as_arena *a, const yaml_char_t *p, size_t n)
{
    char *text = alloc_zeroed(a, n + 1);

    memcpy(text, p, n);
    return (struct as_str){text, n};
}

/* False: an error was reported. */
static bool refuse_extras(struct builder *b, const yaml_event_t *ev, const yaml_char_t *anchor,
                          const yaml_char_t *tag)
{
    uint32_t line = line_of(&ev->start_mark), column = column_of(&ev->start_mark);

    if (anchor)
        as_spec_error(b->e, line, column, "anchors (&) and aliases (*) are not supported");
    else if (tag)
        as_spec_error(b->e, line, column,
                      "tags (!) are not supported; write a number in quotes to make it a text");
    return !anchor && !tag;
}

static struct as_spec_node *new_node(struct builder *b, const yaml_event_t *ev,
                                     enum as_spec_node_type type)
{
    struct as_spec_node *n = alloc_zeroed(b->a, sizeof(*n));

    n->type = type;
    n->line = line_of(&ev->start_mark);
    n->column = column_of(&ev->start_mark);
    return n;
}

static bool on_scalar(struct builder *b, const yaml_event_t *ev, struct as_spec_node **root)
{
    struct level *l = b->depth ? &b->levels[b->depth - 1] : NULL;
    struct as_spec_node *n;

    if (!refuse_extras(b, ev, ev->data.scalar.anchor, ev->data.scalar.tag))
        return false;
    n = new_node(b, ev, AS_SPEC_NODE_SCALAR);
    n->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    n->text = copy_text(b->a, ev->data.scalar.value, ev->data.scalar.length);
    if (!l)
        *root = n;
    else if (l->node->type == AS_SPEC_NODE_MAP && !l->has_key) {
        l->key = *n;
        l->has_key = true;
    } else
        attach_member(b, n);
    return true;
}

static bool on_collection_start(struct builder *b, const yaml_event_t *ev,
                                struct as_spec_node **root)
{
    bool map = ev->type == YAML_MAPPING_START_EVENT;
    struct level *l = b->depth ? &b->levels[b->depth - 1] : NULL;
    struct as_spec_node *n;

    if (!refuse_extras(b, ev, map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor,
                       map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag))
        return false;
    n = new_node(b, ev, map ? AS_SPEC_NODE_MAP : AS_SPEC_NODE_LIST);
    if (l && l->node->type == AS_SPEC_NODE_MAP && !l->has_key) {
        as_spec_error(b->e, n->line, n->column, "a key must be a text, not %s",
                      map ? "a mapping" : "a list");
        return false;
    }
    if (b->depth == b->max_depth) {
        as_spec_error(b->e, n->line, n->column, "nested deeper than %u levels (--max-spec-depth)",
                      b->max_depth);
        return false;
    }
    if (l)
        attach_member(b, n);
    else
        *root = n;
    b->levels[b->depth++] = (struct level){.node = n};
    return true;
}

/* False: stop, after an error. */
static bool on_event(struct builder *b, const yaml_event_t *ev, struct as_spec_node **root)
{
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(b, ev, root);
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        return on_collection_start(b, ev, root);
    case YAML_MAPPING_END_EVENT:
        AS_ASSERT(b->depth > 0); /* libyaml pairs them */
        refuse_duplicate_keys(b, b->levels[b->depth - 1].node);
        b->depth--;
        return true;
    case YAML_SEQUENCE_END_EVENT:
        AS_ASSERT(b->depth > 0);
        b->depth--;
        return true;
    case YAML_ALIAS_EVENT:
        as_spec_error(b->e, line_of(&ev->start_mark), column_of(&ev->start_mark),
                      "anchors (&) and aliases (*) are not supported");
        return false;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return true;
}

/* The UTF-16 unit of the escape \uXXXX at p, which has at least 6 bytes; UINT32_MAX: no escape. */
static uint32_t escape_at(const char *p)
{
    uint32_t v = 0;

    if (p[0] != '\\' || p[1] != 'u')
        return UINT32_MAX;
    for (int i = 2; i < 6; i++) {
        char c = p[i], low = (char)(c | 0x20);

        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            v = v << 4 | (uint32_t)(low - 'a' + 10);
        else
            return UINT32_MAX;
    }
    return v;
}

/* JSON writes a character above U+FFFF as two escapes, which YAML does not support: turns
 * \ud83d\ude00 into \U0001f600. Only in a text that starts like a JSON object. */
static struct as_str join_surrogates(struct as_arena *a, struct as_str text)
{
    size_t from = 0, n = 0;
    uint32_t hi, lo;
    char *out;

    while (from < text.n && strchr(" \t\r\n", text.p[from]) && text.p[from])
        from++;
    if (from == text.n || text.p[from] != '{' || !memmem(text.p, text.n, "\\u", 2))
        return text;
    out = alloc_zeroed(a, text.n); /* it only becomes shorter */
    memcpy(out, text.p, text.n);
    for (size_t i = 0; i < text.n;) {
        if (out[i] != '\\') {
            out[n++] = out[i++];
        } else if (text.n - i >= 12 && (hi = escape_at(out + i)) >> 10 == 0xd800 >> 10 &&
                   (lo = escape_at(out + i + 6)) >> 10 == 0xdc00 >> 10) {
            uint32_t c = 0x10000 + ((hi & 0x3ff) << 10) + (lo & 0x3ff);
            char escape[11];

            snprintf(escape, sizeof(escape), "\\U%08x", c);
            memcpy(out + n, escape, 10);
            n += 10;
            i += 12;
        } else {
            out[n++] = out[i++];
            if (i < text.n)
                out[n++] = out[i++]; /* the escaped character: after \\ no escape starts */
        }
    }
    return (struct as_str){out, n};
}

/* Is there a tab in front of the line's first word? *ret_column: where, counted from 0. */
static bool is_tab_indented(struct as_str text, size_t line, size_t *ret_column)
{
    size_t at = 0;

    for (; line > 0; line--) {
        const char *nl = memchr(text.p + at, '\n', text.n - at);

        if (!nl)
            return false;
        at = (size_t)(nl + 1 - text.p);
    }
    for (*ret_column = 0; at < text.n && text.p[at] == ' '; at++)
        ++*ret_column;
    return at < text.n && text.p[at] == '\t';
}

/* libyaml does not name a tab as the cause: its error is in the tab's line or in the next one. */
static bool report_tab(struct as_spec_errors *e, const yaml_mark_t *m, struct as_str text)
{
    size_t column;

    for (size_t line = m->line + 1; line > 0 && line + 1 > m->line; line--) {
        if (!is_tab_indented(text, line - 1, &column))
            continue;
        as_spec_error(e, (uint32_t)line, (uint32_t)column + 1,
                      "this line is indented by a tab; YAML permits only spaces");
        return true;
    }
    return false;
}

static void report_syntax(struct as_spec_errors *e, const yaml_parser_t *p, struct as_str text)
{
    const yaml_mark_t *m = &p->problem_mark;

    if (p->error == YAML_READER_ERROR)
        as_spec_error(e, 0, 0, "not UTF-8 text: %s at byte %zu", p->problem, p->problem_offset);
    else if (p->error == YAML_MEMORY_ERROR)
        as_fatal_memory(0);
    else if (!report_tab(e, m, text))
        as_spec_error(e, line_of(m), column_of(m), "not YAML: %s%s%s", p->problem,
                      p->context ? " " : "", p->context ? p->context : "");
}

struct as_spec_node *as_spec_tree(struct as_arena *a, struct as_str text, uint32_t depth,
                                  struct as_spec_errors *e)
{
    struct builder b = {.a = a, .e = e, .max_depth = depth};
    struct as_spec_node *root = NULL;
    uint32_t documents = 0;
    bool more = true;
    yaml_parser_t p;

    if (!yaml_parser_initialize(&p))
        as_fatal_memory(sizeof(p));
    text = join_surrogates(a, text);
    b.levels = as_xalloc(depth * sizeof(*b.levels));
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)text.p, text.n);
    while (more) {
        yaml_event_t ev;

        if (!yaml_parser_parse(&p, &ev)) {
            report_syntax(e, &p, text);
            root = NULL;
            break;
        }
        if (ev.type == YAML_DOCUMENT_START_EVENT && ++documents == 2) {
            as_spec_error(e, line_of(&ev.start_mark), column_of(&ev.start_mark),
                          "a second document starts here; a file must have only one");
            more = false;
        } else if (ev.type == YAML_STREAM_END_EVENT) {
            if (!root) { /* only comments: the same as an empty value */
                root = new_node(&b, &ev, AS_SPEC_NODE_SCALAR);
                root->plain = true;
            }
            yaml_event_delete(&ev);
            break;
        } else {
            more = on_event(&b, &ev, &root);
        }
        yaml_event_delete(&ev);
    }
    yaml_parser_delete(&p);
    free(b.levels);
    return more ? root : NULL;
}

/* --- scalars --- */

static bool any_of(struct as_str s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (as_str_eq(s, as_str_of(words[i])))
            return true;
    }
    return false;
}

static size_t span(struct as_str s, size_t from, const char *set)
{
    size_t n = 0;

    while (from + n < s.n && s.p[from + n] && strchr(set, s.p[from + n]))
        n++;
    return n;
}

#define DIGITS "0123456789"

static bool is_whole(struct as_str s)
{
    size_t sign = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0;

    if (s.n > 2 && s.p[0] == '0' && s.p[1] == 'o')
        return span(s, 2, "01234567") == s.n - 2;
    if (s.n > 2 && s.p[0] == '0' && s.p[1] == 'x')
        return span(s, 2, DIGITS "abcdefABCDEF") == s.n - 2;
    return s.n > sign && span(s, sign, DIGITS) == s.n - sign;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?   (YAML 1.2.2, 10.3.2) */
static bool is_real(struct as_str s)
{
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+') ? 1 : 0, before = span(s, i, DIGITS),
           after = 0;

    i += before;
    if (i < s.n && s.p[i] == '.') {
        after = span(s, i + 1, DIGITS);
        i += 1 + after;
    }
    if (before + after == 0)
        return false;
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
            i++;
        after = span(s, i, DIGITS);
        if (after == 0)
            return false;
        i += after;
    }
    return i == s.n;
}

enum as_spec_scalar as_spec_scalar(const struct as_spec_node *n)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE"};

    if (!n->plain)
        return AS_SPEC_WORD;
    if (any_of(n->text, nulls, AS_COUNT(nulls)))
        return AS_SPEC_NULL;
    if (any_of(n->text, bools, AS_COUNT(bools)))
        return AS_SPEC_WORD_BOOL;
    return is_whole(n->text) ? AS_SPEC_WHOLE : is_real(n->text) ? AS_SPEC_REAL : AS_SPEC_WORD;
}

bool as_spec_scalar_bool(const struct as_spec_node *n)
{
    return n->text.p[0] == 't' || n->text.p[0] == 'T';
}

int as_spec_scalar_i64(const struct as_spec_node *n, int64_t *ret_v)
{
    struct as_str s = n->text;
    bool negative = s.p[0] == '-', prefixed = s.n > 2 && (s.p[1] == 'o' || s.p[1] == 'x');
    int64_t base = prefixed ? (s.p[1] == 'o' ? 8 : 16) : 10, v = 0;

    for (size_t i = prefixed ? 2 : s.p[0] == '-' || s.p[0] == '+' ? 1 : 0; i < s.n; i++) {
        int64_t digit = s.p[i] <= '9' ? s.p[i] - '0' : (s.p[i] | 0x20) - 'a' + 10;

        if (__builtin_mul_overflow(v, base, &v) ||
            __builtin_sub_overflow(v, digit, &v)) /* negative, since -INT64_MIN does not fit */
            return AS_EINVALID;
    }
    if (!negative && __builtin_sub_overflow(0, v, &v))
        return AS_EINVALID;
    *ret_v = v;
    return 0;
}

double as_spec_scalar_f64(const struct as_spec_node *n)
{
    int64_t i;

    if (n->text.n > 2 && n->text.p[1] == 'o')
        return as_spec_scalar_i64(n, &i) == 0 ? (double)i : HUGE_VAL;
    return strtod(n->text.p, NULL); /* the copy has a NUL at its end; strtod also reads 0x */
}

void as_spec_node_describe(const struct as_spec_node *n, struct as_buf *out)
{
    if (n->type == AS_SPEC_NODE_LIST)
        as_buf_str(out, "a list");
    else if (n->type == AS_SPEC_NODE_MAP)
        as_buf_str(out, "a mapping");
    else if (as_spec_scalar(n) == AS_SPEC_NULL)
        as_buf_str(out, "nothing");
    else {
        struct as_str shown = as_spec_excerpt(n->text);

        as_buf_printf(out, "%s'%.*s%s'", n->plain ? "" : "the text ", AS_STR_FMT(shown),
                      shown.n < n->text.n ? "…" : "");
    }
}
