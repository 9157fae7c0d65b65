package kind_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/inbox"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

// service runs a NATS micro service that is a tool.
func service(t *testing.T, s *bustest.Server) {
	t.Helper()
	nc, err := nats.Connect(s.URL().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	svc, err := micro.AddService(nc, micro.Config{Name: "stock", Version: "1.0.0", Description: "Knows the stock."})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name, subject string, metadata map[string]string, f func(micro.Request)) {
		if err := svc.AddEndpoint(name, micro.HandlerFunc(f), micro.WithEndpointSubject(subject), micro.WithEndpointMetadata(metadata)); err != nil {
			t.Fatal(err)
		}
	}
	add("count", "hf.toolsvc.count", map[string]string{kind.MetadataInputSchema: `{"type":"object","properties":{"item":{"type":"string"}}}`},
		func(r micro.Request) {
			headers, err := json.Marshal(r.Headers())
			if err != nil {
				t.Error(err)
			}
			_ = r.Respond(fmt.Appendf(nil, `{"args":%s,"headers":%s}`, r.Data(), headers)) // the asker may be gone
		})
	add("order", "shop.order", map[string]string{kind.MetadataInputSchema: `{"type":"object"}`, kind.MetadataDescription: "Orders more."},
		func(r micro.Request) { _ = r.Respond([]byte("plain text")) })
	add("internal", "shop.internal", nil, func(r micro.Request) { _ = r.Respond(nil) })
	for _, code := range []string{"404", "409", "429", "500"} {
		add("fail"+code, "hf.toolsvc.fail"+code, nil, func(r micro.Request) { _ = r.Error(code, "says "+code, []byte(`{"why":"because"}`)) })
	}
	add("hang", "hf.toolsvc.hang", nil, func(micro.Request) {})
	add("big", "hf.toolsvc.big", nil, func(r micro.Request) { _ = r.Respond([]byte(strings.Repeat("ü", 300_000))) })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestNATS_Outcomes(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	service(t, server)
	k := kind.All(kind.Config{Bus: inbox.Requester(server.Connect(t))})
	ask := func(where, effect, args string, within time.Duration) tools.Outcome {
		def := tool(t, "  effect: "+effect+"\n  nats: {"+where+"}\n")
		for _, k := range k {
			if !k.Runs(def) {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			out := k.Act(ctx, tools.Request{Tool: def, Class: tools.Class(effect), CallID: "call-1", RunID: "run-1", Namespace: "shop", Args: json.RawMessage(args), Key: "run/3/0/t"})
			checkOutcome(t, out)
			return out
		}
		t.Fatal("no kind runs it")
		return tools.Outcome{}
	}
	const args = `{"n":` + bigNumber + `}`
	for _, effect := range []string{"write", "read"} {
		out := ask("service: count", effect, args, 20*time.Second)
		wantOutcome(t, out, tools.Happened, "")
		text := string(out.Result)
		for _, want := range []string{`"args":` + args, `"Holdfast-Call-Id":["call-1"]`, `"Holdfast-Run-Id":["run-1"]`, `"Holdfast-Namespace":["shop"]`, `"Holdfast-Deadline":["2`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the service got %s, without %s", effect, text, want)
			}
		}
		if got := strings.Contains(text, `"Idempotency-Key":["run/3/0/t"]`); got != (effect == "write") {
			t.Errorf("%s: the key was sent: %v", effect, got)
		}
	}
	if out := ask("subject: shop.order", "write", `{}`, 20*time.Second); !strings.Contains(string(out.Result), `"text":"plain text"`) {
		t.Errorf("plain text became %s", out.Result)
	}
	if out := ask("service: big", "read", `{}`, 20*time.Second); len(out.Result) > 300_000 || !strings.Contains(string(out.Result), "cut off") {
		t.Errorf("a big reply of %d bytes is not cut off", len(out.Result))
	}
	out := ask("service: fail404", "write", `{}`, 20*time.Second)
	wantOutcome(t, out, tools.Refused, "service_404")
	if !strings.Contains(out.Error.Message, "says 404") || !strings.Contains(out.Error.Message, "because") {
		t.Errorf("the model reads %q", out.Error.Message)
	}
	wantOutcome(t, ask("service: fail429", "write", `{}`, 20*time.Second), tools.NotSent, "service_429")
	wantOutcome(t, ask("service: fail409", "write", `{}`, 20*time.Second), tools.Ambiguous, "service_error")
	wantOutcome(t, ask("service: fail500", "write", `{}`, 20*time.Second), tools.Ambiguous, "service_error")
	wantOutcome(t, ask("service: nobody", "write", `{}`, 20*time.Second), tools.NotSent, "unreachable")
	wantOutcome(t, ask("service: hang", "write", `{}`, 200*time.Millisecond), tools.Ambiguous, "timeout")
	wantOutcome(t, ask("service: count", "write", `{"x":"`+strings.Repeat("x", 2<<20)+`"}`, 20*time.Second), tools.NotSent, "unreachable")
	server.Stop()
	until(t, "a request is not sent without NATS", func() bool {
		return ask("service: count", "write", `{}`, time.Second).Verdict == tools.NotSent
	})
}

func TestNATS_Offers(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	service(t, server)
	offers := &kind.Offers{Bus: inbox.Requester(server.Connect(t))}
	found, err := offers.NATS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range found {
		got[o.Service+"/"+o.Name] = o.Subject + " " + o.Description
	}
	if len(got) != 2 || got["stock/count"] != "hf.toolsvc.count Knows the stock." || got["stock/order"] != "shop.order Orders more." {
		t.Errorf("offers %v, want the two endpoints with an input schema", got)
	}
	server.Stop()
	until(t, "without NATS there is an error", func() bool {
		_, err := offers.NATS(t.Context())
		_, unready := errors.AsType[*tools.Unready](err)
		return unready
	})
}
