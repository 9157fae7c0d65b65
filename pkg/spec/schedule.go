package spec

import (
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the same zones on every machine
)

// ScheduleFields are the members of ${schedule} in a schedule's input: its
// name, the wall-clock date (2026-11-29) and time (02:00) that the schedule
// names, both as one (nominal, 2026-11-29T02:00), the zone they are in, and the
// moment of the fire (at, RFC 3339 in UTC).
var ScheduleFields = []string{"name", "date", "time", "nominal", "timeZone", "at"}

// Schedule starts runs by the wall clock.
type Schedule struct {
	Metadata `json:"-"`
	// Cron has five fields: minute, hour, day of month, month, day of week.
	Cron     string    `json:"cron"`
	TimeZone string    `json:"timeZone"`        // default UTC
	Agent    string    `json:"agent,omitempty"` // exactly one of Agent and Flow
	Flow     string    `json:"flow,omitempty"`
	Input    *Template `json:"input,omitempty"` // over ${schedule...}; default {}
	Paused   bool      `json:"paused"`
}

func (x *Schedule) fill() {
	if x.TimeZone == "" {
		x.TimeZone = "UTC"
	}
	if x.Input == nil {
		x.Input = mustTemplate("{}")
	}
}

func (x *Schedule) check(d *decoder, s spot) {
	d.require(s.at("cron"), x.Cron != "", "five fields like \"0 2 * * *\"")
	if x.Cron != "" {
		if err := checkCron(x.Cron); err != nil {
			d.fail(s.at("cron"), "%s", err)
		}
	}
	d.zone(s.at("timeZone"), x.TimeZone)
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
