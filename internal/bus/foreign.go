package bus

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// withEnvelope completes the headers of a message from another program.
func withEnvelope(headers map[string][]string, meta *nats.MsgMetadata) map[string][]string {
	have := map[string]string{}
	for k, v := range headers {
		if len(v) > 0 {
			have[strings.ToLower(k)] = v[0]
		}
	}
	if have["ce-specversion"] != "" && have["ce-id"] != "" {
		return headers
	}
	full := maps.Clone(headers)
	if full == nil {
		full = map[string][]string{}
	}
	id := have["ce-id"]
	if id == "" {
		id = have[strings.ToLower(events.HeaderMsgID)]
	}
	if id == "" {
		// The sequence alone begins again when NATS loses its data.
		id = fmt.Sprintf("%s:%d:%d", meta.Stream, meta.Sequence.Stream, meta.Timestamp.UnixNano())
	}
	set := func(name, value string) {
		if have[name] == "" {
			full[name] = []string{value}
		}
	}
	set("ce-specversion", "1.0")
	set("ce-id", id)
	set("ce-source", "nats")
	set("ce-type", events.TypeStartRequest)
	set("ce-time", meta.Timestamp.UTC().Format(time.RFC3339Nano))
	return full
}
