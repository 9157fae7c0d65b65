package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// answer is one answer of a door, read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// into decodes the body.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// send is one request as curl would send it, without repeats.
func (d *deployment) send(t *testing.T, method, path, token string, body []byte, headers map[string]string) answer {
	t.Helper()
	a, err := d.trySend(t, method, path, token, body, headers)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (d *deployment) trySend(t *testing.T, method, path, token string, body []byte, headers map[string]string) (answer, error) {
	return trySendTo(t, d.edge, method, path, token, body, headers)
}

// trySendTo is trySend to one process, past the edge.
func trySendTo(t *testing.T, server, method, path, token string, body []byte, headers map[string]string) (answer, error) {
	req, err := http.NewRequestWithContext(t.Context(), method, server+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, b}, err
}

// deliver signs a delivery by the Standard Webhooks rules and sends it.
func (d *deployment) deliver(t *testing.T, path, id string, body []byte) (answer, error) {
	return d.trySend(t, http.MethodPost, path, "", body, d.signature(id, body))
}

// signature is what proves a delivery, by the Standard Webhooks rules.
func (d *deployment) signature(id string, body []byte) map[string]string {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, d.secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return map[string]string{
		"webhook-id": id, "webhook-timestamp": at,
		"webhook-signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	}
}

// accepted checks a 202 and returns what it says.
func accepted(t *testing.T, a answer) client.Started {
	t.Helper()
	if a.status != http.StatusAccepted {
		t.Fatalf("%d, want 202: %s", a.status, a.body)
	}
	var s client.Started
	a.into(t, &s)
	if want := "/v1/runs/" + string(s.RunID); !s.RunID.Valid() || s.Status != "queued" || s.StatusURL != want || a.header.Get("Location") != want {
		t.Fatalf("answer %s with Location %q", a.body, a.header.Get("Location"))
	}
	return s
}
