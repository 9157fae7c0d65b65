package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits bound how a tool is used by all workers together.
type Limits struct {
	// Rate is how many attempts begin in a time, evenly spaced: "100/m" is one
	// each 600 ms.
	Rate Rate `json:"rate,omitzero"`
	// Concurrency is how many attempts are under way at once.
	Concurrency int64 `json:"concurrency,omitempty"`
}

// MaxConcurrency bounds Concurrency: each attempt under way is a row.
const MaxConcurrency = 10_000

func (l *Limits) check(d *decoder, s spot) {
	if l == nil {
		return
	}
	if *l == (Limits{}) {
		d.fail(s, "limits nothing; give rate, like 10/s, or concurrency")
	}
	if l.Concurrency != 0 {
		d.between(s.at("concurrency"), l.Concurrency, 1, MaxConcurrency)
	}
}

// Rate is so many in a time. In YAML it is text like "10/s", "100/m" or "500/h".
type Rate struct {
	N   int64
	Per time.Duration // a second, a minute or an hour
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate reads a rate as YAML writes it.
func ParseRate(text string) (Rate, error) {
	n, unit, _ := strings.Cut(text, "/")
	per, known := rateUnits[unit]
	count, err := strconv.ParseInt(n, 10, 64)
	if !known || err != nil || count < 1 || count > 100_000 || n != strconv.FormatInt(count, 10) {
		return Rate{}, fmt.Errorf("%q is not a rate like \"10/s\", \"100/m\" or \"500/h\", of 1 to 100000", shorten(text))
	}
	return Rate{N: count, Per: per}, nil
}

// IsZero reports whether there is no rate.
func (r Rate) IsZero() bool { return r.N == 0 }

// Every is the time between two.
func (r Rate) Every() time.Duration {
	if r.N == 0 {
		return 0
	}
	return r.Per / time.Duration(r.N)
}

// String is the form of YAML.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return fmt.Sprintf("%d/%s", r.N, unit)
		}
	}
	return ""
}

// MarshalJSON writes the form of YAML.
func (r Rate) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

func (r *Rate) readNode(d *decoder, s spot) {
	if !d.want(s, textNode) {
		return
	}
	rate, err := ParseRate(s.n.text)
	if err != nil {
		d.fail(s, "%s", err)
		return
	}
	*r = rate
}
