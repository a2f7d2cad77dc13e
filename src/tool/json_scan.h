/* tool/json_scan.h — the numbers of a JSON text, by path.
 *
 * For reading back what `bench --json` wrote: the whole text is checked (RFC 8259, nesting at most
 * AS_JSON_SCAN_DEPTH), and every number that stands in objects only is told as "latency_us.p50".
 * Pure; the text may be hostile.
 */
#ifndef AS_TOOL_JSON_SCAN_H
#define AS_TOOL_JSON_SCAN_H

#include "base/err.h"
#include "base/str.h"

#define AS_JSON_SCAN_DEPTH 32u
#define AS_JSON_SCAN_PATH  128u

/* 0, or AS_EINVALID: *ret_at is the position (from 0) of what is no JSON. Numbers with a longer
 * path than AS_JSON_SCAN_PATH - 1 are not told. */
int as_json_scan(struct as_str text, void (*on_number)(void *ctx, const char *path, double v),
                 void *ctx, size_t *ret_at);

#endif
