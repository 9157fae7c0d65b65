// Command go-loop is an agent's loop that may be killed at any moment:
//
//	go run ./examples/go-loop JOB
//
// It asks a model what to do, does it, and saves after every step. The same JOB
// is the same run: start it again after a crash and it goes on where it stopped.
// Where prices are posted to, the policy and the lease are flags.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
)

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type state struct {
	Step     int       `json:"step"`
	Messages []message `json:"messages"`
}

// decision is what the model says: a call of a tool, or the final answer.
type decision struct {
	Tool   string          `json:"tool,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Answer string          `json:"answer,omitempty"`
}

var products = []string{"lamp", "chair", "desk"}

// model stands for a model.
func model(messages []message) decision {
	var ids []string
	for _, m := range messages {
		if m.Role == "tool" {
			var posted struct{ ID string }
			_ = json.Unmarshal(m.Content, &posted) // the shop's own words
			ids = append(ids, posted.ID)
		}
	}
	if n := len(ids); n < len(products) {
		return decision{Tool: "post_price", Args: json.RawMessage(fmt.Sprintf(`{"product":%q,"cents":%d}`, products[n], 1990+n))}
	}
	return decision{Answer: "posted " + strings.Join(ids, ", ")}
}

// postPrice is the side effect: tell the shop a price.
func postPrice(ctx context.Context, shop string, args json.RawMessage, key string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, shop+"/prices", bytes.NewReader(args))
	if err != nil {
		return nil, client.NotHappened(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Close = true // net/http would repeat a request with a key on a connection that breaks
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case resp.StatusCode == 400 || resp.StatusCode == 403 || resp.StatusCode == 404 || resp.StatusCode == 422:
		return nil, client.NotHappened(fmt.Errorf("the shop says %s", resp.Status))
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("the shop says %s", resp.Status)
	}
	return body, err
}

func main() {
	shop := flag.String("shop", cmp.Or(os.Getenv("SHOP_URL"), "http://127.0.0.1:8080"), "where prices are posted to")
	onDoubt := flag.String("on-doubt", cmp.Or(os.Getenv("ON_DOUBT"), client.OnDoubtAsk), "ask, or retry when the shop honours Idempotency-Key")
	lease := flag.Duration("lease", 30*time.Second, "how long the program may be gone before an act is in doubt")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go-loop [flags] JOB")
		os.Exit(2)
	}
	err := loop(context.Background(), flag.Arg(0), *shop, *onDoubt, *lease)
	switch {
	case err == nil:
		return
	case errors.Is(err, client.ErrInDoubt):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3) // start it again when somebody has said what happened
	case errors.Is(err, client.ErrStale), errors.Is(err, client.ErrRunEnded):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4) // another process runs the same job
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func loop(ctx context.Context, job, shop, onDoubt string, lease time.Duration) error {
	c, err := client.New(client.Config{Server: os.Getenv("HOLDFAST_SERVER"), Token: os.Getenv("HOLDFAST_TOKEN"), Attempts: 10})
	if err != nil {
		return err
	}
	input, err := json.Marshal(map[string]string{"job": job})
	if err != nil {
		return err
	}
	run, err := c.StartProgram(ctx, client.ProgramRequest{Name: "price-loop", Input: input, IdempotencyKey: "price-loop/" + job})
	if err != nil {
		return err
	}
	saved, err := run.Load(ctx)
	if err != nil {
		return err
	}
	if saved.Status != "running" {
		fmt.Printf("run %s is %s\n", run.ID, saved.Status)
		return nil
	}
	st := state{Messages: []message{{Role: "user", Content: json.RawMessage(`"post the prices"`)}}}
	if saved.Version > 0 {
		st = state{}
		if err := saved.Decode(&st); err != nil {
			return err
		}
	} else if err := run.Save(ctx, st); err != nil {
		return err
	}
	for {
		last := st.Messages[len(st.Messages)-1]
		if last.Role != "assistant" {
			said, err := json.Marshal(model(st.Messages))
			if err != nil {
				return err
			}
			st.Messages = append(st.Messages, message{"assistant", said})
			st.Step++
			if err := run.Save(ctx, st); err != nil { // what the model said is not asked again
				return err
			}
			continue
		}
		var said decision
		if err := json.Unmarshal(last.Content, &said); err != nil {
			return err
		}
		if said.Answer != "" {
			fmt.Printf("run %s: %s\n", run.ID, said.Answer)
			return run.Complete(ctx, said.Answer)
		}
		result, err := run.OnceAct(ctx, client.Act{
			Key: fmt.Sprintf("%s/%d/%s", run.ID, st.Step, said.Tool), Tool: said.Tool, Args: said.Args, OnDoubt: onDoubt, Lease: lease,
		}, func(ctx context.Context, f client.Fence) (any, error) {
			return postPrice(ctx, shop, said.Args, f.Key)
		})
		if err != nil {
			return err
		}
		st.Messages = append(st.Messages, message{"tool", result.JSON})
		if err := run.Save(ctx, st); err != nil {
			return err
		}
	}
}
