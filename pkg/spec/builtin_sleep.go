package spec

import "time"

// BuiltinSleepUntil waits until a time, or for a length of time.
const BuiltinSleepUntil = "sleep_until"

// MaxSleep is the longest that one call may sleep.
const MaxSleep = 366 * 24 * time.Hour

// ParseDuration reads a length of time as definitions write it: "90m", "3d".
func ParseDuration(text string) (time.Duration, error) { return parseDuration(text) }

// builtinSleep is answered when its timer has fired.
var builtinSleep = Builtin{
	Name: BuiltinSleepUntil, By: ByRunner, Effect: EffectRead,
	Description: "Waits, for minutes or for months, and costs nothing meanwhile. Give exactly one of until, a time with its offset like " +
		"\"2026-11-30T07:00:00+01:00\", and for, a length of time like \"90m\", \"12h\" or \"3d\". At most a year. " +
		"The result says when it woke. A time that has passed is answered at once, with a note.",
	Input: onceSchema(`{
		"type": "object",
		"properties": {
			"until": {"type": "string", "minLength": 1, "maxLength": 64, "description": "RFC 3339, with the offset from UTC"},
			"for": {"type": "string", "minLength": 2, "maxLength": 32, "description": "Like \"45s\", \"90m\", \"1h30m\" or \"3d\""}
		},
		"additionalProperties": false
	}`),
}
