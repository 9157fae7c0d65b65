package runner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// MinRetention is the least time for which ended runs are kept.
const MinRetention = time.Hour

// Retention says how long runs are kept after their end; without a rule that fits
// for ever.
type Retention []retain

type retain struct {
	namespace, kind, name, status string // empty: any
	keep                          time.Duration
	forever                       bool
}

// ParseRetention reads rules like "2160h" or "90d" (every run), "failed=365d",
// "agent/triage=30d", "flow/nightly/completed=7d", "team-a:agent/triage=keep".
func ParseRetention(rules []string) (Retention, error) {
	var out Retention
	var errs []error
	for _, text := range rules {
		r, err := parseRetain(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("runner-retention %q: %w", text, err))
			continue
		}
		if slices.ContainsFunc(out, func(o retain) bool {
			return o.namespace == r.namespace && o.kind == r.kind && o.name == r.name && o.status == r.status
		}) {
			errs = append(errs, fmt.Errorf("runner-retention %q: there are two rules for the same runs", text))
		}
		out = append(out, r)
	}
	// The most specific comes first: a name, then a status, then a namespace.
	slices.SortStableFunc(out, func(a, b retain) int { return cmp.Compare(b.weight(), a.weight()) })
	return out, errors.Join(errs...)
}

func (r retain) weight() (w int) {
	for i, text := range []string{r.namespace, r.status, r.name} {
		if text != "" {
			w += 1 << i
		}
	}
	return w
}

func parseRetain(text string) (r retain, err error) {
	which, age, ok := strings.Cut(text, "=")
	if !ok {
		which, age = "", text
	}
	if ns, rest, ok := strings.Cut(which, ":"); ok {
		if r.namespace, which = ns, rest; ns == "" {
			return r, errors.New("the namespace before the colon is empty")
		}
	}
	parts := strings.Split(which, "/")
	if parts[0] == events.KindAgent || parts[0] == events.KindFlow {
		if len(parts) < 2 || parts[1] == "" {
			return r, fmt.Errorf("want %s/NAME", parts[0])
		}
		r.kind, r.name, parts = parts[0], parts[1], parts[2:]
	}
	if len(parts) == 1 && parts[0] != "" {
		if r.status, parts = parts[0], nil; !events.Ended(r.status) {
			return r, fmt.Errorf("%q is not how a run ends: completed, failed, cancelled or expired", r.status)
		}
	}
	if len(parts) > 1 || len(parts) == 1 && parts[0] != "" {
		return r, errors.New("want [NAMESPACE:][agent/NAME or flow/NAME][/STATUS]=AGE")
	}
	if r.forever = age == "keep"; r.forever {
		return r, nil
	}
	if days, ok := strings.CutSuffix(age, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return r, fmt.Errorf("%q is not a number of days", age)
		}
		r.keep = time.Duration(n) * 24 * time.Hour
	} else if r.keep, err = time.ParseDuration(age); err != nil {
		return r, fmt.Errorf("%q is not an age like 90d or 2160h, or keep", age)
	}
	if r.keep < MinRetention {
		return r, fmt.Errorf("%s is less than %s", age, MinRetention)
	}
	return r, nil
}

// Of is how long a run is kept after its end; zero is for ever.
func (list Retention) Of(run EndedRun) time.Duration {
	for _, r := range list {
		if (r.namespace == "" || r.namespace == run.Namespace) && (r.status == "" || r.status == run.Status) &&
			(r.name == "" || r.kind == run.Ref.Kind && r.name == run.Ref.Name) {
			return r.keep
		}
	}
	return 0
}

// least is the shortest time of all rules.
func (list Retention) least() (keep time.Duration, ok bool) {
	for _, r := range list {
		if !r.forever && (!ok || r.keep < keep) {
			keep, ok = r.keep, true
		}
	}
	return keep, ok
}
