package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// Tally is what the pricing API's own file says.
type Tally struct {
	Arrivals   int `json:"arrivals"`
	Effects    int `json:"effects"`    // arrivals that changed a price
	Keys       int `json:"keys"`       // business keys with at least one effect
	Duplicates int `json:"duplicates"` // effects beyond the first of their business key
	Replayed   int `json:"replayed"`   // arrivals that a shop recognised by their key
	Refused    int `json:"refused"`
	Keyless    int `json:"keyless"` // arrivals without an Idempotency-Key
	// PerKey lists every business key in order, Doubled those with more than one
	// effect.
	PerKey  []KeyTally `json:"per_business_key"`
	Doubled []KeyTally `json:"doubled,omitempty"`

	byKey map[string]*KeyTally
}

type KeyTally struct {
	Business string `json:"business_key"`
	Shop     string `json:"shop"`
	Arrivals int    `json:"arrivals"`
	Effects  int    `json:"effects"`
}

// EffectsOf is how often a business key took effect.
func (t Tally) EffectsOf(business string) int {
	if k := slices.IndexFunc(t.PerKey, func(k KeyTally) bool { return k.Business == business }); k >= 0 {
		return t.PerKey[k].Effects
	}
	return 0
}

// ReadTally reads the file at path.
func ReadTally(path string) (Tally, error) {
	f, err := os.Open(path)
	if err != nil {
		return Tally{}, err
	}
	defer f.Close()
	return parseTally(f)
}

// parseTally reads one arrival a line. A line that is not one is an error: an
// oracle that cannot be read proves nothing.
func parseTally(r io.Reader) (Tally, error) {
	t := Tally{byKey: map[string]*KeyTally{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var a Arrival
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return Tally{}, fmt.Errorf("pricing file line %d: %w", n, err)
		}
		if a.N != n {
			return Tally{}, fmt.Errorf("pricing file line %d is arrival %d", n, a.N)
		}
		t.add(a)
	}
	if err := lines.Err(); err != nil {
		return Tally{}, fmt.Errorf("pricing file: %w", err)
	}
	for _, business := range slices.Sorted(maps.Keys(t.byKey)) {
		k := *t.byKey[business]
		t.PerKey = append(t.PerKey, k)
		if k.Effects > 0 {
			t.Keys++
		}
		if k.Effects > 1 {
			t.Duplicates += k.Effects - 1
			t.Doubled = append(t.Doubled, k)
		}
	}
	return t, nil
}

func (t *Tally) add(a Arrival) {
	t.Arrivals++
	if a.Key == "" {
		t.Keyless++
	}
	if a.Refused != "" {
		t.Refused++
		return
	}
	k := t.byKey[a.Business]
	if k == nil {
		k = &KeyTally{Business: a.Business, Shop: a.Shop}
		t.byKey[a.Business] = k
	}
	k.Arrivals++
	if a.Applied {
		k.Effects++
		t.Effects++
		return
	}
	t.Replayed++
}
