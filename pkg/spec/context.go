package spec

// DefaultKeep is how many of the newest answers stay word for word when a
// conversation is shortened.
const DefaultKeep = 4

// AgentContext lets long conversations be shortened: what is old is replaced by
// the model's own summary.
type AgentContext struct {
	// CompactAt is how many tokens of input the next request may have at most before
	// that; zero means only when the provider says that the window is full.
	CompactAt int64 `json:"compactAt,omitempty"`
	// Keep is how many of the newest answers stay as they are, each with the results
	// of its calls.
	Keep *int64 `json:"keep,omitempty"`
}

func (c *AgentContext) fill() {
	if c != nil && c.Keep == nil {
		n := int64(DefaultKeep)
		c.Keep = &n
	}
}

func (c *AgentContext) check(d *decoder, s spot) {
	if c == nil {
		return
	}
	if c.CompactAt != 0 {
		d.between(s.at("compactAt"), c.CompactAt, 1000, 1_000_000_000)
	}
	if c.Keep != nil {
		d.between(s.at("keep"), *c.Keep, 0, 1000)
	}
}

// Kept is how many answers stay.
func (c *AgentContext) Kept() int {
	if c.Keep == nil {
		return DefaultKeep
	}
	return int(*c.Keep)
}
