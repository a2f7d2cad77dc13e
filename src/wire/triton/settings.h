/* wire/triton/settings.h — the messages of the logging and the trace extension: named values.
 *
 * Source: messages LogSettings… and TraceSetting… of proto/open_inference.proto. A trace setting is
 * a list of texts, a log setting one value of some type. Small and cold: over protobuf-c's
 * generated code. Pure.
 */
#ifndef AS_WIRE_SETTINGS_H
#define AS_WIRE_SETTINGS_H

#include "base/memory/arena.h"
#include "base/buf.h"

enum as_setting_type { AS_SETTING_NONE, AS_SETTING_BOOL, AS_SETTING_NUMBER, AS_SETTING_TEXT };

struct as_setting {
    struct as_str name;
    enum as_setting_type type; /* of a trace setting: TEXT, or NONE without a value */
    bool b;
    uint32_t number;
    struct as_str text; /* of a trace setting: its first */
};

#define AS_SETTINGS_MAX 64u /* of one message */

/* LogSettingsRequest and TraceSettingRequest; the result lies in the arena, each name once (the
 * last of duplicates). 0, AS_EPROTO (malformed, or not UTF-8), AS_EFULL (too many), AS_ENOMEM. */
int as_settings_parse_log(const uint8_t *p, size_t n, struct as_arena *a,
                          const struct as_setting **ret_s, uint32_t *ret_n);
int as_settings_parse_trace(const uint8_t *p, size_t n, struct as_arena *a,
                            const struct as_setting **ret_s, uint32_t *ret_n,
                            struct as_str *ret_model);
/* LogSettingsResponse and TraceSettingResponse, appended. `a` for what is needed meanwhile. 0 or
 * AS_ENOMEM. */
int as_settings_put_log(const struct as_setting *s, uint32_t n, struct as_arena *a,
                        struct as_buf *out);
int as_settings_put_trace(const struct as_setting *s, uint32_t n, struct as_arena *a,
                          struct as_buf *out);
/* An object as JSON, appended; the text of the setting named `list` is one
 * element of a list. */
void as_settings_json(const struct as_setting *s, uint32_t n, const char *list, struct as_buf *out);

#endif
