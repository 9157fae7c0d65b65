package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Message is one message on the bus: CloudEvents 1.0 attributes, which travel
// as ce- headers (binary mode of the NATS protocol binding), and a JSON body.
type Message struct {
	Subject string // built by this package's subject functions
	// MsgID is Nats-Msg-Id. It only trims repeats inside the stream's window; a
	// nudge carries a fresh one. Never a cause.
	MsgID string

	ID        string    // ce-id: the logical id, the cause that receivers record. Stable over every re-publish.
	Source    string    // ce-source: "/services/runner"
	Type      string    // ce-type: "holdfast.run.start.v1"
	About     string    // ce-subject: the run, call or approval that it is about; may be empty
	Time      time.Time // ce-time: when the fact was committed; UTC
	Namespace string    // ce-namespace (extension attribute)
	// TraceParent is the W3C trace context of the sender; empty for none.
	TraceParent string

	Data json.RawMessage
}

// Received is a Message as a consumer got it.
type Received struct {
	Message
	Stream    string
	StreamSeq uint64
	// Delivered counts deliveries of this message, from 1. It also rises on a
	// shutdown, so it is a hint and never a count of failed attempts.
	Delivered uint64
}

// Redelivered reports whether somebody may have worked on this message before.
func (r Received) Redelivered() bool { return r.Delivered > 1 }

// Header names of the envelope, in the exact case that is written. NATS headers
// are case-sensitive: read them through DecodeHeaders.
const (
	HeaderMsgID       = "Nats-Msg-Id"
	HeaderTraceParent = "traceparent"
)

// ErrEnvelope is wrapped by every error of DecodeHeaders.
var ErrEnvelope = errors.New("invalid envelope")

// EncodeHeaders returns the headers of m. Values are percent-encoded as the
// CloudEvents NATS binding wants: space, '"', '%' and everything outside
// U+0021-U+007E.
func EncodeHeaders(m Message) map[string][]string {
	h := map[string][]string{
		"ce-specversion":     {"1.0"},
		"ce-id":              {encodeValue(m.ID)},
		"ce-source":          {encodeValue(m.Source)},
		"ce-type":            {encodeValue(m.Type)},
		"ce-datacontenttype": {"application/json"},
	}
	set := func(k, v string) {
		if v != "" {
			h[k] = []string{encodeValue(v)}
		}
	}
	set("ce-subject", m.About)
	set("ce-namespace", m.Namespace)
	if !m.Time.IsZero() {
		set("ce-time", m.Time.UTC().Format(time.RFC3339Nano))
	}
	if m.MsgID != "" {
		h[HeaderMsgID] = []string{encodeValue(m.MsgID)}
	}
	if m.TraceParent != "" {
		h[HeaderTraceParent] = []string{m.TraceParent}
	}
	return h
}

// DecodeHeaders reads an envelope, whatever the case of the header names. It
// fails when a required attribute is absent or a value is not valid UTF-8.
func DecodeHeaders(subject string, headers map[string][]string, data []byte) (Message, error) {
	get := func(name string) (string, error) {
		for k, v := range headers {
			if strings.EqualFold(k, name) && len(v) > 0 {
				return decodeValue(v[0])
			}
		}
		return "", nil
	}
	m := Message{Subject: subject, Data: json.RawMessage(data)}
	var version, at string
	var errs []error
	for name, to := range map[string]*string{
		"ce-specversion": &version, "ce-id": &m.ID, "ce-source": &m.Source, "ce-type": &m.Type,
		"ce-subject": &m.About, "ce-namespace": &m.Namespace, "ce-time": &at,
		HeaderMsgID: &m.MsgID, HeaderTraceParent: &m.TraceParent,
	} {
		v, err := get(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: header %s: %w", ErrEnvelope, name, err))
		}
		*to = v
	}
	if err := errors.Join(errs...); err != nil {
		return Message{}, err
	}
	switch {
	case version != "1.0":
		return Message{}, fmt.Errorf("%w: ce-specversion is %q, want 1.0", ErrEnvelope, version)
	case m.ID == "" || m.Source == "" || m.Type == "":
		return Message{}, fmt.Errorf("%w: ce-id, ce-source and ce-type are required", ErrEnvelope)
	}
	if at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return Message{}, fmt.Errorf("%w: ce-time: %w", ErrEnvelope, err)
		}
		m.Time = t.UTC()
	}
	return m, nil
}

// Marshal encodes a body without escaping <, > and &, so that the bytes of a
// json.RawMessage inside it survive and digests over them still match. It fails
// only on a value that is not JSON.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode reads the body of m into v, digits of numbers kept where v asks for
// json.Number or json.RawMessage.
func Decode(m Message, v any) error {
	if err := json.Unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("decode %s %s: %w", m.Type, m.ID, err)
	}
	return nil
}

func encodeValue(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func decodeValue(s string) (string, error) {
	v, err := url.PathUnescape(s)
	if err != nil {
		return "", err
	}
	if strings.ToValidUTF8(v, "") != v {
		return "", errors.New("not valid UTF-8")
	}
	return v, nil
}
