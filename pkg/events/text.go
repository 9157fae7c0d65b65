package events

import (
	"slices"
	"unicode/utf8"
)

// AppendText appends s as a JSON string, spelled as Marshal spells it. What is
// not UTF-8 becomes the replacement character.
func AppendText(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == 0x7f {
			quoted, _ := Marshal(s) // a string always has a form
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

// AppendObject appends a JSON object of texts and lists of texts, its names in
// order, spelled as Marshal spells it.
func AppendObject[V string | []string](to []byte, object map[string]V) []byte {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	to = append(to, '{')
	for i, name := range names {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(AppendText(to, name), ':')
		to = appendTexts(to, any(object[name]))
	}
	return append(to, '}')
}

func appendTexts(to []byte, value any) []byte {
	list, ok := value.([]string)
	if !ok {
		text, _ := value.(string)
		return AppendText(to, text)
	}
	if list == nil {
		return append(to, "null"...)
	}
	to = append(to, '[')
	for i, text := range list {
		if i > 0 {
			to = append(to, ',')
		}
		to = AppendText(to, text)
	}
	return append(to, ']')
}
