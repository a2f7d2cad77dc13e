/* wire/triton/settings.h — the messages of Triton's logging and trace extensions: named values.
 *
 * They are the messages LogSettings… and TraceSetting… of proto/open_inference.proto. A log setting
 * is one value; a trace setting is a list of texts, of which only the first is used. Rarely
 * requested, so it uses protobuf-c's generated code. Pure.
 */
#ifndef AS_WIRE_SETTINGS_H
#define AS_WIRE_SETTINGS_H

#include "base/buf.h"
#include "base/memory/arena.h"

enum as_setting_type { AS_SETTING_NONE, AS_SETTING_BOOL, AS_SETTING_NUMBER, AS_SETTING_TEXT };

struct as_setting {
    struct as_str name;
    enum as_setting_type type; /* of a trace setting: TEXT, or NONE if it has no value */
    bool b;
    uint32_t number;
    struct as_str text; /* of a trace setting: the first one */
};

#define AS_SETTINGS_MAX 64u /* in one message */

/* Parse a LogSettingsRequest or TraceSettingRequest into the arena. Each name is in the result
 * once; of duplicates the last counts. 0, AS_EPROTO (malformed, or not UTF-8), AS_EFULL (too many),
 * AS_ENOMEM. */
int as_settings_parse_log(const uint8_t *p, size_t n, struct as_arena *a,
                          const struct as_setting **ret_s, uint32_t *ret_n);
int as_settings_parse_trace(const uint8_t *p, size_t n, struct as_arena *a,
                            const struct as_setting **ret_s, uint32_t *ret_n,
                            struct as_str *ret_model);
/* Append a LogSettingsResponse or TraceSettingResponse. `a` is for temporary memory. 0 or
 * AS_ENOMEM. */
int as_settings_put_log(const struct as_setting *s, uint32_t n, struct as_arena *a,
                        struct as_buf *out);
int as_settings_put_trace(const struct as_setting *s, uint32_t n, struct as_arena *a,
                          struct as_buf *out);
/* Appends the settings as a JSON object. The value of the setting named `list` (may be NULL) is
 * written as an array with one element. */
void as_settings_json(const struct as_setting *s, uint32_t n, const char *list, struct as_buf *out);

#endif
