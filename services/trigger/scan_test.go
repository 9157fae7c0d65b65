package trigger

import (
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// pieces are what random JSON is made of: much of it is refused.
var pieces = []string{
	`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"b"`, `"\u0061"`, `""`, `"\u0000"`, `"\\u0000"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83dx"`,
	`"\ud83d\n"`, `"x\ud83d\ud83d\ude00"`, `"\"\\"`, `"ü😀"`, `1`, `-0`, `1e4096`, `1E+4097`, `-1.5e-4097`, `0.10`, `12345678901234567890`, `true`, `false`, `null`, ` `, "\n\t",
}

func randomJSON(rnd *rand.Rand, depth int) string {
	var b strings.Builder
	space := func() {
		if rnd.IntN(5) == 0 {
			b.WriteString(" \n")
		}
	}
	scalar := func(from, to int) string { return pieces[from+rnd.IntN(to-from)] }
	switch n := rnd.IntN(10); {
	case depth > 4 || n < 4:
		b.WriteString(scalar(6, 30))
	case n < 7:
		b.WriteByte('[')
		for i := range rnd.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			b.WriteString(randomJSON(rnd, depth+1))
			space()
		}
		b.WriteByte(']')
	default:
		b.WriteByte('{')
		for i := range rnd.IntN(12) {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			if rnd.IntN(3) == 0 {
				b.WriteString(scalar(6, 20))
			} else {
				b.WriteString(`"k` + string(rune('a'+rnd.IntN(26))) + string(rune('a'+rnd.IntN(26))) + `"`)
			}
			space()
			b.WriteByte(':')
			b.WriteString(randomJSON(rnd, depth+1))
			space()
		}
		b.WriteByte('}')
	}
	return b.String()
}

// The one pass refuses exactly what the canonical form refuses, and says the same.
func TestScanJSON_AsCanonical(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	passed, refused := 0, 0
	for range 60_000 {
		text := randomJSON(rnd, 0)
		if rnd.IntN(4) == 0 { // anything at all
			text = ""
			for range 1 + rnd.IntN(8) {
				text += pieces[rnd.IntN(len(pieces))]
			}
		}
		raw := json.RawMessage(text)
		if !json.Valid(raw) {
			continue
		}
		_, want := events.Canonical(raw)
		got := scanJSON(raw)
		if (want == nil) != (got == nil) {
			t.Fatalf("%s: %v, the canonical form says %v", text, got, want)
		}
		if got == nil {
			passed++
		} else {
			refused++
		}
	}
	if passed < 1000 || refused < 1000 {
		t.Errorf("%d passed and %d were refused: too few to tell", passed, refused)
	}
}

func FuzzScanJSON(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
	}
	f.Add(`{"a":[{"b":1,"b":2}]}`)
	f.Add(strings.Repeat("[", 202) + strings.Repeat("]", 202))
	f.Fuzz(func(t *testing.T, text string) {
		raw := json.RawMessage(text)
		if !utf8.ValidString(text) || !json.Valid(raw) {
			return
		}
		if _, want := events.Canonical(raw); (want == nil) != (scanJSON(raw) == nil) {
			t.Errorf("%q: %v, the canonical form says %v", text, scanJSON(raw), want)
		}
	})
}

// A large value costs no second copy. It does not run beside other tests, whose
// memory would count.
func TestScanJSON_CopiesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"many numbers":  "[" + strings.Repeat("0,", 1<<19) + "0]",
		"one long text": `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
		"deep":          strings.Repeat(`{"b":1,"a":`, 150) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 150),
	} {
		raw := json.RawMessage(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := scanJSON(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(raw))/2 {
			t.Errorf("%s of %d bytes: %d bytes were copied", name, len(raw), took)
		}
	}
}
