package approvals

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Similarity names everything that asks for the same with other values: the same
// kind, tool, names of arguments (inner ones too) with the same JSON types, and
// names of labels. Lists are alike when the sorts of things in them are. It is
// pure, and says nothing about a value.
func Similarity(kind, tool string, args json.RawMessage, labels map[string]string) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if d.Decode(&v) != nil {
		v = nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast/similar/v1\n%q\n%q\n%q\n", kind, tool, slices.Sorted(maps.Keys(labels)))
	shape(&b, v)
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:12])
}

func shape(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(b, "%q:", k)
			shape(b, v[k])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case []any:
		sorts := map[string]bool{}
		for _, item := range v {
			var one strings.Builder
			shape(&one, item)
			sorts[one.String()] = true
		}
		b.WriteByte('[')
		for _, s := range slices.Sorted(maps.Keys(sorts)) {
			b.WriteString(s + ",")
		}
		b.WriteByte(']')
	case string:
		b.WriteByte('s')
	case json.Number:
		b.WriteByte('n')
	case bool:
		b.WriteByte('b')
	default:
		b.WriteByte('0')
	}
}
