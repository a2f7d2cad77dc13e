/* core/autoscale/schedule.h — minimums of replicas by time of day, as `schedule` of
 * autoscaling_config gives them.
 *
 * An entry holds on its days from `start` until `end`, by the local wall time that the caller
 * passes. An entry whose end is not after its start goes on past midnight, into the day behind. Of
 * several entries that hold, the largest minimum counts. Pure.
 */
#ifndef AS_CORE_SCHEDULE_H
#define AS_CORE_SCHEDULE_H

#include "base/str.h"

#define AS_SCHEDULE_MAX 32u /* entries */
#define AS_DAY_MINUTES  1440u

/* A moment of local time. */
struct as_wall_time {
    uint32_t day;    /* 0: Monday … 6: Sunday */
    uint32_t minute; /* of the day, 0 … 1439 */
    as_ns left;      /* until the next minute begins */
};

struct as_schedule_entry {
    uint8_t days;        /* bit 0: Monday … bit 6: Sunday */
    uint16_t start, end; /* minutes of the day; end at most AS_DAY_MINUTES */
    uint32_t min_replicas;
};

struct as_schedule {
    uint32_t n;
    struct as_schedule_entry entry[AS_SCHEDULE_MAX];
};

/* "mon-fri", "sat,sun", "daily", in any case; a range may go over the end of the week. False:
 * another text. */
bool as_schedule_parse_days(struct as_str text, uint8_t *ret_days);
/* "08:30"; "24:00" is the end of the day. False: another text. */
bool as_schedule_parse_time(struct as_str text, uint16_t *ret_minute);
/* The largest minimum that holds at this time; 0: none does. */
uint32_t as_schedule_minimum(const struct as_schedule *s, const struct as_wall_time *t);

#endif
