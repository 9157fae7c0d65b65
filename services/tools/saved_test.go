//go:build !holdfast_broken_ledger

package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// resultOf reads what the model was given for a call.
func resultOf[T any](w *world, c events.CallTool) (out T) {
	w.t.Helper()
	a := w.answer(c.CallID, events.CallSucceeded)
	if err := json.Unmarshal(a.Result, &out); err != nil {
		w.t.Fatalf("result %s: %v", a.Result, err)
	}
	return out
}

type saved struct {
	Artifact, Name, Type, URI string
	Bytes                     int
}

// A worker dies with its intent committed, and with the outcome recorded and not
// yet told: the call saves once, its id is the one that the model was given, and
// what was saved is what is read.
func TestCaseD06_ASavedArtifactUnderKills(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"tools.intent", "tools.recorded"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := events.NewRunID()
			save := callOf(t, run, 2, "save", `{"name":"report.md","type":"text/markdown","text":"one: 9007199254740993\n"}`)
			w.killed(save, point)
			got := resultOf[saved](w, save)
			w.send(save, ":again")
			w.idle()
			if n := w.count(`SELECT count(*) FROM tools.v_artifacts WHERE run_id = $1`, string(run)); n != 1 || got.Artifact != tools.ArtifactID(save.CallID, 0) || got.Bytes != 22 {
				t.Fatalf("%d artifacts, the model was told %+v", n, got)
			}
			if state, _ := w.effect(save); state != tools.EffectSucceeded {
				t.Errorf("the effect is %s", state)
			}
			read := callOf(t, run, 4, "recall", fmt.Sprintf(`{"id":%q}`, got.Artifact))
			w.send(read, "")
			if part := resultOf[struct{ Name, Text string }](w, read); part.Name != "report.md" || part.Text != "one: 9007199254740993\n" {
				t.Errorf("read back %+v", part)
			}
		})
	}
}

// A run reads its own artifacts and no other's, by id, by name or in a list.
func TestArtifacts_OfTheOwnRunOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	mine, other := events.NewRunID(), events.NewRunID()
	secret := callOf(t, other, 2, "save", `{"name":"plan.txt","text":"the other's"}`)
	first := callOf(t, mine, 2, "save", `{"name":"notes.txt","text":"first"}`)
	second := callOf(t, mine, 3, "save", `{"name":"notes.txt","text":"second"}`)
	ticket := callOf(t, mine, 4, "save", `{"uri":"https://tickets.example/42","kind":"ticket","title":"Refund 42"}`)
	for _, c := range []events.CallTool{secret, first, second, ticket} {
		w.send(c, "")
		w.answer(c.CallID, events.CallSucceeded)
	}
	stolen := tools.ArtifactID(secret.CallID, 0)
	for i, args := range []string{fmt.Sprintf(`{"id":%q}`, stolen), `{"name":"plan.txt"}`, `{"id":"a-0"}`} {
		c := callOf(t, mine, 10+i, "recall", args)
		w.send(c, "")
		if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != "no_artifact" {
			t.Errorf("%s: %+v", args, a)
		}
	}
	byName := callOf(t, mine, 20, "recall", `{"name":"notes.txt"}`)
	w.send(byName, "")
	if part := resultOf[struct{ Text string }](w, byName); part.Text != "second" {
		t.Errorf("the newest of the name is %q", part.Text)
	}
	list := callOf(t, mine, 21, "recall", `{}`)
	w.send(list, "")
	found := resultOf[struct{ Artifacts []saved }](w, list)
	if len(found.Artifacts) != 3 || found.Artifacts[0].URI != "https://tickets.example/42" || strings.Contains(fmt.Sprint(found), stolen) {
		t.Errorf("the list has %+v", found.Artifacts)
	}
	if n := w.count(`SELECT count(*) FROM tools.v_artifacts WHERE run_id = $1 AND uri IS NOT NULL AND kind = 'ticket' AND title = 'Refund 42' AND digest IS NULL`, string(mine)); n != 1 {
		t.Errorf("%d tickets are kept", n)
	}
}
