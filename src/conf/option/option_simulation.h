/* conf/option/option_simulation.h — the options of `anyserve simulate`: rows of the table in
 * conf/option/option.h, which also explains their columns.
 */
#ifndef AS_CONF_OPTION_SIMULATION_H
#define AS_CONF_OPTION_SIMULATION_H

#define AS_OPTION_SIMULATION_TABLE(X)                                                              \
    X(TRACE, "trace", STRING, 0, 4095, "", "FILE", SB, "Simulation",                               \
      "requests to simulate, as CSV or JSON Lines; -: stdin")                                      \
    X(ARRIVAL_PATTERN, "arrivals", STRING, 0, 4095, "", "PATTERN", SB, "Simulation",               \
      "or generated requests: constant:RATE, poisson:RATE, steps:RATE@TIME,…, "                  \
      "sine:LOW:HIGH:PERIOD; rates are requests per second")                                       \
    X(SERVICE, "service", STRING, 0, 255, "", "PATTERN", SB, "Simulation",                         \
      "time for which a handler executes, where the trace does not say: constant:TIME, "           \
      "exponential:TIME, lognormal:MEAN:CV")                                                       \
    X(SIMULATED_TIME, "duration", DURATION, AS_MS, (int64_t)366 * 86400 * AS_SEC, "60s", "", SB,   \
      "Simulation",                                                                                \
      "time in which generated requests arrive; of a trace, the whole is the "                     \
      "default")                                                                                   \
    X(SIMULATED_REQUESTS, "requests", INT, 0, 1000000000000, "off", "off", SB, "Simulation",       \
      "simulate at most this many requests")                                                       \
    X(DEPLOYMENT, "deployment", STRING, 0, 256, "", "NAME", SB, "Simulation",                      \
      "[APPLICATION/]DEPLOYMENT of the file, when it lists several")                               \
    X(REPLICAS, "replicas", INT, 0, 1024, "file", "file", SB, "Simulation",                        \
      "replicas instead of num_replicas of the file")                                              \
    X(MAX_ONGOING, "max-ongoing-requests", INT, 0, 65535, "file", "file", SB, "Simulation",        \
      "requests that one replica executes at once, instead of max_ongoing_requests of the file; "  \
      "1 when neither says it")                                                                    \
    X(BATCH_SIZE, "batch-size", INT, 0, 65535, "off", "off", SB, "Simulation",                     \
      "largest batch, as the code declares it with max_batch_size")                                \
    X(BATCH_WAIT, "batch-wait", DURATION, 0, 60 * AS_SEC, "0s", "", SB, "Simulation",              \
      "longest time that a request waits for others of its batch while a slot is free")            \
    X(BATCH_COST, "batch-cost", INT, 0, 100, "0", "", SB, "Simulation",                            \
      "a batch takes as long as its longest request, and this percentage of the time of each "     \
      "other one")                                                                                 \
    X(MODELS_PER_REPLICA, "models-per-replica", INT, 0, 1024, "off", "off", SB, "Simulation",      \
      "multiplexed models that a replica holds, as max_num_models_per_replica")                    \
    X(MODEL_LOAD, "model-load", DURATION, 0, 86400 * AS_SEC, "1s", "", SB, "Simulation",           \
      "time to load a multiplexed model")                                                          \
    X(START_UP, "start-up", DURATION, 0, 86400 * AS_SEC, "1s", "", SB, "Simulation",               \
      "time until a replica that autoscaling starts takes requests")                               \
    X(LINK_LATENCY, "link-latency", DURATION, 0, 60 * AS_SEC, "0s", "", SB, "Simulation",          \
      "time of a message between dispatcher and worker, each way")                                 \
    X(MAX_OPEN_REQUESTS, "max-open-requests", INT, 1, 100000000, "1048576", "", SIMULATE,          \
      "Simulation", "requests open at once; more are refused, as by a server")

#endif
