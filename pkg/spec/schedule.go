package spec

import (
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/holdfast-run/holdfast/pkg/spec/cron"
)

// ScheduleFields are the members of ${schedule} in a schedule's input: its
// name, the wall-clock date (2026-11-29) and time (02:00) that the schedule
// names, its fire's own name (nominal, 2026-11-29T02:00), the zone they are in,
// and the moment of the fire (at, RFC 3339 in UTC).
var ScheduleFields = []string{"name", "date", "time", "nominal", "timeZone", "at"}

// Limits of a schedule.
const (
	MinEvery   = time.Second
	MaxEvery   = 366 * 24 * time.Hour
	MaxExclude = 366 // days and ranges
)

// Schedule starts runs by the clock.
type Schedule struct {
	Metadata `json:"-"`
	// Exactly one of Cron and Every. Cron has five fields: minute, hour, day of
	// month, month, day of week. Every is an interval counted from the Unix epoch
	// plus Offset, whatever the clocks on the wall do.
	Cron     string   `json:"cron,omitempty"`
	Every    Duration `json:"every,omitempty"`  // a span instead of Cron
	Offset   Duration `json:"offset,omitempty"` // less than Every
	TimeZone string   `json:"timeZone"`         // default UTC
	// StartAt and EndAt bound the fires; EndAt itself fires no more.
	StartAt Moment `json:"startAt,omitzero"`
	EndAt   Moment `json:"endAt,omitzero"` // no fire after it
	// Exclude lists days, as they are in TimeZone, that have no fire.
	Exclude []Days `json:"exclude,omitempty"`
	// MaxFires, when set, is how often the clock may start a run in all.
	MaxFires int64 `json:"maxFires,omitempty"`
	// Jitter delays each fire by its own stable part of this, and never to the
	// next one.
	Jitter  Duration `json:"jitter,omitempty"`
	Overlap Overlap  `json:"overlap,omitzero"`  // default skip
	CatchUp *CatchUp `json:"catchUp,omitempty"` // how far back missed fires are made up for

	Agent  string    `json:"agent,omitempty"` // exactly one of Agent and Flow
	Flow   string    `json:"flow,omitempty"`  // or Agent: what is started
	Input  *Template `json:"input,omitempty"` // over ${schedule...}; default {}
	Paused bool      `json:"paused"`          // nothing fires
	// Deadline ends each run that long after its fire, as Agent.Deadline does.
	Deadline Duration `json:"deadline,omitempty"`
	// Priority is what each start asks for: it lowers what the agent or flow says and
	// never lifts it.
	Priority string `json:"priority,omitempty"`
}

func (x *Schedule) fill() {
	if x.TimeZone == "" {
		x.TimeZone = "UTC"
		// An expression may name its zone itself: CRON_TZ=Europe/Berlin 0 2 * * *
		if s, err := cron.Parse(x.Cron, ""); err == nil {
			x.TimeZone = s.Location().String()
		}
	}
	if x.Input == nil {
		x.Input = mustTemplate("{}")
	}
}

func (x *Schedule) check(d *decoder, s spot) {
	d.exactlyOne(s, map[string]bool{"cron": x.Cron != "", "every": x.Every != 0})
	d.zone(s.at("timeZone"), x.TimeZone)
	d.within(s.at("deadline"), x.Deadline, time.Second, maxDeadline)
	d.priority(s.at("priority"), x.Priority)
	x.checkCron(d, s)
	x.checkEvery(d, s)
	if !x.StartAt.IsZero() && !x.EndAt.IsZero() && !x.StartAt.Before(x.EndAt.Time) {
		d.fail(s.at("endAt"), "is not after startAt")
	}
	if len(x.Exclude) > MaxExclude {
		d.fail(s.at("exclude"), "has %d items; at most %d are allowed; write ranges like \"2026-12-24..2026-12-26\"", len(x.Exclude), MaxExclude)
	}
	if x.MaxFires < 0 {
		d.fail(s.at("maxFires"), "%d is not a number of fires", x.MaxFires)
	}
	d.within(s.at("jitter"), x.Jitter, time.Second, 24*time.Hour)
	if x.CatchUp != nil {
		x.CatchUp.check(d, s.at("catchUp"))
	}
	d.target(s, x.Agent, x.Flow)
	d.roots(x.Input, "schedule")
	x.Input.each(func(f *form, p Path) {
		if p.Root != "schedule" || len(p.steps) == 0 {
			return
		}
		for _, field := range ScheduleFields {
			if p.Member() == field {
				return
			}
		}
		d.also(f.at, "${%s}: schedule has no such field; it has %s", p, strings.Join(ScheduleFields, ", "))
	})
}

