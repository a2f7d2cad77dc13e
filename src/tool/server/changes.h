/* tool/server/changes.h — the changes that a deployment file makes, from a server's response to a
 * deploy or a dry run.
 *
 *
 * {"generation": 7, "changes": [{"application": …, "deployment": …, "step": "changed",
 *  "class": "restart", "keys": "version,env"}, …]}; a dry run has no generation. Pure.
 */
#ifndef AS_TOOL_CHANGES_H
#define AS_TOOL_CHANGES_H

#include "base/buf.h"

enum as_change_step {
    AS_CHANGE_ADDED,
    AS_CHANGE_CHANGED,
    AS_CHANGE_REMOVED,
    AS_CHANGE_UNCHANGED,
    AS_CHANGE_STEPS
};

struct as_change {
    char *application, *deployment, *cost, *keys;
    enum as_change_step step;
};

struct as_changes {
    int64_t generation; /* 0: a dry run */
    struct as_change *all;
    uint32_t n;
};

/* Parses a response. 0; AS_EPROTO: it is not such a response; AS_ENOMEM. Call as_changes_fini in
 * any case. */
int as_changes_read(struct as_changes *c, struct as_str json);
void as_changes_fini(struct as_changes *c);

uint32_t as_changes_count(const struct as_changes *c, enum as_change_step step);
/* Prints a table, and a line with the sums. */
void as_changes_print(const struct as_changes *c, struct as_buf *out);
/* Whether anything of the application changes. */
bool as_changes_affect(const struct as_changes *c, const char *application);

#endif
