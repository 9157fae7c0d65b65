package runner

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Spend is what the rows of one commit add to the use of one model.
type Spend struct {
	Model string // name of its document
	Calls int64
	events.Usage
	Cost, Guess int64 // Guess: of Cost, what was counted of estimated usage
}

// Spent sums what rows say about model calls, by model. It counts as the run does
// (state.go): each answer, each billed attempt and each summary once. It is pure.
func Spent(facts []Fact) (out []Spend, err error) {
	for _, f := range facts {
		var body struct {
			Model     string        `json:"model"` // of rows that do not name the document
			ModelName string        `json:"model_name"`
			Usage     *events.Usage `json:"usage"`
			Cost      int64         `json:"cost_micro_usd"`
		}
		switch f.Kind {
		case events.FactModelAnswered, events.FactModelFailed, events.FactContextCompacted:
		default:
			continue
		}
		if err := json.Unmarshal(f.Data, &body); err != nil {
			return nil, fmt.Errorf("row %d: %w", f.Seq, err)
		}
		if body.Usage == nil { // nobody bills it
			continue
		}
		name := body.ModelName
		if name == "" {
			name = body.Model
		}
		var s *Spend
		for i := range out {
			if out[i].Model == name {
				s = &out[i]
			}
		}
		if s == nil {
			out = append(out, Spend{Model: name})
			s = &out[len(out)-1]
		}
		u := *body.Usage
		s.Calls++
		s.InputTokens, s.OutputTokens = addCost(s.InputTokens, u.InputTokens), addCost(s.OutputTokens, u.OutputTokens)
		s.CacheReadTokens, s.CacheWriteTokens = addCost(s.CacheReadTokens, u.CacheReadTokens), addCost(s.CacheWriteTokens, u.CacheWriteTokens)
		s.Cost = addCost(s.Cost, body.Cost)
		if u.Estimated {
			s.Guess = addCost(s.Guess, body.Cost)
		}
	}
	return out, nil
}
