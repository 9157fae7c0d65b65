package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/lifecycle"
)

// ReadyCmd asks a process whether it is ready. The image has no shell and no
// curl; this is its health check.
type ReadyCmd struct {
	URL     string        `arg:"" name:"url" help:"Where the process serves its health pages: http://127.0.0.1:8711."`
	Timeout time.Duration `default:"3s" help:"Give up after this time (${default})."`
}

// Help implements kong.HelpProvider.
func (*ReadyCmd) Help() string {
	return `Asks URL/ready once. Ends with 0 when the process is ready; else it prints what is
not and ends with 6. For health checks of containers, and for scripts:

  holdfast ready http://127.0.0.1:8711                      (serve trigger)
  until holdfast ready http://127.0.0.1:8787; do sleep 1; done   (dev)`
}

// Run implements the command.
func (c *ReadyCmd) Run(ctx context.Context, k *kong.Context) error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usage(fmt.Errorf("%q is not a URL like http://127.0.0.1:8711", c.URL))
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := askReady(ctx, u.JoinPath("ready").String()); err != nil {
		return &exitError{exitUnavailable, err}
	}
	_, err = fmt.Fprintln(k.Stdout, "ready")
	return err
}

// maxReport bounds what is read of an answer; a report is a few hundred bytes.
const maxReport = 64 << 10

// askReady returns nil when address answers 200, else what it says is wrong.
func askReady(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, // no proxy: the process is ours
		// A redirect is not an answer of ours.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not ready: %s did not answer in time", address)
	}
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	if err != nil {
		return fmt.Errorf("not ready: %s answered %d and broke off: %w", address, resp.StatusCode, err)
	}
	var report lifecycle.Report
	if json.Unmarshal(body, &report) != nil || report.Status == "" {
		return fmt.Errorf("not ready: %s answered %d; is this the address of --health-listen?", address, resp.StatusCode)
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(report.Checks)) {
		if report.Checks[name] != "ok" {
			wrong = append(wrong, name+": "+report.Checks[name])
		}
	}
	return fmt.Errorf("not ready: %s", cmp.Or(strings.Join(wrong, "; "), report.Status))
}
