/* tool/server/changes.h — what a deployment file changes, as a server answers a deploy or a dry
 * run.
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

/* 0; AS_EPROTO: no such answer; AS_ENOMEM. as_changes_fini in any case. */
int as_changes_read(struct as_changes *c, struct as_str json);
void as_changes_fini(struct as_changes *c);

uint32_t as_changes_count(const struct as_changes *c, enum as_change_step step);
/* A table for people, and a line with the sums. */
void as_changes_print(const struct as_changes *c, struct as_buf *out);
/* Something of the application is not as it was. */
bool as_changes_affect(const struct as_changes *c, const char *application);

#endif
