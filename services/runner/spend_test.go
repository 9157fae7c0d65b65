package runner

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestSpent_CountsEachAnswerOnceByModel(t *testing.T) {
	t.Parallel()
	row := func(kind, data string) Fact { return Fact{Kind: kind, Data: json.RawMessage(data)} }
	got, err := Spent([]Fact{
		row(events.FactStarted, `{}`),
		row(events.FactModelAnswered, `{"model":"claude-x","model_name":"claude","usage":{"input_tokens":10,"output_tokens":2,"cache_read_tokens":4},"cost_micro_usd":7}`),
		row(events.FactModelFailed, `{"code":"overloaded"}`),
		row(events.FactModelFailed, `{"code":"cut_off","model_name":"claude","usage":{"input_tokens":10,"output_tokens":1,"estimated":true},"cost_micro_usd":5}`),
		row(events.FactContextCompacted, `{"model":"old-one","usage":{"input_tokens":3,"output_tokens":1},"cost_micro_usd":2}`),
		row(events.FactLateResult, `{"type":"model_answered","data":{"usage":{"input_tokens":99}}}`),
	})
	want := []Spend{
		{Model: "claude", Calls: 2, Usage: events.Usage{InputTokens: 20, OutputTokens: 3, CacheReadTokens: 4}, Cost: 12, Guess: 5},
		{Model: "old-one", Calls: 1, Usage: events.Usage{InputTokens: 3, OutputTokens: 1}, Cost: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	most := row(events.FactModelAnswered, `{"usage":{"input_tokens":9223372036854775807},"cost_micro_usd":9223372036854775807}`)
	if got, err = Spent([]Fact{most, most}); err != nil || got[0].Cost != math.MaxInt64 || got[0].InputTokens != math.MaxInt64 {
		t.Errorf("absurd sums: %+v, %v", got, err)
	}
}
