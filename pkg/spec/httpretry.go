package spec

import (
	"time"
)

// HTTPRetry says which answers of an http tool are tried again, and when. It
// does not reach what may have happened: inDoubt decides about that.
type HTTPRetry struct {
	// On lists the statuses, 300 to 599, that are tried again because nothing
	// happened, and of a read those of all that fails. Absent: 425 and 429, of a
	// read also 408 and 5xx.
	On []int64 `json:"on,omitempty"`
	// Attempts bounds them, the first one included; default and at most 10.
	Attempts int64 `json:"attempts"`
	// Wait is the pause after the first attempt, doubling up to MaxWait; defaults
	// 500 ms and 1 min. The other side's Retry-After makes it longer.
	Wait    Duration `json:"wait"`
	MaxWait Duration `json:"maxWait"` // of one wait, whatever the other side asks
}

// HTTPArtifact is the address of a thing that a call made elsewhere: a ticket, a
// draft, a file. URI and Title are over ${status}, ${headers...} and ${body...};
// an answer without them leaves no artifact.
type HTTPArtifact struct {
	URI   *Template `json:"uri"`             // where it is
	Kind  string    `json:"kind"`            // a word: "ticket"
	Title *Template `json:"title,omitempty"` // how people see it named
}

// maxHTTPAttempts is also what a call gets without retry.
const maxHTTPAttempts = 10

func (r *HTTPRetry) fill() {
	if r.Attempts == 0 {
		r.Attempts = maxHTTPAttempts
	}
	if r.Wait == 0 {
		r.Wait = Duration(500 * time.Millisecond)
	}
	if r.MaxWait == 0 {
		r.MaxWait = max(r.Wait, Duration(time.Minute))
	}
}

// Waits are the pauses, the last one goes on.
func (r *HTTPRetry) Waits() []time.Duration {
	waits := []time.Duration{r.Wait.Std()}
	for last := r.Wait.Std(); last < r.MaxWait.Std(); {
		last = min(2*last, r.MaxWait.Std())
		waits = append(waits, last)
	}
	return waits
}

// checkAnswer checks what the definition says about answers.
func (h *HTTP) checkAnswer(d *decoder, s spot) {
	values := []string{"status", "headers", "body"}
	d.roots(h.Output, values...)
	if a, at := h.Artifact, s.at("artifact"); a != nil {
		d.require(at.at("uri"), a.URI != nil, "where the thing is, like \"${body.url}\"")
		d.require(at.at("kind"), a.Kind != "", "what the thing is, like ticket")
		if a.Kind != "" {
			d.name(at.at("kind"), a.Kind)
		}
		for name, t := range map[string]*Template{"uri": a.URI, "title": a.Title} {
			if t != nil {
				d.textTemplate(at.at(name), t)
				d.roots(t, values...)
			}
		}
	}
	if h.Success != nil {
		d.compile(s.at("success"), h.Success, values...)
	}
	r, at := h.Retry, s.at("retry")
	if r == nil {
		return
	}
	for _, status := range r.On {
		if status < 300 || status > 599 {
			d.fail(at.at("on"), "%d is not a status from 300 to 599; what a 2xx means is for success to say", status)
		}
	}
	d.between(at.at("attempts"), r.Attempts, 1, maxHTTPAttempts)
	d.within(at.at("wait"), r.Wait, 100*time.Millisecond, time.Hour)
	d.within(at.at("maxWait"), r.MaxWait, r.Wait.Std(), time.Hour)
}
