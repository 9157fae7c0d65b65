package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ToCurrent is the target of a migration to what the agent's name means now.
const ToCurrent = "current"

// MigrateOrder asks to move a run to another version of its agent.
type MigrateOrder struct {
	To     string // a digest, or ToCurrent
	DryRun bool
	Reason string
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Check reports what is wrong with an order, in words for the operator.
func (o MigrateOrder) Check() error {
	if len(o.Reason) > 1000 {
		return fmt.Errorf("reason has %d bytes; at most 1000 are kept", len(o.Reason))
	}
	if o.To != ToCurrent && !digestForm.MatchString(o.To) {
		return fmt.Errorf("to is %.80q; give the digest of a version, like sha256:…, or %q", o.To, ToCurrent)
	}
	return nil
}

// Migration is what an order would change, and what was made of it.
type Migration struct {
	Command  Command // its ID is empty when nothing was ordered
	Replayed bool
	Run      Run
	From, To events.Ref
	Changes  []Change
	More     bool // there are more
	// Problem says why the run cannot be moved; nil when it can.
	Problem *events.Problem
	// Waits says that the run is in the middle of something: the order waits for it.
	Waits bool
}

// RefusedError is an order that the run could not follow; nothing was ordered.
type RefusedError struct{ events.Problem }

func (e *RefusedError) Error() string { return e.Code + ": " + e.Message }

// Move is a row about moving a run, as its page shows it.
type Move struct {
	Seq       int64
	Kind      string // events.FactMigrationOrdered, FactMigrated or FactMigrationRefused
	At        time.Time
	From      events.Digest // FactMigrated
	To        events.Digest
	Principal string
	Reason    string
	Problem   *events.Problem // FactMigrationRefused
}

// MaxRunMoves is how many of them are shown with a run.
const MaxRunMoves = 10

// History is what counts of a run for who is to go on with it.
type History struct {
	Pins      events.Pins  // what it executes; without a Model when no runner has it
	Answering string       // name of the model that answers, when a failover took it
	Answers   []PastAnswer // that later requests have
}

// PastAnswer is an answer of the run's history.
type PastAnswer struct {
	Row         int64
	Model       string // name of its document
	Provider    string // of a version before the one that the run executes; else empty
	Bound       bool
	Calls       bool
	CurrentPins bool // it was given under the version that the run executes
}

// MigrationReader reads what a migration is judged by.
type MigrationReader interface {
	// History reads a run's newest pins and the answers that later requests have.
	History(ctx context.Context, run Run) (History, error)
	// Versions reads versions by their digests; those that the namespace does not have
	// are not in the answer.
	Versions(ctx context.Context, namespace string, refs []events.Ref) ([]Definition, error)
	// CurrentVersions reads what names mean now, in their order; those that mean nothing
	// are not in the answer.
	CurrentVersions(ctx context.Context, namespace, kind string, names []string) ([]Definition, error)
	// CommandOf returns the command that a key stands for; ErrNotFound without one.
	CommandOf(ctx context.Context, namespace, key string) (Command, error)
}

// Migrate orders that a run goes on under another version of its agent, or says what
// that would change. A *RefusedError says why it cannot.
func (s *Service) Migrate(ctx context.Context, namespace, principal, key string, id events.RunID, o MigrateOrder) (Migration, error) {
	run, err := s.GetRun(ctx, namespace, id)
	if err != nil {
		return Migration{}, err
	}
	m := Migration{Run: run, From: events.Ref{Kind: run.Kind, Name: run.Name, Digest: run.Digest}}
	switch {
	case run.Kind == KindProgram:
		return m, fmt.Errorf("run %s: %w", id, ErrProgram)
	case run.Kind != events.KindAgent:
		m.Problem = &events.Problem{Code: events.MigrateFlow, Message: "only the run of an agent can be moved; move the runs of the flow's steps: holdfast runs list --parent " + string(id)}
	case events.Ended(run.Status):
		m.Problem = &events.Problem{Code: events.MigrateEnded, Message: "run " + string(id) + " has ended; start another, or fork it under its old version"}
	case run.Status == events.StatusCancelling:
		m.Problem = &events.Problem{Code: events.MigrateCancelling, Message: "run " + string(id) + " is being ended"}
	}
	if m.Problem == nil {
		if err := s.judgeMigration(ctx, namespace, o, &m); err != nil {
			return m, err
		}
	}
	if o.DryRun {
		return m, nil
	}
	if key != "" { // a repeat may come when the order was carried out
		if _, err := s.CommandOf(ctx, namespace, key); err == nil {
			return m, s.orderMigration(ctx, namespace, principal, key, o, &m)
		} else if !errors.Is(err, ErrNotFound) {
			return m, err
		}
	}
	if m.Problem != nil {
		return m, &RefusedError{*m.Problem}
	}
	return m, s.orderMigration(ctx, namespace, principal, key, o, &m)
}

func (s *Service) orderMigration(ctx context.Context, namespace, principal, key string, o MigrateOrder, m *Migration) error {
	to := m.To.Digest
	if to == "" {
		to = events.Digest(o.To)
	}
	c, err := migrateCommand(namespace, principal, key, m.Run.ID, events.MigrateRun{To: to, Current: o.To == ToCurrent, Reason: o.Reason})
	if err != nil {
		return err
	}
	if m.Command, m.Replayed, err = s.AddCommand(ctx, c); err != nil {
		return err
	}
	s.relay.Kick()
	return nil
}

func migrateCommand(namespace, principal, key string, run events.RunID, body events.MigrateRun) (Command, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Command{}, err
	}
	body.ID, body.RunID, body.Principal = id.String(), run, principal
	raw, err := events.Marshal(body)
	if err != nil {
		return Command{}, fmt.Errorf("marshal migration: %w", err)
	}
	return Command{ID: body.ID, Namespace: namespace, RunID: run, Kind: events.RunMigrate, Principal: principal, Key: key, Body: raw}, nil
}

