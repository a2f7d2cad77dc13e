/* ctl/state/failpoint.h — points at which the controller dies or hangs, for tests of what the next one
 * makes of it.
 *
 * Only where the build says so (meson -Dfailpoints=true; never in a release build): elsewhere these
 * are nothing. $ANYSERVE_FAILPOINT names a file. When it holds "POINT:COUNT", the process that
 * comes to that point for the COUNTth time since it saw the file removes it and kills itself, as
 * SIGKILL from outside would; or stops itself (SIGSTOP) when that is "POINT:COUNT:stop". A file,
 * not the variable alone: a test says when, and the next controller lives. Points: "say-TYPE" and
 * "said-TYPE", before and after a message of ctl/message/message.h goes out; "hear-TYPE" and "heard-TYPE",
 * around one that came in; "store" and "stored", around a commit. Thread: one.
 */
#ifndef AS_CTL_FAILPOINT_H
#define AS_CTL_FAILPOINT_H

#include "base/buf.h"
#include "ctl/message/message.h"

#ifdef AS_FAILPOINTS
void as_failpoint(const char *point);
void as_failpoint_at(const char *when, enum as_ctl_type type); /* "WHEN-TYPE" */
void as_failpoint_list(struct as_buf *b);                      /* all of them, one a line */
#else
static inline void as_failpoint(const char *point AS_UNUSED)
{
}

static inline void as_failpoint_at(const char *when AS_UNUSED, enum as_ctl_type type AS_UNUSED)
{
}
#endif

#endif
