package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// Shops of the oracle: how the other side of each tool behaves.
const (
	shopKeyed = "shop-01" // honours the key: sent again after a doubt
	shopBlind = "shop-20" // does not: a person is asked
	shopMute  = "shop-30" // acts and answers 502: it is looked up
)

// world is everything that is not Holdfast: the other side, the model, a program that
// is told of approvals. It is safe for concurrent use.
type world struct {
	oracle   *lab.Oracle
	file     string // of the oracle
	model    *scriptmodel.Server
	url      string // of the other side
	modelURL string

	mu      sync.Mutex
	held    map[string]chan struct{} // conversations whose answers are held, by job
	think   time.Duration
	told    map[string]bool // ids of what people were told
	servers []*http.Server
}

func openWorld(dir string) (*world, error) {
	w := &world{file: filepath.Join(dir, "effects.jsonl"), held: map[string]chan struct{}{}, told: map[string]bool{}}
	var err error
	if w.oracle, err = lab.OpenOracle(w.file, func(shop string) bool { return shop == shopKeyed }); err != nil {
		return nil, err
	}
	w.model = scriptmodel.New(scriptmodel.Config{
		Script: script,
		Key: func(r scriptmodel.Request) string {
			j, err := jobOf(r)
			if err != nil {
				return "unknown"
			}
			return j.Job
		},
		Fault: func(scriptmodel.Request, int) scriptmodel.Fault {
			w.mu.Lock()
			defer w.mu.Unlock()
			return scriptmodel.Fault{Delay: w.think}
		},
		BeforeAnswer: w.beforeAnswer,
	})
	mux := http.NewServeMux()
	mux.Handle("POST /shops/{shop}/prices", w.oracle)
	mux.HandleFunc("POST /mute/{shop}/prices", w.mute)
	mux.HandleFunc("GET /effects", w.lookup)
	mux.HandleFunc("POST /told", w.tell)
	for _, part := range []struct {
		url     *string
		handler http.Handler
	}{{&w.url, mux}, {&w.modelURL, w.model}} {
		url, server, err := lab.Serve(part.handler)
		if err != nil {
			w.close()
			return nil, err
		}
		w.servers = append(w.servers, server)
		*part.url = url
	}
	return w, nil
}

func (w *world) close() {
	for _, s := range w.servers {
		_ = s.Close()
	}
	_ = w.oracle.Close()
}

// tell is the program behind every channel.
func (w *world) tell(_ http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[r.Header.Get("webhook-id")] = true
}

// wasTold reports whether people were told of an approval, in the notice of this name.
func (w *world) wasTold(approval, notice string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[approval+"-"+notice]
}

// mute lets the oracle act and says nothing of it.
func (w *world) mute(rw http.ResponseWriter, r *http.Request) {
	w.oracle.ServeHTTP(discard{http.Header{}}, r)
	http.Error(rw, "the gateway has lost the answer", http.StatusBadGateway)
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// lookup answers 200 when a business key took effect, else 404.
func (w *world) lookup(rw http.ResponseWriter, r *http.Request) {
	if w.effects(r.URL.Query().Get("key")) == 0 {
		http.Error(rw, `{"effects":0}`, http.StatusNotFound)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprint(rw, `{"done":true}`)
}

// effects is how often a business key took effect.
func (w *world) effects(business string) int {
	t, err := lab.ReadTally(w.file)
	if err != nil {
		return 0
	}
	return t.EffectsOf(business)
}

// hold keeps back the model's answers to jobs until what it returns is called.
func (w *world) hold(jobs ...string) (release func()) {
	open := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range jobs {
		w.held[j] = open
	}
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, j := range jobs {
			delete(w.held, j)
		}
		close(open)
	})
}

func (w *world) beforeAnswer(ctx context.Context, e scriptmodel.Exchange) {
	w.mu.Lock()
	open := w.held[e.Key]
	w.mu.Unlock()
	if open == nil {
		return
	}
	select {
	case <-open:
	case <-ctx.Done():
	}
}

func (w *world) thinks(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.think = d
}

// job is the input of every agent's run: its name, and the tools that the model calls,
// one an answer.
type job struct {
	Job string   `json:"job"`
	Do  []string `json:"do"`
}

// business are the keys that must take effect once.
func (j job) business() (keys []string) {
	for _, tool := range j.Do {
		if shop := shopOf[tool]; shop != "" {
			keys = append(keys, j.Job+"/"+shop+"/"+tool)
		}
	}
	return keys
}

// shopOf says where a tool acts.
var shopOf = map[string]string{"pay": shopKeyed, "send": shopBlind, "order": shopBlind, "ship": shopBlind, "refund": shopMute}

func (j job) json() json.RawMessage {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // two fields of text
	}
	return b
}

func jobOf(r scriptmodel.Request) (job, error) {
	text := r.FirstText()
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return job{}, fmt.Errorf("the first message names no job: %.200s", text)
	}
	var j job
	return j, json.NewDecoder(strings.NewReader(text[at:])).Decode(&j)
}

// script calls the job's tools one after the other and says how many failed.
func script(r scriptmodel.Request) (scriptmodel.Answer, error) {
	j, err := jobOf(r)
	if err != nil {
		return scriptmodel.Answer{}, err
	}
	switch turn := r.Turn(); {
	case turn < len(j.Do) && j.Do[turn] == "await":
		return answer(scriptmodel.Call("await", map[string]string{"job": j.Job})), nil
	case turn < len(j.Do):
		tool := j.Do[turn]
		return answer(scriptmodel.Call(tool, map[string]string{"night": j.Job, "shop": shopOf[tool], "product": tool})), nil
	case turn > len(j.Do):
		return scriptmodel.Answer{}, errors.New("a request after the last word")
	}
	failed := 0
	for _, res := range r.Results() {
		if res.IsError {
			failed++
		}
	}
	return answer(scriptmodel.Text(fmt.Sprintf("%s is done, %d calls failed", j.Job, failed))), nil
}

func answer(parts ...scriptmodel.Part) scriptmodel.Answer {
	return scriptmodel.Answer{Parts: parts, Usage: scriptmodel.Usage{InputTokens: 100, OutputTokens: 20}}
}
