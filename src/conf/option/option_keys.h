/* conf/option/option_keys.h — the options about API keys, of a server and of `anyserve keys`: rows
 * of the table in conf/option/option.h, which also explains their columns.
 */
#ifndef AS_CONF_OPTION_KEYS_H
#define AS_CONF_OPTION_KEYS_H

#define AS_OPTION_KEYS_TABLE(X)                                                                    \
    X(API_KEYS, "api-keys", STRING, 0, 4095, "", "FILE", RD, "Listening",                         \
      "file of API keys: every client needs one of them; docs/guide/keys.md")                      \
    X(MAX_API_KEYS, "max-api-keys", INT, 1, 10000000, "1000000", "", RD, "Listening",              \
      "most keys of that file; a million take 0.2 GB")                                             \
    X(KEY_FILE, "file", STRING, 0, 4095, "", "FILE", KB, "Keys", "the file of API keys")           \
    X(KEY_MODELS, "models", LIST, 0, 4095, "", "GLOB", KB, "Keys",                                 \
      "models that it may use, with * and ?; repeatable; default: all")                            \
    X(KEY_APPLICATIONS, "applications", LIST, 0, 4095, "", "GLOB", KB, "Keys",                     \
      "applications that it may use, with * and ?; default: all")                                  \
    X(KEY_TENANT, "tenant", STRING, 0, 64, "", "NAME", KB, "Keys",                                 \
      "tenant of its requests; counts more than --tenant-header")                                  \
    X(KEY_RATE, "rate", STRING, 0, 32, "", "N/s", KB, "Keys",                                      \
      "requests per second, or N/m, N/h; default: any number")                                     \
    X(KEY_BURST, "burst", INT, 0, 1000000, "auto", "auto", KB, "Keys",                             \
      "with --rate: requests at once; auto: those of a second")                                    \
    X(KEY_IN_FLIGHT, "in-flight", INT, 0, 1000000, "off", "off", KB, "Keys",                       \
      "requests that are answered at the same time; off: any number")                              \
    X(KEY_EXPIRES, "expires", STRING, 0, 64, "", "TIME", KB, "Keys",                               \
      "when it becomes invalid: 2027-01-31 or 2027-01-31T12:00:00Z; default: never")

#endif
