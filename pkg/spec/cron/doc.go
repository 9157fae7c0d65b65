// Package cron computes when a wall-clock schedule fires. It is pure: no clock,
// no I/O, no state.
//
// It guarantees, for every time zone and every year that the zone database
// knows:
//
//   - A fixed schedule (neither the minute nor the hour field begins with "*")
//     fires exactly once for every matching wall time. A wall time that a clock
//     change skips fires late by the length of the gap (02:30 at 03:30, as RFC
//     5545 and java.time do); one that occurs twice fires on the first pass. A
//     jump of more than three hours, a lost civil day, skips.
//   - An interval-like schedule (minute or hour begins with "*") follows real
//     time: nothing inside a gap, both passes of an overlap.
//
// A fire is named by its nominal wall time and its fold, never by its instant: a
// change of the zone's rules moves the instant and must not fire twice.
//
// The expression has five fields: minute, hour, day of month, month, day of
// week; names (MON, JAN), lists, ranges, steps, "?", L, L-n, LW, nW, d#n, dL,
// the usual macros and a CRON_TZ= prefix. Sunday is 0 and 7. Day of month and
// day of week are joined by OR, by AND when either begins with "*" (Vixie cron).
// EitherDay tells of the OR, Changes of the times that clock changes move, so that
// they can be said before they surprise. Six fields, wrapping ranges, steps of zero and unknown zones are refused with
// the field named.
//
// The zone database is bundled, so a container without one behaves the same.
package cron

import _ "time/tzdata" // no silent fall back to UTC where the system has no zones
