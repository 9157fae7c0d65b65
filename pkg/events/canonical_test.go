package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// slowCanonical is the canonical form by the book: decoded by encoding/json and
// written again. Canonical must agree with it.
func slowCanonical(raw json.RawMessage) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("%w: invalid UTF-8", ErrCanonical)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	c := canonicalizer{dec: dec}
	if err := c.value("$", 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCanonical, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one value", ErrCanonical)
	}
	if loneSurrogate(raw) {
		return nil, fmt.Errorf("%w: lone surrogate escape", ErrCanonical)
	}
	return c.out.Bytes(), nil
}

type canonicalizer struct {
	dec *json.Decoder
	out bytes.Buffer
}

func (c *canonicalizer) value(path string, depth int) error {
	if depth > 200 {
		return fmt.Errorf("%s: nested deeper than 200", path)
	}
	tok, err := c.dec.Token()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch t := tok.(type) {
	case json.Delim:
		if t == '[' {
			return c.array(path, depth)
		}
		return c.object(path, depth)
	case string:
		return c.text(path, t)
	case json.Number:
		n, err := slowNumber(string(t))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.out.WriteString(n)
	case bool:
		c.out.WriteString(strconv.FormatBool(t))
	case nil:
		c.out.WriteString("null")
	}
	return nil
}

func (c *canonicalizer) array(path string, depth int) error {
	c.out.WriteByte('[')
	for i := 0; c.dec.More(); i++ {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.value(fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	c.out.WriteByte(']')
	return err
}

func (c *canonicalizer) object(path string, depth int) error {
	members := map[string]json.RawMessage{}
	var keys []string
	outer := c.out
	for c.dec.More() {
		tok, err := c.dec.Token()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		key := tok.(string) // the decoder accepts nothing else here
		if _, twice := members[key]; twice {
			return fmt.Errorf("%s: key %q appears twice", path, key)
		}
		c.out = bytes.Buffer{}
		if err := c.value(path+"."+key, depth+1); err != nil {
			return err
		}
		members[key] = bytes.Clone(c.out.Bytes())
		keys = append(keys, key)
	}
	if _, err := c.dec.Token(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.out = outer
	sort.Strings(keys)
	c.out.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.text(path, key); err != nil {
			return err
		}
		c.out.WriteByte(':')
		c.out.Write(members[key])
	}
	c.out.WriteByte('}')
	return nil
}

func (c *canonicalizer) text(path, s string) error {
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s: NUL character", path)
	}
	c.out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			c.out.WriteByte('\\')
			c.out.WriteRune(r)
		case r == '\n':
			c.out.WriteString(`\n`)
		case r == '\r':
			c.out.WriteString(`\r`)
		case r == '\t':
			c.out.WriteString(`\t`)
		case r < 0x20:
			fmt.Fprintf(&c.out, `\u%04x`, r)
		default:
			c.out.WriteRune(r)
		}
	}
	c.out.WriteByte('"')
	return nil
}

// canonicalNumber spells an exact decimal: an integer without exponent up to 40
// digits, else d.ddde±x with no trailing zeros.
func slowNumber(s string) (string, error) {
	mantissa, exp := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > 4096 || e < -4096 {
			return "", fmt.Errorf("number %.40s has an exponent beyond 4096", s)
		}
		mantissa, exp = s[:i], e
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	exp -= len(frac)
	trimmed := strings.TrimRight(digits, "0")
	exp += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0", nil // -0 and 0.00 too
	}
	switch {
	case exp >= 0 && len(trimmed)+exp <= 40:
		return sign + trimmed + strings.Repeat("0", exp), nil
	case exp < 0 && -exp < len(trimmed):
		return sign + trimmed[:len(trimmed)+exp] + "." + trimmed[len(trimmed)+exp:], nil
	case exp < 0 && -exp-len(trimmed) < 20:
		return sign + "0." + strings.Repeat("0", -exp-len(trimmed)) + trimmed, nil
	}
	e := exp + len(trimmed) - 1
	if len(trimmed) == 1 {
		return fmt.Sprintf("%s%se%d", sign, trimmed, e), nil
	}
	return fmt.Sprintf("%s%s.%se%d", sign, trimmed[:1], trimmed[1:], e), nil
}

// loneSurrogate finds a \ud800-\udfff escape that is not half of a pair; the
// decoder would replace it silently.
func loneSurrogate(raw []byte) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if raw[i+1] != 'u' {
			i++
			continue
		}
		hi, ok := slowHex4(raw, i+2)
		if !ok {
			return false
		}
		i += 5
		switch {
		case hi >= 0xd800 && hi < 0xdc00:
			lo, ok := uint64(0), false
			if i+2 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
				lo, ok = slowHex4(raw, i+3)
			}
			if !ok || lo < 0xdc00 || lo > 0xdfff {
				return true
			}
			i += 6
		case hi >= 0xdc00 && hi < 0xe000:
			return true
		}
	}
	return false
}

