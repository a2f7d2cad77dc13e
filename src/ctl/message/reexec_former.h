/* ctl/message/reexec_former.h — reads the state of an upgrade from the version before
 * proto/state.proto, whose processes run when it is read: values with keys in one order, "KEY
 * LENGTH:BYTES\n". To be removed with the version after this one. Pure.
 */
#ifndef AS_CTL_REEXEC_FORMER_H
#define AS_CTL_REEXEC_FORMER_H

#include "ctl/message/reexec_state.h"

/* `text` is what follows the line with the format. Sets in->state, or fails the reader. */
void as_reexec_former_read(struct as_reexec_reader *in, struct as_str text);

#endif
