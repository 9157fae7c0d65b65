package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ApprovalsAuditCmd prints or verifies the audit.
type ApprovalsAuditCmd struct {
	Output
	File     string   `arg:"" optional:"" help:"With --verify: a file that --json wrote, or - for standard input; without it the server's chain is read."`
	Verify   bool     `env:"-" help:"Find what was changed, removed, put in or moved, and say where."`
	Head     []string `env:"-" placeholder:"SEQ:HASH" help:"With --verify: an end of the chain that was kept elsewhere. May be given several times."`
	Since    string   `env:"-" placeholder:"TIME" help:"Only rows from then on: 2h (ago), 2026-11-29 or 2026-11-29T02:00:00Z."`
	OfRun    string   `name:"run" env:"-" placeholder:"RUN" help:"Only of this run."`
	Approval string   `env:"-" placeholder:"ID" help:"Only of this approval."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsAuditCmd) Help() string {
	return `Every request, who was told and shown, every attempt to decide, and what became of the
call, in the order of the chain: each row has the hash of the row before it. The last
line names the chain's end; keep it elsewhere, and give it to --verify later.

  holdfast approvals audit --since 24h
  holdfast approvals audit --approval 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4
  holdfast approvals audit --json > audit.ndjson
  holdfast approvals audit --verify
  holdfast approvals audit --verify audit.ndjson --head 812:5f0c...

--json prints one row per line: {"namespace", "seq", "at", "kind", "approval_id",
"run_id", "actor", "door", "detail", "prev", "hash"}; the end goes to standard error.
--verify exits with 1 when something is wrong. Needs the role admin.`
}

// Run implements the command.
func (c *ApprovalsAuditCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	f := client.AuditFilter{Run: events.RunID(c.OfRun), Approval: events.ApprovalID(c.Approval)}
	var err error
	if f.Since, err = pastTime("--since", c.Since, time.Now()); err != nil {
		return err
	}
	switch {
	case c.Verify && (c.OfRun != "" || c.Approval != ""):
		return usage(errors.New("--verify wants the whole chain; leave --run and --approval out"))
	case !c.Verify && (c.File != "" || len(c.Head) > 0):
		return usage(errors.New("a file and --head go with --verify"))
	}
	check := &client.AuditCheck{}
	for _, h := range c.Head {
		kept, err := auditHead(h)
		if err != nil {
			return usage(err)
		}
		check.Keep = append(check.Keep, kept)
	}
	if c.File != "" {
		if err := readAudit(c.File, check.Add); err != nil {
			return err
		}
		check.End(nil)
		return c.say(k, check)
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	each := check.Add
	if !c.Verify {
		each = func(r client.AuditRow) { err = errors.Join(err, c.print(k.Stdout, r)) }
	}
	head := client.AuditHead{}
	for p := (client.PageRequest{Limit: 500}); ; {
		page, failed := api.ApprovalsAudit(ctx, f, p)
		if failed != nil {
			return advise(failed, "")
		}
		for _, r := range page.Items {
			each(r)
		}
		if err != nil {
			return err
		}
		if head, p.Cursor = page.Head, page.NextCursor; p.Cursor == "" {
			break
		}
	}
	if c.Verify {
		if check.Rows > 0 || f.Since.IsZero() {
			check.End(&head)
		}
		return c.say(k, check)
	}
	to := k.Stdout
	if c.JSON {
		to = k.Stderr
	}
	_, err = fmt.Fprintf(to, "end of the chain: %s\n", head)
	return err
}

// say prints what a check came to; the error is of one that found something.
func (c *ApprovalsAuditCmd) say(k *kong.Context, check *client.AuditCheck) error {
	for _, p := range check.Problems {
		fmt.Fprintln(k.Stdout, p)
	}
	if len(check.Problems) > 0 {
		return fmt.Errorf("the audit is not what was written: %d problems", len(check.Problems))
	}
	from := ""
	if check.Rows > 0 && check.First.Seq > 1 {
		from = fmt.Sprintf(", from row %d on", check.First.Seq)
	}
	_, err := fmt.Fprintf(k.Stdout, "%d rows hold together%s; end of the chain: %s\n", check.Rows, from, client.AuditHead{Seq: check.Last.Seq, Hash: check.Last.Hash})
	return err
}

func (c *ApprovalsAuditCmd) print(w io.Writer, r client.AuditRow) error {
	if c.JSON {
		return printJSONLine(w, r)
	}
	about := string(r.ApprovalID)
	if r.Actor != "" {
		about += " by " + clean(r.Actor)
	}
	if r.Door != "" {
		about += " through " + clean(r.Door)
	}
	_, err := fmt.Fprintf(w, "%d  %s  %s  %s  %s\n", r.Seq, r.At, clean(r.Kind), strings.TrimSpace(about), cut(r.Detail, 160))
	return err
}

func auditHead(s string) (client.AuditHead, error) {
	seq, hash, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	if err != nil || len(hash) != 64 {
		return client.AuditHead{}, fmt.Errorf("--head is %q, want SEQ:HASH as \"holdfast approvals audit\" printed it", s)
	}
	return client.AuditHead{Seq: n, Hash: hash}, nil
}

// readAudit gives each row of a file to add.
func readAudit(file string, add func(client.AuditRow)) error {
	in := os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	d := json.NewDecoder(bufio.NewReader(in))
	for n := 1; ; n++ {
		var r client.AuditRow
		switch err := d.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("row %d of %s is no JSON of an audit row: %w", n, file, err)
		}
		add(r)
	}
}
