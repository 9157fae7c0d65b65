package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Bounds of a brief: members, characters of one value, and of all.
const (
	briefMembers = 8
	briefValue   = 60
	briefAll     = 180
)

// brief is JSON in a line for people: the members of an object in their order,
// each digit as it came.
func brief(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return clip(plain(raw), briefAll)
	}
	var parts []string
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return clip(string(raw), briefAll)
		}
		if len(parts) == briefMembers {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, clip(name.(string), briefValue)+" "+clip(plain(value), briefValue))
	}
	return clip(strings.Join(parts, ", "), briefAll)
}

// plain is a value without its quotes, when it is a text.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// indented is JSON over several lines, each digit as it came.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