// judgeMigration finds both versions with what they name, compares them and asks
// whether the run could go on.
func (s *Service) judgeMigration(ctx context.Context, namespace string, o MigrateOrder, m *Migration) error {
	h, err := s.History(ctx, m.Run)
	if err != nil {
		return err
	}
	var target []Definition
	if o.To == ToCurrent {
		target, err = s.CurrentVersions(ctx, namespace, events.KindAgent, []string{m.Run.Name})
	} else {
		target, err = s.Versions(ctx, namespace, []events.Ref{{Kind: events.KindAgent, Digest: events.Digest(o.To)}})
	}
	switch {
	case err != nil:
		return err
	case len(target) == 0:
		m.Problem = &events.Problem{Code: events.MigrateDefinition, Message: fmt.Sprintf("there is no such version of agent %s: %s; holdfast apply stores one", m.Run.Name, o.To)}
		return nil
	case target[0].Name != m.Run.Name:
		m.Problem = &events.Problem{Code: events.MigrateOther, Message: fmt.Sprintf("%s is a version of the agent %s, and this run is of %s", o.To, target[0].Name, m.Run.Name)}
		return nil
	}
	m.To = target[0].Ref
	next, problem, err := s.versionOf(ctx, namespace, target[0])
	if err != nil {
		return err
	}
	if problem != nil {
		m.Problem = problem
		return nil
	}
	now, err := s.executed(ctx, namespace, m.From, h.Pins)
	if err != nil {
		return err
	}
	m.Changes, m.More = Changes(now.all, next.all)
	if len(m.Changes) == 0 && h.Pins.Model.Digest != "" {
		m.Problem = &events.Problem{Code: events.MigrateUnchanged, Message: "the run executes this version, and all that it names"}
		return nil
	}
	m.Waits = m.Run.Status == events.StatusWaiting || m.Run.Status == events.StatusRunning
	check := spec.Migration{Input: m.Run.Input, Agent: next.agent, Model: next.model, Now: now.named(h.Answering), Tools: len(next.agent.Tools)}
	for _, a := range h.Answers {
		if a.CurrentPins {
			if answered := now.named(a.Model); answered != nil {
				a.Provider = answered.Provider
			}
		}
		check.Answers = append(check.Answers, spec.PastAnswer{Row: a.Row, Provider: a.Provider, Bound: a.Bound, Calls: a.Calls})
	}
	if code, message := check.Problem(); code != "" {
		m.Problem = &events.Problem{Code: code, Message: message}
	}
	return nil
}

// version is an agent with all that it names.
type version struct {
	agent  *spec.Agent
	model  *spec.Model
	models map[string]*spec.Model // by name, the fallbacks too
	all    []Definition
}

