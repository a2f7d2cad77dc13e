/* ctl/state/token.h — reads a secret from a file that only its owner may read, as
 * --management-token-file.
 *
 * Blocking calls.
 */
#ifndef AS_CTL_TOKEN_H
#define AS_CTL_TOKEN_H

#include "base/buf.h"
#include "base/err.h"

#define AS_TOKEN_MAX 1024u /* bytes of a token */

/* Reads one line of 1 to AS_TOKEN_MAX characters that are valid in `authorization: Bearer` (RFC
 * 6750 §2.1), without its end. The file must be one that ctl/state/secret_file.h accepts. 0 with
 * the token and a NUL; AS_ENOTFOUND, AS_EDENIED, AS_EINVALID, AS_EIO with a sentence in `err`.
 */
int as_token_read(const char *path, char ret_token[AS_TOKEN_MAX + 1], struct as_buf *err);

#endif
