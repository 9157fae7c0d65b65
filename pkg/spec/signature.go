package spec

import (
	"regexp"
	"strings"
)

// Signature describes how a sender signs that this release does not know by
// name. What is absent has the provider's default.
type Signature struct {
	Header    string `json:"header,omitempty"`    // holds the signature, or the token of bearer
	Prefix    string `json:"prefix,omitempty"`    // before the signature: "sha256="
	Encoding  string `json:"encoding,omitempty"`  // hex (default) or base64
	Algorithm string `json:"algorithm,omitempty"` // sha1, sha256 (default) or sha512
	// Signed is the text that is signed, over {method}, {url}, {timestamp}, {id}
	// and {body}. Default "{body}", with TimestampHeader "{timestamp}.{body}".
	Signed          string `json:"signed,omitempty"`
	TimestampHeader string `json:"timestampHeader,omitempty"` // holds the signed time
	TimestampUnit   string `json:"timestampUnit,omitempty"`   // s (default), ms or rfc3339
	IDHeader        string `json:"idHeader,omitempty"`        // holds the delivery's id, the same on each retry
}

type givenField struct {
	name, value string
	given       bool
}

func (x *Signature) given() []givenField {
	if x == nil {
		x = &Signature{}
	}
	fields := []givenField{
		{name: "header", value: x.Header}, {name: "prefix", value: x.Prefix}, {name: "encoding", value: x.Encoding},
		{name: "algorithm", value: x.Algorithm}, {name: "signed", value: x.Signed}, {name: "timestampHeader", value: x.TimestampHeader},
		{name: "timestampUnit", value: x.TimestampUnit}, {name: "idHeader", value: x.IDHeader},
	}
	for i := range fields {
		fields[i].given = fields[i].value != ""
	}
	return fields
}

var placeholderPattern = regexp.MustCompile(`\{[^{}]*\}?`)

func (x *Signature) check(d *decoder, s spot, publicURL string) {
	for _, f := range x.given() {
		switch at := s.at(f.name); {
		case !f.given:
		case f.name == "encoding":
			d.oneOf(at, f.value, "hex", "base64")
		case f.name == "algorithm":
			d.oneOf(at, f.value, "sha1", "sha256", "sha512")
		case f.name == "timestampUnit":
			d.oneOf(at, f.value, "s", "ms", "rfc3339")
		case f.name == "prefix" || f.name == "signed":
			if len(f.value) > 200 {
				d.fail(at, "has %d bytes; at most 200 are allowed", len(f.value))
			}
		case !headerPattern.MatchString(f.value):
			d.fail(at, "%q is not the name of a header", shorten(f.value))
		}
	}
	if x.TimestampUnit != "" && x.TimestampHeader == "" {
		d.fail(s.at("timestampUnit"), "means nothing without timestampHeader")
	}
	if x.Signed == "" {
		return
	}
	at := s.at("signed")
	has := map[string]bool{}
	for _, p := range placeholderPattern.FindAllString(x.Signed, -1) {
		name := strings.Trim(p, "{}")
		if has[name] = true; !strings.HasSuffix(p, "}") || !isPlaceholder(name) {
			d.fail(at, "%s cannot stand here; it can be {method}, {url}, {timestamp}, {id}, {body}", shorten(p))
			return
		}
	}
	switch {
	case !has["body"]:
		d.fail(at, "must hold {body}: what is not signed can be changed on the way")
	case has["timestamp"] != (x.TimestampHeader != ""):
		d.fail(at, "{timestamp} and timestampHeader need each other: a time that is not signed proves nothing")
	case has["id"] && x.IDHeader == "":
		d.fail(at, "{id} needs idHeader")
	case has["url"] && publicURL == "":
		d.fail(at, "{url} needs publicURL: this end cannot know what the sender calls it")
	}
}

func isPlaceholder(name string) bool {
	switch name {
	case "method", "url", "timestamp", "id", "body":
		return true
	}
	return false
}
