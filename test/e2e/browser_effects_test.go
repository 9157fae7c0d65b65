package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/client"
)

// A person settles in a real browser what is in doubt, stops a tool and lets it go on,
// takes a delivery again and pauses a schedule, light, dark and on a phone.
func personSettles(t *testing.T, d *deployment) {
	begun := d.send(t, http.MethodPost, "/v1/effects", d.token, []byte(`{"key":"label/20418","tool":"browser_act","args":{"order":20418,"weight":1.250},"holder":"printer-1","lease_seconds":1,"on_doubt":"ask"}`), map[string]string{"Content-Type": "application/json"})
	var effect struct {
		ID string `json:"effect_id"`
	}
	if err := json.Unmarshal(begun.body, &effect); err != nil || effect.ID == "" {
		t.Fatalf("%d %s", begun.status, begun.body)
	}
	delivered, err := d.deliver(t, "/hooks/jobs", "browser-delivery", job{Job: "browser-delivery", Do: []string{"read"}}.input())
	if err != nil || delivered.status != http.StatusAccepted {
		t.Fatal(delivered.status, string(delivered.body), err)
	}

	b := browsertest.New(t)
	b.Open(d.edge + "/ui/sign-in")
	b.Type("#token", d.newToken(t, "settler", "admin"))
	b.Click("button[type=submit]")
	b.Sees("h1", "Runs")
	look := func(where string) { t.Helper(); look(t, b, where) }

	b.Open(d.edge + "/ui/stops")
	b.Click("#sc-tool")
	b.Type("#sname", "program/browser_act")
	b.Type("#snote", "the printer is on fire")
	b.Click(`form[action="/ui/stops"] button`)
	b.Sees("h2.say", "Stop all writes of tool program/browser_act?")
	look("stop-asks")
	b.Click("button[name=sure]")
	b.Sees("[role=status].note", "Stopped.")
	b.Sees("#stops-now", "the printer is on fire")
	look("stops")
	b.Click(`#stops-now a.btn[href^="/ui/stops/stop-"]`)
	b.Sees("h2.say", "Lift the stop of tool program/browser_act?")
	b.Click("button[name=sure]")
	b.Sees("[role=status].note", "Lifted.")

	b.Click(`nav a[href="/ui/triggers"]`)
	b.Sees("h1", "Triggers")
	look("triggers")
	b.Open(d.edge + "/ui/triggers/schedules/nightly")
	b.Type("#note", "audit until Monday")
	b.Click("button[value=pause]")
	b.Sees("#schedule-head", "Paused by settler")
	look("schedule")
	b.Click("button[value=resume]")
	b.Sees("h2.say", "Let nightly fire again?")
	b.Click("button[name=sure]")
	b.Sees("#schedule-head", "active")
	page, err := d.operator.Deliveries(t.Context(), client.DeliveryFilter{Webhook: "jobs"}, client.PageRequest{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, x := range page.Items {
		if strings.Contains(x.DedupeKey, "browser-delivery") {
			id = x.DeliveryID
		}
	}
	b.Open(d.edge + "/ui/triggers/deliveries?webhook=jobs")
	look("deliveries")
	b.Open(d.edge + "/ui/triggers/deliveries/" + id)
	b.Click(`form[action^="/ui/triggers/deliveries/"] button`)
	b.Sees("h2.say", "Take this request again?")
	b.Click("button[name=sure]")
	b.Sees("[role=status].note", "It has its run already")
	look("delivery")

	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if e, err := d.operator.Effect(t.Context(), effect.ID); err == nil && e.State == "unknown" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the act never came in doubt")
		}
	}
	b.Click(`nav a[href="/ui/effects"]`)
	b.Sees("#effects-doubt", "Did program/browser_act happen: order 20418, weight 1.250?")
	look("effects")
	b.Open(d.edge + "/ui/effects/" + effect.ID)
	look("effect")
	b.Click("#v-happened")
	b.Type("#evidence", "the label lies here")
	b.Type("#result", `{"label":98765432109876543210}`)
	b.Click("#settle button")
	b.Sees("h2.say", "You say: it happened.")
	b.Sees("form ul", "The key is used up")
	look("settle")
	b.Click("button[name=sure]")
	b.Sees("#effect-head", "settler says so")
	if e, err := d.operator.Effect(t.Context(), effect.ID); err != nil || e.SettledBy != "settler" || string(e.Result) != `{"label":98765432109876543210}` {
		t.Errorf("%+v, %v", e, err)
	}
}
