package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// A long journal is printed page by page: what was read is out before the next page is
// asked for, and the whole is the one document that it always was.
func TestRunsGet_AJournalIsPrintedPageByPage(t *testing.T) {
	t.Parallel()
	const rows, pages = 3, 4
	var out bytes.Buffer
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := strings.Count(out.String(), `"seq"`); n != asked*rows {
			t.Errorf("%d rows are out when page %d is asked for", n, asked)
		}
		if want := map[bool]string{true: "", false: fmt.Sprint("c", asked)}[asked == 0]; r.URL.Query().Get("cursor") != want {
			t.Errorf("page %d is asked for with %s", asked, r.URL.RawQuery)
		}
		var page client.Page[client.Event]
		for i := range rows {
			page.Items = append(page.Items, client.Event{Seq: int64(asked*rows + i + 1), Kind: "tool_completed", Data: json.RawMessage(`{"a":"<b>","n":12345678901234567890}`)})
		}
		if asked++; asked < pages {
			page.NextCursor = fmt.Sprint("c", asked)
		}
		_ = json.NewEncoder(w).Encode(page) // the command says what did not come
	}))
	t.Cleanup(s.Close)
	api, err := client.New(client.Config{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	get := &RunsGetCmd{Journal: true}
	get.JSON = true
	if err := get.journal(t.Context(), &out, api, "r"); err != nil {
		t.Fatal(err)
	}
	var got client.Page[client.Event]
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Items) != rows*pages {
		t.Fatalf("%d rows, %v\n%s", len(got.Items), err, out.Bytes())
	}
	for _, items := range [][]client.Event{got.Items, {}} {
		var want, have bytes.Buffer
		if err := printJSON(&want, client.Page[client.Event]{Items: items}); err != nil {
			t.Fatal(err)
		}
		list := jsonItems{w: &have}
		for _, e := range items {
			if err := list.add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := list.end(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), have.String()); diff != "" {
			t.Errorf("printed in one piece and in many (-want +got):\n%s", diff)
		}
	}
}
