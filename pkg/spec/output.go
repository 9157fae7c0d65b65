package spec

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// DefaultRepairs is how often a final answer may be corrected that breaks the
// schema of an agent which does not say.
const DefaultRepairs = 2

// AgentOutput makes the final answer of an agent data.
type AgentOutput struct {
	Schema *Schema `json:"schema"` // of the answer
	// Repairs is how often the model may correct an answer that does not fit.
	Repairs *int64 `json:"repairs,omitempty"`
}

func (o *AgentOutput) fill() {
	if o != nil && o.Repairs == nil {
		n := int64(DefaultRepairs)
		o.Repairs = &n
	}
}

func (o *AgentOutput) check(d *decoder, s spot) {
	if o == nil {
		return
	}
	d.require(s.at("schema"), o.Schema != nil, "the JSON Schema of the final answer")
	if o.Repairs != nil {
		d.between(s.at("repairs"), *o.Repairs, 0, 10)
	}
}

// Limit is how often the answer may be corrected.
func (o *AgentOutput) Limit() int64 {
	if o.Repairs == nil {
		return DefaultRepairs
	}
	return *o.Repairs
}

// outputRules are the wordings of the rule, the oldest first. A run keeps the one that
// it began with: none is ever changed, a better one is added behind the others.
var outputRules = []string{
	"Your final answer must be one JSON value that fits the JSON Schema below, and nothing else: no words before or behind it. " +
		"Only the final answer is held to it, not what you say while you call tools.\n\nJSON Schema:\n",
}

// OutputWording is the wording that runs begin with now; wordings count from 1.
func OutputWording() int { return len(outputRules) }

// Rule tells the model what its final answer has to be, in a wording. 0 is that of runs
// from before it was kept, the first. One that this release does not have is an error:
// another would change what the run's model was told.
func (o *AgentOutput) Rule(wording int) (string, error) {
	if wording = max(wording, 1); wording > len(outputRules) {
		return "", fmt.Errorf("wording %d of the output's rule is of a newer release; this one has %d", wording, len(outputRules))
	}
	return outputRules[wording-1] + string(o.Schema.JSON()), nil
}

// Read is the JSON value that text holds, digit for digit as it is written; a
// code fence around all of it is taken off, and nothing else is. It returns what
// is wrong with it instead: at most 20 sentences of bounded length.
func (o *AgentOutput) Read(text string) (value json.RawMessage, problems []string) {
	raw := json.RawMessage(unfenced(text))
	if err := events.Check(raw); err != nil {
		return nil, []string{fmt.Sprintf("it is not one JSON value (%s)", clip(err.Error()))}
	}
	for _, v := range o.Schema.Validate(raw) {
		problems = append(problems, clip(v.Path)+": "+clip(v.Message))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return raw, nil
}

// unfenced takes one code fence off that stands around all of the text.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	first, rest, lines := strings.Cut(text, "\n")
	if !lines || !strings.HasPrefix(first, "```") || strings.Contains(first[3:], "`") {
		return text
	}
	inside, closed := strings.CutSuffix(rest, "```")
	if !closed || inside != "" && !strings.HasSuffix(inside, "\n") {
		return text
	}
	return strings.TrimSpace(inside)
}
