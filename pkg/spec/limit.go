package spec

// Limit is how much a Budget allows, in millionths of its unit: 400000 tokens,
// 2.50 dollars.
type Limit int64

// maxLimit bounds a limit in whole units.
const maxLimit = 1_000_000_000_000

// Whole is the limit in whole units.
func (x Limit) Whole() int64 { return int64(x) / 1e6 }

// String is the shortest form that reads back as the same limit.
func (x Limit) String() string { return MicroUSD(x).String() }

// MarshalJSON writes a whole limit as a number and any other as text: equal
// limits have one digest, and no amount becomes a float.
func (x Limit) MarshalJSON() ([]byte, error) {
	if x%1e6 == 0 {
		return []byte(x.String()), nil
	}
	return quote(x.String()), nil
}

// readNode reads the digits as they are written.
func (x *Limit) readNode(d *decoder, s spot) {
	if s.n.kind != numberNode && s.n.kind != textNode {
		d.fail(s, "expected an amount like 400000 or \"2.50\", found %s", describe(s.n))
		return
	}
	v, ok := parseMicros(s.n.text, maxLimit)
	if !ok || v == 0 {
		d.fail(s, "%q is not an amount like 400000 or \"2.50\", more than 0, at most six digits behind the point and at most %d", shorten(s.n.text), int64(maxLimit))
		return
	}
	*x = Limit(v)
}