// checkCron refuses what could not fire, by the parser that fires.
func (x *Schedule) checkCron(d *decoder, s spot) {
	if x.Cron == "" {
		return
	}
	parsed, err := cron.Parse(x.Cron, "")
	if err != nil {
		d.fail(s.at("cron"), "%s", err)
		return
	}
	if strings.Contains(x.Cron, "TZ=") && parsed.Location().String() != x.TimeZone {
		d.fail(s.at("timeZone"), "is %s, and the expression names %s; leave one out", shorten(x.TimeZone), parsed.Location())
	}
}

func (x *Schedule) checkEvery(d *decoder, s spot) {
	d.within(s.at("every"), x.Every, MinEvery, MaxEvery)
	if x.Every.Std()%time.Second != 0 {
		d.fail(s.at("every"), "%s is not a whole number of seconds", x.Every)
	}
	switch {
	case x.Offset == 0:
	case x.Every == 0:
		d.fail(s.at("offset"), "belongs to every; a cron expression names its times itself")
	case x.Offset < 0 || x.Offset >= x.Every || x.Offset.Std()%time.Second != 0:
		d.fail(s.at("offset"), "%s is not a whole number of seconds from 0s to less than every", x.Offset)
	}
}

// References names what the schedule starts.
func (x *Schedule) References() []Reference { return target(x.Agent, x.Flow) }

// zone checks the name of a time zone.
func (d *decoder) zone(s spot, name string) {
	if name == "" {
		return
	}
	if _, err := loadZone(name); err != nil || name == "Local" {
		d.fail(s, "%q is not a time zone; write one like \"America/New_York\" or \"UTC\"", shorten(name))
	}
}

// target checks that exactly one of agent and flow is named.
func (d *decoder) target(s spot, agent, flow string) {
	d.exactlyOne(s, map[string]bool{"agent": agent != "", "flow": flow != ""})
	if agent != "" {
		d.name(s.at("agent"), agent)
	}
	if flow != "" {
		d.name(s.at("flow"), flow)
	}
}

func target(agent, flow string) []Reference {
	if flow != "" {
		return []Reference{{Kind: KindFlow, Name: flow, Field: "spec.flow"}}
	}
	return []Reference{{Kind: KindAgent, Name: agent, Field: "spec.agent"}}
}

var zones sync.Map // name to *time.Location; there are a few hundred

func loadZone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, loc)
	}
	return loc, err
}

// Moment is an instant, written in RFC 3339 with its offset.
type Moment struct{ time.Time }

// MarshalJSON writes UTC, so that equal moments have one digest.
func (x Moment) MarshalJSON() ([]byte, error) { return quote(x.UTC().Format(time.RFC3339)), nil }

func (x *Moment) readNode(d *decoder, s spot) {
	if !d.want(s, textNode) {
		return
	}
	t, err := time.Parse(time.RFC3339, s.n.text)
	if err != nil || t.Year() < 1970 || t.Year() > 9000 {
		d.fail(s, "%q is not a moment with its offset, like \"2026-11-29T02:00:00Z\" or \"2026-11-29T02:00:00+01:00\"", shorten(s.n.text))
		return
	}
	x.Time = t.UTC().Truncate(time.Second)
}

// Days is a day or a range of days, both ends in it: "2026-12-25" or
// "2026-12-24..2026-12-26".
type Days struct{ First, Last string }

// Has reports whether a day (2026-12-25) is one of them.
func (x Days) Has(day string) bool { return x.First <= day && day <= x.Last }

// MarshalJSON writes the YAML form.
func (x Days) MarshalJSON() ([]byte, error) {
	if x.First == x.Last {
		return quote(x.First), nil
	}
	return quote(x.First + ".." + x.Last), nil
}

func (x *Days) readNode(d *decoder, s spot) {
	if !d.want(s, textNode) {
		return
	}
	first, last, ranged := strings.Cut(s.n.text, "..")
	if !ranged {
		last = first
	}
	for _, day := range []string{first, last} {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			d.fail(s, "%q is not a day like \"2026-12-25\" or a range like \"2026-12-24..2026-12-26\"", shorten(s.n.text))
			return
		}
	}
	if last < first {
		d.fail(s, "%q runs backwards", shorten(s.n.text))
		return
	}
	*x = Days{first, last}
}

func (x Days) String() string { return fmt.Sprintf("%s..%s", x.First, x.Last) }
