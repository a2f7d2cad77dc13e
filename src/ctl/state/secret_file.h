/* ctl/state/secret_file.h — opens a file that only its owner may read: tokens, API keys.
 *
 * Blocking calls.
 */
#ifndef AS_CTL_SECRET_FILE_H
#define AS_CTL_SECRET_FILE_H

#include "base/buf.h"
#include "base/err.h"

/* Opens it to read. The file must be a regular one that belongs to us or root, and that nobody else
 * may read or write; but if it is root's and we are not root, a group of ours may read it, as that
 * of mounted Secrets. Symbolic links are followed, since secrets are mounted that way. what: "token
 * file", for texts. 0 with a descriptor; AS_ENOTFOUND, AS_EDENIED, AS_EINVALID, AS_EIO with a
 * sentence in `err`. */
int as_secret_file_open(const char *path, const char *what, int *ret_fd, struct as_buf *err);

#endif
