package spec

import (
	"fmt"
	"time"
)

// What happens to a run that would pass a Budget, or a ceiling of its own.
const (
	OnExceededPause = "pause"
	OnExceededFail  = "fail"
	OnExceededAlert = "alert" // only of a Budget
)

// What a Budget counts.
const (
	UnitTokens     = "tokens" // input and output of model answers
	UnitUSD        = "usd"    // what they cost by the prices of their models
	UnitModelCalls = "modelCalls"
	UnitToolCalls  = "toolCalls"
	UnitSteps      = "steps" // model answers
)

// Budget is a ceiling that many runs share.
type Budget struct {
	Metadata `json:"-"`
	Unit     string `json:"unit"`            // UnitTokens (default), UnitUSD, UnitModelCalls, UnitToolCalls or UnitSteps
	Limit    Limit  `json:"limit,omitempty"` // absent when the window has parts
	// Window starts the count anew every day; nil counts for ever.
	Window *Window `json:"window,omitempty"`
	// AlertAt lists percentages of the limit; each is reported once per window.
	// Default 80 and 100.
	AlertAt    []int64 `json:"alertAt"`
	OnExceeded string  `json:"onExceeded"` // OnExceededPause (default), OnExceededFail or OnExceededAlert
	// Channel is the name of the Channel that is told of each alert; none by default.
	Channel string `json:"channel,omitempty"`
}

// Window is one day of a budget by the wall clock of a time zone.
type Window struct {
	TimeZone  string `json:"timeZone"`  // IANA, like America/New_York
	StartHour int64  `json:"startHour"` // 0 to 23; a window belongs to the date on which it starts
	// Parts divide the day; each has a limit of its own and lasts until the next
	// begins.
	Parts []WindowPart `json:"parts,omitempty"`
}

func (b *Budget) fill() {
	if b.Unit == "" {
		b.Unit = UnitTokens
	}
	if b.AlertAt == nil {
		b.AlertAt = []int64{80, 100}
	}
	if b.OnExceeded == "" {
		b.OnExceeded = OnExceededPause
	}
}

func (b *Budget) check(d *decoder, s spot) {
	d.oneOf(s.at("unit"), b.Unit, UnitTokens, UnitUSD, UnitModelCalls, UnitToolCalls, UnitSteps)
	d.oneOf(s.at("onExceeded"), b.OnExceeded, OnExceededPause, OnExceededFail, OnExceededAlert)
	if b.Window == nil || b.Window.Parts == nil {
		d.require(s.at("limit"), s.n.find("limit") != nil, "how much may be used in one window")
		b.checkLimit(d, s.at("limit"), b.Limit)
	}
	for i, percent := range b.AlertAt {
		d.between(s.at("alertAt", i), percent, 1, 1000)
		for _, earlier := range b.AlertAt[:i] {
			if earlier == percent {
				d.fail(s.at("alertAt", i), "%d stands here twice", percent)
			}
		}
	}
	if len(b.AlertAt) > 20 {
		d.fail(s.at("alertAt"), "has %d items; at most 20 are allowed", len(b.AlertAt))
	}
	if b.Channel != "" {
		d.name(s.at("channel"), b.Channel)
	}
	if b.Window != nil {
		w := s.at("window")
		d.require(w.at("timeZone"), b.Window.TimeZone != "", "a zone like \"America/New_York\" or \"UTC\"")
		d.zone(w.at("timeZone"), b.Window.TimeZone)
		d.between(w.at("startHour"), b.Window.StartHour, 0, 23)
		b.checkParts(d, s, w)
	}
}

// References is the channel that is told.
func (b *Budget) References() []Reference { return channelReference("channel", b.Channel) }

// Start is when the window that holds t began and its name: the date of its
// first day, with the hour and the name of the part where it has parts. For a budget
// without a window it is the zero time and "all".
// A start hour that a clock change skips begins when the clock jumps.
func (b *Budget) Start(t time.Time) (time.Time, string) {
	if b.Window == nil {
		return time.Time{}, "all"
	}
	loc, err := loadZone(b.Window.TimeZone)
	if err != nil {
		loc = time.UTC // the zone was checked when the definition was read
	}
	if len(b.Window.Parts) > 0 {
		start, part := b.Window.part(t, loc)
		return start, start.In(loc).Format("2006-01-02") + fmt.Sprintf("T%02d/%s", part.StartHour, part.Name)
	}
	y, m, day := t.In(loc).Date()
	start := wallHour(y, m, day, int(b.Window.StartHour), loc)
	if start.After(t) {
		day--
		start = wallHour(y, m, day, int(b.Window.StartHour), loc)
	}
	return start, time.Date(y, m, day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// wallHour is the moment at which the wall clock shows the full hour, or jumps
// over it.
func wallHour(y int, m time.Month, day, hour int, loc *time.Location) time.Time {
	return wallTime(y, m, day, hour, 0, loc)
}

// wallTime is the moment at which the wall clock shows hour and minute, or jumps over
// them.
func wallTime(y int, m time.Month, day, hour, minute int, loc *time.Location) time.Time {
	t := time.Date(y, m, day, hour, minute, 0, 0, loc)
	if t.Hour() == hour && t.Minute() == minute {
		return t
	}
	// time.Date gives a moment on one side of the jump.
	before, after := t.ZoneBounds()
	if t.Hour()*60+t.Minute() < hour*60+minute && !after.IsZero() {
		return after
	}
	return before
}
