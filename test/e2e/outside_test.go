package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// job is the input of every run here: its name, and the tools that the model
// calls, one an answer.
type job struct {
	Job string   `json:"job"`
	Do  []string `json:"do"`
}

func (j job) input() json.RawMessage {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err)
	}
	return b
}

// outside is what lies beyond Holdfast: the model's provider and a shop. Both
// count what arrives.
type outside struct {
	model    *scriptmodel.Server
	modelURL string
	shopURL  string

	mu       sync.Mutex
	arrivals []arrival
	held     map[string]*hold
	thinking time.Duration     // of the model, for every answer
	later    map[string]string // job → where the result of its last render is posted
}

// arrival is one request that asked the shop for an effect.
type arrival struct{ act, job, key string }

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{held: map[string]*hold{}, later: map[string]string{}}
	o.model = scriptmodel.New(scriptmodel.Config{Script: script, BeforeAnswer: o.beforeAnswer, Fault: o.fault})
	model := httptest.NewServer(o.model)
	t.Cleanup(model.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pages/{job}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><body><h1>Shop</h1><p>%s costs $12.50</p></body></html>", r.PathValue("job"))
	})
	mux.HandleFunc("POST /acts/{act}", o.act)
	shop := httptest.NewServer(mux)
	t.Cleanup(shop.Close)
	o.modelURL, o.shopURL = model.URL, shop.URL
	t.Cleanup(func() {
		for _, v := range o.model.Violations() {
			t.Errorf("the model refused a request of %s at turn %d: %s", v.Key, v.Turn, v.Message)
		}
	})
	return o
}

func (o *outside) fault(scriptmodel.Request, int) scriptmodel.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	return scriptmodel.Fault{Delay: o.thinking}
}

// think makes the model take its time.
func (o *outside) think(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.thinking = d
}

func (o *outside) act(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Job string `json:"job"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.arrivals = append(o.arrivals, arrival{r.PathValue("act"), in.Job, r.Header.Get("Idempotency-Key")})
	h := o.held["act/"+in.Job]
	o.mu.Unlock()
	if h != nil {
		select {
		case <-h.open:
		case <-r.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if to := r.Header.Get("X-Callback"); to != "" { // the result follows
		o.mu.Lock()
		o.later[in.Job] = to
		o.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	fmt.Fprintf(w, `{"receipt":%q}`, in.Job)
}

// of lists what arrived for one act of a job.
func (o *outside) of(act, job string) []arrival {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(o.arrivals), func(a arrival) bool { return a.act != act || a.job != job })
}

// effects is how often an act took effect: once per key where the shop honours
// keys ("pay"), else each time that it arrived.
func (o *outside) effects(act, job string) int {
	all := o.of(act, job)
	if act != "pay" {
		return len(all)
	}
	keys := map[string]bool{}
	for _, a := range all {
		keys[a.key] = true
	}
	return len(keys)
}

// hold keeps back the model's answers to a job at one turn.
type hold struct {
	arrived chan scriptmodel.Exchange
	open    chan struct{}
	once    sync.Once
}

// hold must be called before the request that it is about.
func (o *outside) hold(t *testing.T, job string, turn int) *hold {
	h := &hold{arrived: make(chan scriptmodel.Exchange, 16), open: make(chan struct{})}
	o.mu.Lock()
	o.held[fmt.Sprint(job, "/", turn)] = h
	o.mu.Unlock()
	t.Cleanup(h.release)
	return h
}

// holdAct keeps back the shop's answers to a job, after the act.
func (o *outside) holdAct(t *testing.T, job string) *hold {
	h := &hold{open: make(chan struct{})}
	o.mu.Lock()
	o.held["act/"+job] = h
	o.mu.Unlock()
	t.Cleanup(h.release)
	return h
}

func (h *hold) release() { h.once.Do(func() { close(h.open) }) }

// wait returns the next request that is kept back.
func (h *hold) wait(t *testing.T) scriptmodel.Exchange {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case e := <-h.arrived:
		return e
	case <-ctx.Done():
		t.Fatal("the model is not asked")
		return scriptmodel.Exchange{}
	}
}

func (o *outside) beforeAnswer(ctx context.Context, e scriptmodel.Exchange) {
	j, err := jobOf(e.Request)
	if err != nil {
		return
	}
	o.mu.Lock()
	h := o.held[fmt.Sprint(j.Job, "/", e.Turn)]
	o.mu.Unlock()
	if h == nil {
		return
	}
	h.arrived <- e
	select {
	case <-h.open:
	case <-ctx.Done():
	}
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

// script calls the job's tools one after the other and then says with which
// instructions it worked.
func script(r scriptmodel.Request) (scriptmodel.Answer, error) {
	j, err := jobOf(r)
	if err != nil {
		return scriptmodel.Answer{}, err
	}
	turn := r.Turn()
	if strings.HasPrefix(r.System, "quote") {
		text := "it is about 12"
		if turn > 0 {
			text = fmt.Sprintf(`{"price": 12345678901234567890.10, "shop": %q}`, j.Job)
		}
		return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(text)}}, nil
	}
	switch {
	case turn < len(j.Do) && j.Do[turn] == "read":
		address, _, ok := strings.Cut(r.System, " ")
		if !ok {
			return scriptmodel.Answer{}, errors.New("the instructions name no shop")
		}
		return call("read", map[string]string{"url": address + "/pages/" + j.Job}), nil
	case turn < len(j.Do):
		var all scriptmodel.Answer // several of one answer are written with a plus
		for _, tool := range strings.Split(j.Do[turn], "+") {
			all.Parts = append(all.Parts, call(tool, argsOf(tool, j)).Parts...)
		}
		return all, nil
	case turn > len(j.Do):
		return scriptmodel.Answer{}, errors.New("a request after the last word")
	}
	failed := 0
	for _, res := range r.Results() {
		if res.IsError {
			failed++
		}
	}
	_, edition, _ := strings.Cut(r.System, " ")
	return scriptmodel.Answer{Parts: []scriptmodel.Part{
		scriptmodel.Text(fmt.Sprintf("%s is done, %d calls failed, by the %s", j.Job, failed, strings.TrimSpace(edition))),
	}}, nil
}

func call(tool string, input any) scriptmodel.Answer {
	return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call(tool, input)}}
}
