/* ctl/state/failpoint.h — points at which the controller dies or stops, for tests of how the
 * next one continues.
 *
 * Only in builds with meson -Dfailpoints=true, never in a release build; elsewhere the calls are
 * empty. $ANYSERVE_FAILPOINT names a file. When it holds "POINT:COUNT", the process that reaches
 * that point for the COUNTth time since it first saw the text removes the file and sends itself
 * SIGKILL; with "POINT:COUNT:stop", SIGSTOP. It is a file, so that a test chooses the moment, and
 * the next controller lives. Points: "say-TYPE" and "said-TYPE", before and after a message
 * (ctl/message/message.h) is sent; "hear-TYPE" and "heard-TYPE", around the handling of one;
 * "store" and "stored", around a commit. One thread.
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
