package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// scripted stands for the server, so that the examples run anywhere: it keeps
// one result per key and one state per run.
func scripted() *httptest.Server {
	var mu sync.Mutex
	done, keys := map[string]json.RawMessage{}, map[string]string{}
	state, version := json.RawMessage("null"), 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var body struct {
			Key    string          `json:"key"`
			Result json.RawMessage `json:"result"`
			State  json.RawMessage `json:"state"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		switch path := r.URL.Path; {
		case path == "/v1/effects" && body.Key == "refund/in-doubt":
			fmt.Fprint(w, `{"status":"unknown","effect_id":"e-7","advice":"look at the other side, then holdfast effects resolve e-7"}`)
		case path == "/v1/effects" && done[body.Key] != nil:
			fmt.Fprintf(w, `{"status":"done","result":%s}`, done[body.Key])
		case path == "/v1/effects":
			id := fmt.Sprintf("e-%d", len(keys)+1)
			keys[id] = body.Key
			fmt.Fprintf(w, `{"status":"proceed","effect_id":%q,"key":%q,"fence":1,"lease_ms":30000}`, id, body.Key)
		case strings.HasPrefix(path, "/v1/effects/"):
			done[keys[strings.TrimPrefix(path, "/v1/effects/")]] = body.Result
		case path == "/v1/runs":
			fmt.Fprint(w, `{"run_id":"0198c2aa-0000-7000-8000-000000000001","status":"running"}`)
		case strings.HasSuffix(path, "/checkpoint") && r.Method == http.MethodPut:
			version++
			state = body.State
			fmt.Fprintf(w, `{"version":%d}`, version)
		case strings.HasSuffix(path, "/checkpoint"):
			fmt.Fprintf(w, `{"version":%d,"status":"running","state":%s}`, version, state)
		}
	}))
}

func ExampleClient_Once() {
	server := scripted()
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	refund := func(ctx context.Context, f client.Fence) (any, error) {
		fmt.Println("refunding, with the key", f.Key)
		return map[string]any{"refund": "re_1", "cents": 1250}, nil
	}
	for range 2 { // from this process or another one
		result, err := c.Once(context.Background(), "refund/ch_17", refund)
		fmt.Println(string(result.JSON), result.Stored, err)
	}
	// Output:
	// refunding, with the key refund/ch_17
	// {"cents":1250,"refund":"re_1"} false <nil>
	// {"cents":1250,"refund":"re_1"} true <nil>
}

func ExampleClient_Once_inDoubt() {
	server := scripted()
	defer server.Close()
	c, _ := client.New(client.Config{Server: server.URL})
	_, err := c.Once(context.Background(), "refund/in-doubt", nil)
	if errors.Is(err, client.ErrInDoubt) {
		fmt.Println(err)
	}
	// Output: once "refund/in-doubt": look at the other side, then holdfast effects resolve e-7
}

func ExampleProgram() {
	server := scripted()
	defer server.Close()
	ctx := context.Background()
	c, _ := client.New(client.Config{Server: server.URL})
	run, err := c.StartProgram(ctx, client.ProgramRequest{Name: "nightly", IdempotencyKey: "nightly/2026-11-30"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var state struct{ Step int }
	if saved, err := run.Load(ctx); err != nil {
		fmt.Println(err)
		return
	} else if saved.Version > 0 { // an earlier process came this far
		_ = saved.Decode(&state)
	}
	for ; state.Step < 2; state.Step++ {
		result, err := run.Once(ctx, fmt.Sprintf("step-%d", state.Step), func(context.Context, client.Fence) (any, error) {
			return fmt.Sprintf("did step %d", state.Step), nil
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(result.JSON))
		if err := run.Save(ctx, state); err != nil {
			fmt.Println(err) // client.ErrStale: another process runs the same job
			return
		}
	}
	fmt.Println("ended:", run.Complete(ctx, "done"))
	// Output:
	// "did step 0"
	// "did step 1"
	// ended: <nil>
}
