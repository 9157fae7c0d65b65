package spec

// ModelLimits bound how fast the calls of a model begin, in all runners together.
// Zero means no limit.
type ModelLimits struct {
	RequestsPerMinute int64 `json:"requestsPerMinute,omitempty"` // of all runners together
	// TokensPerMinute counts input and output.
	TokensPerMinute int64 `json:"tokensPerMinute,omitempty"`
}

func (l *ModelLimits) check(d *decoder, s spot) {
	if l == nil {
		return
	}
	if *l == (ModelLimits{}) {
		d.fail(s, "limits nothing; give requestsPerMinute, tokensPerMinute or both")
	}
	d.between(s.at("requestsPerMinute"), l.RequestsPerMinute, 0, 1_000_000)
	d.between(s.at("tokensPerMinute"), l.TokensPerMinute, 0, 1_000_000_000)
}
