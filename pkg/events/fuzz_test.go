package events

import (
	"reflect"
	"strings"
	"testing"
)

// A message that another program publishes is read whole or refused, and what was read is
// written as it was.
func FuzzMessage(f *testing.F) {
	for i, mt := range Types() {
		m := Message{Subject: mt.Subjects[0], ID: mt.ID, Source: "/holdfast/test", Type: mt.Type, Namespace: "default", MsgID: "a b", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
		body, err := Marshal(mt.New())
		if err != nil {
			f.Fatal(err)
		}
		var head strings.Builder
		for name, values := range EncodeHeaders(m) {
			head.WriteString(name + ": " + values[0] + "\n")
		}
		f.Add(uint8(i), head.String(), []byte(body))
	}
	f.Add(uint8(0), "CE-ID: %\n", []byte("null"))
	f.Fuzz(func(t *testing.T, which uint8, head string, data []byte) {
		headers := map[string][]string{}
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			headers[name] = append(headers[name], value)
		}
		if m, err := DecodeHeaders("hf.run.x", headers, data); err == nil {
			again, err := DecodeHeaders("hf.run.x", EncodeHeaders(m), data)
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("%+v is read again as %+v, %v", m, again, err)
			}
		}
		mt := Types()[int(which)%len(Types())]
		v := mt.New()
		if Decode(Message{Type: mt.Type, Data: data}, v) != nil {
			return
		}
		// A body is JSON of its own once it was read: what cannot be sent on would hold a relay up.
		if Check(data) == nil {
			if _, err := Marshal(v); err != nil {
				t.Errorf("%s was read and cannot be written: %v", mt.Type, err)
			}
		}
	})
}
