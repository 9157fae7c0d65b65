package tools

import "testing"

// What is posted settles an effect only while nothing else has, and only from the
// attempt in force; where the key is honoured, a success may come from an older one.
func TestAwaited_Counts(t *testing.T) {
	t.Parallel()
	in := func(epoch int64, state, settledBy string, live, shared bool) Awaited {
		return Awaited{Epoch: epoch, Live: live, Shared: shared, Effect: Effect{State: state, SettledBy: settledBy, Claim: Claim{Epoch: 2}}}
	}
	for name, tc := range map[string]struct {
		of      Awaited
		verdict Verdict
		want    bool
	}{
		"the attempt in force":                {in(2, EffectIntent, "", true, false), Happened, true},
		"it failed":                           {in(2, EffectIntent, "", true, false), Refused, true},
		"an open doubt":                       {in(2, EffectUnknown, "", true, false), Happened, true},
		"a doubt that a person has settled":   {in(2, EffectUnknown, "ann", true, false), Happened, false},
		"it has succeeded":                    {in(2, EffectSucceeded, "", true, false), Happened, false},
		"it has failed":                       {in(2, EffectFailed, "", true, false), Happened, false},
		"its address is over":                 {in(2, EffectIntent, "", false, true), Happened, false},
		"an older attempt":                    {in(1, EffectIntent, "", true, false), Happened, false},
		"an older attempt of the same key":    {in(1, EffectIntent, "", true, true), Happened, true},
		"an older one of the key that failed": {in(1, EffectIntent, "", true, true), Refused, false},
	} {
		if got := tc.of.Counts(tc.verdict); got != tc.want {
			t.Errorf("%s: counts %v, want %v", name, got, tc.want)
		}
	}
}
