package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Schedule is one schedule and when it fires next.
type Schedule struct {
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Digest    events.Digest `json:"digest,omitempty"`
	Cron      string        `json:"cron,omitempty"` // this or Every
	Every     string        `json:"every,omitempty"`
	TimeZone  string        `json:"time_zone"`
	Agent     string        `json:"agent,omitempty"` // what it starts: this or Flow
	Flow      string        `json:"flow,omitempty"`
	Overlap   string        `json:"overlap,omitempty"`
	Paused    bool          `json:"paused"`              // by its definition or by an operator
	PausedBy  string        `json:"paused_by,omitempty"` // the operator
	PauseNote string        `json:"pause_note,omitempty"`
	PausedAt  *time.Time    `json:"paused_at,omitempty"`
	Problem   string        `json:"problem,omitempty"` // why this version never fires
	Next      []Fire        `json:"next"`
	Missed    int64         `json:"missed"`  // fires that were found too late to start a run
	Skipped   int64         `json:"skipped"` // fires that the overlap policy or a pause let pass
	Fired     int64         `json:"fired"`   // runs that the clock started
	MaxFires  int64         `json:"max_fires,omitempty"`
	Last      *PastFire     `json:"last,omitempty"`
}

// Fire is one coming fire of a schedule.
type Fire struct {
	At      time.Time `json:"at"`
	Local   string    `json:"local"`             // the same instant on the schedule's wall clock
	Nominal string    `json:"nominal"`           // the time that the schedule names
	Fold    int       `json:"fold,omitempty"`    // 1 on the second pass of a wall time that occurs twice
	Shifted bool      `json:"shifted,omitempty"` // the wall time is skipped that day, so it fires later
}

// PastFire is a fire of a schedule that happened, or did not.
type PastFire struct {
	Nominal   string        `json:"nominal"`
	Fold      int           `json:"fold,omitempty"`
	Origin    string        `json:"origin,omitempty"` // clock, now, backfill
	State     string        `json:"state,omitempty"`  // started, buffered, skipped, rejected
	Reason    string        `json:"reason,omitempty"` // why it was skipped or rejected, as a code
	Detail    string        `json:"detail,omitempty"`
	Skips     int64         `json:"skips,omitempty"` // how many fires a skipped one stands for
	Principal string        `json:"principal,omitempty"`
	Digest    events.Digest `json:"digest,omitempty"` // of the schedule's version
	DueAt     time.Time     `json:"due_at,omitzero"`
	FiredAt   time.Time     `json:"fired_at"`
	EndedAt   *time.Time    `json:"ended_at,omitempty"` // when its run ended
	RunID     events.RunID  `json:"run_id,omitempty"`   // empty when the fire could start nothing
}

// Paused says what a pause does not touch.
type Paused struct {
	PausedAt time.Time      `json:"paused_at"`
	PausedBy string         `json:"paused_by"`
	Note     string         `json:"note,omitempty"`
	OpenRuns []events.RunID `json:"open_runs"` // go on
}

// Resumed says what passed during a pause and what comes next.
type Resumed struct {
	Passed   int    `json:"passed"`
	More     bool   `json:"more,omitempty"` // there are more than Passed
	Backfill *Tally `json:"backfill,omitempty"`
	Next     *Fire  `json:"next,omitempty"`
}

// Tally says what became of the fires of a range.
type Tally struct {
	Fires    int `json:"fires"`
	Known    int `json:"known"` // had run, or wait, and are left alone
	Started  int `json:"started"`
	Buffered int `json:"buffered"` // start one after the other
	Skipped  int `json:"skipped"`
	Rejected int `json:"rejected"`
}

// Resume asks to go on with a schedule that an operator paused.
type Resume struct {
	Note     string `json:"note,omitempty"`
	Backfill bool   `json:"backfill,omitempty"` // make the fires that passed meanwhile
	DryRun   bool   `json:"dry_run,omitempty"`  // only say what would happen
}

// Backfill asks for the fires of a range that have not run.
type Backfill struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Overlap string    `json:"overlap,omitempty"`
	Force   bool      `json:"force,omitempty"` // those that have run, too
	DryRun  bool      `json:"dry_run,omitempty"`
}

func schedulePath(name, action string) string {
	return "/v1/schedules/" + url.PathEscape(name) + action
}

// Schedules lists schedules by name.
func (c *Client) Schedules(ctx context.Context, p PageRequest) (Page[Schedule], error) {
	return get[Page[Schedule]](ctx, c, "/v1/schedules", p.values())
}

// Schedule reads one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	return get[Schedule](ctx, c, schedulePath(name, ""), nil)
}

// NextFires previews a schedule's next fires.
func (c *Client) NextFires(ctx context.Context, name string, count int) ([]Fire, error) {
	list, err := get[struct {
		Items []Fire `json:"items"`
	}](ctx, c, schedulePath(name, "/next"), url.Values{"count": {strconv.Itoa(count)}})
	return list.Items, err
}

// ScheduleHistory lists a schedule's fires and skips, newest first.
func (c *Client) ScheduleHistory(ctx context.Context, name string, p PageRequest) (Page[PastFire], error) {
	return get[Page[PastFire]](ctx, c, schedulePath(name, "/history"), p.values())
}

// TriggerSchedule starts now what the schedule starts, besides its own times
// and also while it is paused. overlap, when set, stands in for the schedule's
// policy. The status of the answer is buffered when the run waits for another.
func (c *Client) TriggerSchedule(ctx context.Context, name, overlap string) (Started, error) {
	q := url.Values{}
	set(q, "overlap", overlap)
	var out Started
	_, err := c.do(ctx, call{method: http.MethodPost, path: schedulePath(name, "/trigger"), query: q, key: newKey(), idempotent: true}, &out)
	return out, err
}

// PauseSchedule stops a schedule from firing.
func (c *Client) PauseSchedule(ctx context.Context, name, note string) (Paused, error) {
	return post[Paused](ctx, c, schedulePath(name, "/pause"), map[string]string{"note": note})
}

// ResumeSchedule lets a paused schedule fire again.
func (c *Client) ResumeSchedule(ctx context.Context, name string, r Resume) (Resumed, error) {
	return post[Resumed](ctx, c, schedulePath(name, "/resume"), r)
}

// BackfillSchedule makes the fires of a range that have not run.
func (c *Client) BackfillSchedule(ctx context.Context, name string, b Backfill) (Tally, error) {
	return post[Tally](ctx, c, schedulePath(name, "/backfill"), b)
}
