package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// Arrival is one request that reached the pricing API: a line of its file.
type Arrival struct {
	N        int       `json:"n"` // order of arrival, from 1
	At       time.Time `json:"at"`
	Shop     string    `json:"shop"`
	Key      string    `json:"idempotency_key"` // as it was sent; empty when none was
	Business string    `json:"business_key"`    // night/shop/product
	Digest   string    `json:"digest"`          // of the body
	Honours  bool      `json:"honours_key"`     // the shop's endpoint honours Idempotency-Key
	Applied  bool      `json:"applied"`         // it changed a price
	Refused  string    `json:"refused,omitempty"`
}

// Oracle is the other side: a pricing API that appends every arrival to its own
// file before it answers. Shops that honour the key apply it once and replay
// the answer; the rest apply whatever arrives.
type Oracle struct {
	honours func(shop string) bool
	// Committed is called when an arrival is in the file and nothing was
	// answered. It may block; ctx ends when the caller hangs up.
	Committed func(ctx context.Context, a Arrival)

	mu      sync.Mutex
	file    *os.File
	n       int
	applied map[string]Arrival // first applied arrival per shop and key, for shops that honour it
}

func OpenOracle(path string, honours func(string) bool) (*Oracle, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Oracle{honours: honours, file: f, applied: map[string]Arrival{}}, nil
}

func (o *Oracle) Close() error { return o.file.Close() }

// ServeHTTP answers POST /shops/{shop}/prices.
func (o *Oracle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // the caller is gone
	}
	a, err := o.take(r.PathValue("shop"), r.Header.Get("Idempotency-Key"), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if o.Committed != nil {
		o.Committed(r.Context(), a)
	}
	w.Header().Set("content-type", "application/json")
	if a.Refused != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": a.Refused})
		return
	}
	receipt := a.N
	if !a.Applied {
		o.mu.Lock()
		receipt = o.applied[a.Shop+"\n"+a.Key].N
		o.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"shop": a.Shop, "accepted": true, "receipt": receipt})
}

// take judges an arrival and appends it to the file.
func (o *Oracle) take(shop, key string, body []byte) (Arrival, error) {
	sum := sha256.Sum256(body)
	a := Arrival{At: time.Now(), Shop: shop, Key: key, Digest: hex.EncodeToString(sum[:])}
	var err error
	if a.Business, err = businessKey(shop, body); err != nil {
		a.Refused = err.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	a.N = o.n
	a.Honours = o.honours(shop)
	if a.Refused == "" {
		o.judge(&a)
	}
	line, err := json.Marshal(a)
	if err != nil {
		return a, err
	}
	if _, err := o.file.Write(append(line, '\n')); err != nil {
		return a, fmt.Errorf("pricing file: %w", err)
	}
	return a, nil
}

func (o *Oracle) judge(a *Arrival) {
	if !a.Honours || a.Key == "" {
		a.Applied = true
		return
	}
	first, again := o.applied[a.Shop+"\n"+a.Key]
	switch {
	case !again:
		a.Applied = true
		o.applied[a.Shop+"\n"+a.Key] = *a
	case first.Digest != a.Digest:
		a.Refused = "the idempotency key was used for another body"
	}
}

// businessKey is what one price change is about: night, shop and product.
func businessKey(shop string, body []byte) (string, error) {
	var args struct {
		Night   string `json:"night"`
		Shop    string `json:"shop"`
		Product string `json:"product"`
	}
	if err := json.Unmarshal(body, &args); err != nil {
		return "", fmt.Errorf("body: %w", err)
	}
	switch {
	case args.Night == "" || args.Product == "":
		return "", errors.New("body: night and product are required")
	case args.Shop != "" && args.Shop != shop:
		return "", fmt.Errorf("body: shop is %q, but the path says %q", args.Shop, shop)
	}
	return args.Night + "/" + shop + "/" + args.Product, nil
}