// named is a model of the version, and its own for an empty name.
func (v version) named(name string) *spec.Model {
	if m, ok := v.models[name]; ok {
		return m
	}
	return v.model
}

func decoded(d Definition) (*spec.Document, error) {
	doc, err := spec.Decode(d.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s %s: %w", d.Kind, d.Name, d.Digest, err)
	}
	return doc, nil
}

func (v *version) add(d Definition) error {
	doc, err := decoded(d)
	if err != nil {
		return err
	}
	if doc.Model != nil {
		if v.model == nil {
			v.model = doc.Model
		}
		v.models[d.Name] = doc.Model
	}
	if doc.Agent != nil {
		v.agent = doc.Agent
	}
	v.all = append(v.all, d)
	return nil
}

// versionOf finds what an agent's version names, as of now.
func (s *Service) versionOf(ctx context.Context, namespace string, agent Definition) (v version, problem *events.Problem, err error) {
	v.models = map[string]*spec.Model{}
	if err := v.add(agent); err != nil {
		return v, nil, err
	}
	add := func(kind string, names []string) error {
		found, err := s.CurrentVersions(ctx, namespace, kind, names)
		if err == nil && len(found) < len(names) && problem == nil {
			problem = &events.Problem{Code: events.MigrateDefinition, Message: fmt.Sprintf("the new version names %s %v, and %d of them are not defined", kind, names, len(names)-len(found))}
		}
		for _, d := range found {
			err = errors.Join(err, v.add(d))
		}
		return err
	}
	if err = add("model", []string{v.agent.Model}); err == nil && v.model != nil {
		err = add("model", v.model.Fallback)
	}
	if err == nil {
		err = add("tool", v.agent.Tools)
	}
	if err == nil {
		err = add("budget", v.agent.Budget.Pools)
	}
	return v, problem, err
}

// executed finds the versions that a run pinned.
func (s *Service) executed(ctx context.Context, namespace string, ref events.Ref, p events.Pins) (v version, err error) {
	v.models = map[string]*spec.Model{}
	refs := []events.Ref{ref}
	if p.Model.Digest != "" {
		refs = append(append(append(append(refs, p.Model), p.Fallbacks...), p.Tools...), p.Pools...)
	}
	found, err := s.Versions(ctx, namespace, refs)
	for _, d := range found {
		err = errors.Join(err, v.add(d))
	}
	return v, err
}

// OrderMigrate is the bulk order that moves runs of agents to what their names mean
// now.
const OrderMigrate = events.RunMigrate

// migratePage orders it for a page of runs.
func (s *Service) migratePage(ctx context.Context, namespace, principal string, b Bulk, page []BulkRun) error {
	current := map[string]events.Digest{}
	var commands []Command
	for _, r := range page {
		if _, known := current[r.Name]; !known {
			found, err := s.CurrentVersions(ctx, namespace, events.KindAgent, []string{r.Name})
			if err != nil {
				return err
			}
			current[r.Name] = ""
			for _, d := range found {
				current[r.Name] = d.Digest
			}
		}
		if current[r.Name] == "" {
			continue // its agent was deleted
		}
		c, err := migrateCommand(namespace, principal, b.Key+"/"+string(r.ID), r.ID, events.MigrateRun{To: current[r.Name], Current: true, Reason: b.Reason})
		if err != nil {
			return err
		}
		commands = append(commands, c)
	}
	stored, err := s.AddCommands(ctx, commands)
	if err != nil {
		return err
	}
	ordered := map[events.RunID]string{}
	for _, c := range commands {
		ordered[c.RunID] = c.ID
	}
	for i := range page {
		if c, ok := stored[page[i].ID]; ok {
			page[i].Command, page[i].Replayed = c.ID, c.ID != ordered[c.RunID]
		}
	}
	return nil
}

// ReadMove reads a row about moving a run.
func ReadMove(seq int64, kind string, at time.Time, data json.RawMessage) (Move, error) {
	var row struct {
		events.MigrateRun
		From    events.Ref      `json:"from"`
		Problem *events.Problem `json:"problem"`
	}
	err := json.Unmarshal(data, &row)
	return Move{Seq: seq, Kind: kind, At: at.UTC(), From: row.From.Digest, To: row.To, Principal: row.Principal, Reason: row.Reason, Problem: row.Problem}, err
}
