package webhook

import (
	"encoding/json"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// jsonBody reads a JSON body. Without a Content-Type it is tried as JSON; a type
// that is something else is refused, never dropped.
func jsonBody(r trigger.Request) (json.RawMessage, error) {
	if kind, err := mediaType(r); err != nil {
		return nil, err
	} else if kind != "" && kind != "application/json" && kind != "text/json" && !strings.HasSuffix(kind, "+json") {
		return nil, trigger.Refuse(trigger.CodeMediaType, "the body is %.80s; send application/json", kind)
	}
	if err := trigger.CheckJSON("body", r.Body); err != nil {
		return nil, err
	}
	return r.Body, nil
}

// form reads a form-encoded body; ok is false when it is not one.
func form(r trigger.Request) (fields url.Values, ok bool, err error) {
	kind, err := mediaType(r)
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, false, err
	}
	fields, err = url.ParseQuery(string(r.Body))
	if err != nil {
		return nil, true, trigger.Refuse(trigger.CodeInvalidText, "body: it is not form-encoded: %v", err)
	}
	return fields, true, nil
}

// formPayload is the JSON that a sender put into the form field "payload".
func formPayload(fields url.Values) (json.RawMessage, error) {
	payload := json.RawMessage(fields.Get("payload"))
	return payload, trigger.CheckJSON("form field payload", payload)
}

func mediaType(r trigger.Request) (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return "", nil
	}
	kind, params, err := mime.ParseMediaType(header)
	if err != nil {
		return "", trigger.Refuse(trigger.CodeMediaType, "Content-Type %.80q cannot be read; send application/json", header)
	}
	switch charset := params["charset"]; strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii":
	default:
		return "", trigger.Refuse(trigger.CodeMediaType, "the body is in %.40s; send UTF-8", charset)
	}
	return kind, nil
}

// member is the text of a top-level member of a JSON object, "" when it is
// absent, not text, or the value is not an object.
func member(body json.RawMessage, name string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(object[name], &text) != nil {
		return ""
	}
	return text
}

// formObject turns form fields into a JSON object of texts; a field that comes
// more than once becomes a list of them.
func formObject(fields url.Values) (json.RawMessage, error) {
	object := map[string]any{}
	for name, values := range fields {
		for _, text := range append([]string{name}, values...) {
			if !utf8.ValidString(text) {
				return nil, trigger.Refuse(trigger.CodeInvalidText, "form field %.40q: the text is not valid UTF-8; send UTF-8", name)
			}
		}
		if object[name] = values; len(values) == 1 {
			object[name] = values[0]
		}
	}
	body, err := events.Marshal(object)
	if err != nil {
		return nil, err
	}
	return body, trigger.CheckJSON("body", body)
}

// jsonEvent is the event of a sender that posts JSON and gives its id beside it.
func jsonEvent(r trigger.Request, id string) (trigger.Event, error) {
	body, err := jsonBody(r)
	if err != nil {
		return trigger.Event{}, err
	}
	return trigger.Event{ID: id, Body: body}, nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
