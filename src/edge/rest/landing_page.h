/* edge/rest/landing_page.h — help for people who open the clients' port in a browser.
 *
 * GET and HEAD of /, /docs, /metrics and /v2/models are answered with links to what the server
 * offers: as JSON, or as HTML if Accept prefers text/html. Called only for paths without a route,
 * so routes take precedence. Thread: the loop's.
 */
#ifndef AS_EDGE_LANDING_PAGE_H
#define AS_EDGE_LANDING_PAGE_H

#include "edge/rest/rest.h"

#define AS_LANDING_PAGE_MODELS 20u /* most models that are linked by name */

/* True: answered. path: without its query. */
bool as_landing_page_answer(struct as_exchange *x, struct as_str path);

#endif
