/* ctl/state/token.h — the secret in a file that its owner alone may read: --management-token-file.
 *
 * Blocking calls.
 */
#ifndef AS_CTL_TOKEN_H
#define AS_CTL_TOKEN_H

#include "base/buf.h"
#include "base/err.h"

#define AS_TOKEN_MAX 1024u /* bytes of a token */

/* One line of 1 to AS_TOKEN_MAX characters that `authorization: Bearer` takes (RFC 6750 §2.1), the
 * end of the line left out. The file must be a regular one of ours (or root's) that nobody else may
 * read or write; symbolic links to such a one are followed, since that is how secrets are mounted.
 * 0 with the token and a NUL; AS_ENOTFOUND, AS_EDENIED, AS_EINVALID, AS_EIO with a sentence in
 * `err`. */
int as_token_read(const char *path, char ret_token[AS_TOKEN_MAX + 1], struct as_buf *err);

#endif
