/* conf/declared.h — what the code of an application declares, as the worker program tells it.
 *
 * A line per deployment: its name, the options that the code sets for it as a JSON object (left out
 * when there are none), then model:version for each model, separated by tabs. Lines without a tab
 * are what the user's module printed while it was imported. A line that begins with "@" is about
 * the code and no deployment: "@files" with the paths that it was loaded from, as far as they lie
 * beside the application's; "@code" with the copy that was made of it, as the key `code` of a
 * deployment file has it; "@call" with a command for a shell that calls one of the models, without
 * the option that names the server.
 */
#ifndef AS_CONF_DECLARED_H
#define AS_CONF_DECLARED_H

#include "base/buf.h"
#include "base/err.h"

#define AS_DECLARED_DEPLOYMENTS_MAX 256u
#define AS_DECLARED_MODELS_MAX      1024u      /* of one deployment */
#define AS_DECLARED_BYTES_MAX       (4u << 20) /* of the whole description */
#define AS_DECLARED_FILES_MAX       4096u

struct as_declared_deployment {
    char *name;
    char *options; /* a JSON object as it was told, keys of conf/spec_row.h; NULL: none */
    char **models; /* "name:version" */
    uint32_t n_models;
};

struct as_declared {
    struct as_declared_deployment *deployments;
    uint32_t n;   /* 0 only with `code`: what that declares was known before */
    char *code;   /* the copy that it is served from; NULL: none was made */
    char **files; /* absolute */
    uint32_t n_files;
    char *call; /* NULL: none was told */
};

/* Pure. Lines that are not ours are handed to `other` (may be NULL). 0; AS_EINVALID: `err` says
 * what is wrong with the description. */
int as_declared_parse(struct as_declared *ret_app, struct as_str text,
                      void (*other)(void *ctx, struct as_str line), void *ctx, struct as_buf *err);
/* The text that as_declared_parse takes back. */
void as_declared_write(const struct as_declared *app, struct as_buf *b);
/* Without what is about the code: two texts differ where what is served does. */
void as_declared_write_deployments(const struct as_declared *app, struct as_buf *b);
void as_declared_fini(struct as_declared *app);

#endif