func slowHex4(raw []byte, at int) (uint64, bool) {
	if at+4 > len(raw) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[at:at+4]), 16, 32)
	return n, err == nil
}

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

// both holds the scanner against the book: what is refused, every byte of what is
// not, and the values of a decoder that reads the canonical form.
func both(t *testing.T, text string) (refused bool) {
	t.Helper()
	raw := json.RawMessage(text)
	want, refusal := slowCanonical(raw)
	got, err := Canonical(raw)
	value, verr := Value(raw)
	if cerr := Check(raw); (refusal == nil) != (err == nil) || (refusal == nil) != (cerr == nil) || (refusal == nil) != (verr == nil) {
		t.Fatalf("%s: Canonical says %v, Check %v, Value %v, the book %v", text, err, cerr, verr, refusal)
	}
	if refusal != nil {
		if !errors.Is(err, ErrCanonical) {
			t.Fatalf("%s: %v is not ErrCanonical", text, err)
		}
		return true
	}
	if string(got) != string(want) {
		t.Fatalf("%s becomes %s, want %s", text, got, want)
	}
	dec := json.NewDecoder(bytes.NewReader(want))
	dec.UseNumber()
	var decoded any
	if err := dec.Decode(&decoded); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if !reflect.DeepEqual(value, decoded) {
		t.Fatalf("%s has the value %#v, want %#v", text, value, decoded)
	}
	return false
}

// Canonical, Check and Value refuse what the book refuses and keep what it keeps.
func TestCanonical_ByTheBook(t *testing.T) {
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
		if n := len(text); n > 0 && rnd.IntN(4) == 0 { // one byte of it is another
			i := rnd.IntN(n)
			text = text[:i] + string([]byte{byte(rnd.IntN(256))}) + text[i+1:]
		}
		if both(t, text) {
			refused++
		} else {
			passed++
		}
	}
	if passed < 1000 || refused < 1000 {
		t.Errorf("%d passed and %d were refused: too few to tell", passed, refused)
	}
}

func TestCanonical_Numbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0", "-0", "-0.0", "00", "01", "-", "-a", "1.", ".1", "1.e2", "1e", "1e+", "1E-2", "+1", "0x1", "1_000", "NaN", "Infinity",
		strings.Repeat("9", 40), strings.Repeat("9", 41), "1" + strings.Repeat("0", 39), "1" + strings.Repeat("0", 40), "-" + strings.Repeat("1", 40),
		"1e39", "1e40", "1e4096", "1e-4096", "1e4097", "1e99999999999999999999", "0.000000000000000000001", "123.4500", "1e-5", "12e-1",
		"tru", "truex", "nul", "falsey", "{}x", "[1,]", "[,1]", `{"a":1,}`, `{"a" 1}`, `{1:2}`, `{"a":}`, `"\x"`, `"\u12g4"`, `"\u12"`, "\"\x01\"", `"`, `"\`, "", " ", "\ufeff1",
	} {
		both(t, text)
		both(t, `{"b":`+text+`,"a":[`+text+`]}`)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
	}
	f.Add(`{"a":[{"b":1,"b":2}]}`)
	f.Add(strings.Repeat("[", 202) + strings.Repeat("]", 202))
	f.Fuzz(func(t *testing.T, text string) { both(t, text) })
}

// A large value costs no second copy. It does not run beside other tests, whose
// memory would count.
func TestCheck_CopiesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"many numbers":  "[" + strings.Repeat("0,", 1<<19) + "0]",
		"one long text": `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
		"deep":          strings.Repeat(`{"b":1,"a":`, 150) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 150),
	} {
		raw := json.RawMessage(text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := Check(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(raw))/2 {
			t.Errorf("%s of %d bytes: %d bytes were copied", name, len(raw), took)
		}
	}
}

// sample is a webhook's body.
const sample = `{"type":"order.created","data":{"order":4711,"shop":"shop-17","items":[{"sku":"A-1","count":2}],"note":"a body of about two hundred bytes, as small webhooks have them, with nothing else to say"}}`

func BenchmarkCanonical(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(sample)))
	for b.Loop() {
		if _, err := Canonical(json.RawMessage(sample)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(sample)))
	for b.Loop() {
		if err := Check(json.RawMessage(sample)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValue(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(sample)))
	for b.Loop() {
		if _, err := Value(json.RawMessage(sample)); err != nil {
			b.Fatal(err)
		}
	}
}
