package spec

import (
	"strconv"
	"strings"
)

// MicroUSD is an amount in millionths of a US dollar, written as a number of
// dollars with at most six digits behind the point: "3", "0.075".
type MicroUSD int64

// maxDollars bounds an amount.
const maxDollars = 1_000_000

// String is the shortest form that reads back as the same amount.
func (x MicroUSD) String() string {
	whole, part := strconv.FormatInt(int64(x)/1e6, 10), strconv.FormatInt(1e6+int64(x)%1e6, 10)[1:]
	if part = strings.TrimRight(part, "0"); part == "" {
		return whole
	}
	return whole + "." + part
}

// MarshalJSON writes the form of String, so that equal amounts have one digest.
func (x MicroUSD) MarshalJSON() ([]byte, error) { return quote(x.String()), nil }

// readNode reads the digits as they are written: no amount passes a float.
func (x *MicroUSD) readNode(d *decoder, s spot) {
	if s.n.kind != numberNode && s.n.kind != textNode {
		d.fail(s, "expected an amount in dollars like \"3\" or \"0.075\", found %s", describe(s.n))
		return
	}
	v, ok := ParseMicroUSD(s.n.text)
	if !ok {
		d.fail(s, "%q is not an amount in dollars like \"3\" or \"0.075\", at most six digits behind the point and at most %d", shorten(s.n.text), maxDollars)
		return
	}
	*x = v
}

// ParseMicroUSD reads an amount as definitions write it.
func ParseMicroUSD(text string) (MicroUSD, bool) {
	v, ok := parseMicros(text, maxDollars)
	return MicroUSD(v), ok
}

// parseMicros reads a decimal number of at most most as millionths.
func parseMicros(text string, most int64) (int64, bool) {
	whole, part, point := strings.Cut(text, ".")
	if len(part) > 6 || point && part == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || units > most {
		return 0, false
	}
	micro, err := strconv.ParseInt((part + "000000")[:6], 10, 64)
	if err != nil || units == most && micro > 0 {
		return 0, false
	}
	return units*1e6 + micro, true
}

// Prices are what a million tokens cost. Reasoning is output.
type Prices struct {
	Input MicroUSD `json:"input"` // dollars for a million tokens
	// CachedRead and CachedWrite are of input that the provider read from and
	// wrote to its cache; absent means Input.
	CachedRead  *MicroUSD `json:"cachedRead,omitempty"`
	CachedWrite *MicroUSD `json:"cachedWrite,omitempty"` // of input that the provider stores for later; absent: Input
	Output      MicroUSD  `json:"output"`                // dollars for a million tokens
}

// ReadPrice is the price of input that came from the provider's cache.
func (p *Prices) ReadPrice() MicroUSD { return orElse(p.CachedRead, p.Input) }

// WritePrice is the price of input that went into the provider's cache.
func (p *Prices) WritePrice() MicroUSD { return orElse(p.CachedWrite, p.Input) }

func orElse(x *MicroUSD, other MicroUSD) MicroUSD {
	if x == nil {
		return other
	}
	return *x
}

func (p *Prices) check(d *decoder, s spot) {
	if p == nil {
		return
	}
	for _, name := range []string{"input", "output"} {
		d.require(s.at(name), s.n.find(name) != nil, "dollars for a million tokens, like \"3\" or \"0.075\"")
	}
}
