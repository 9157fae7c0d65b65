package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ApprovalsAnswerCmd answers a question.
type ApprovalsAnswerCmd struct {
	Output
	ID      string `arg:"" help:"Id of the approval, of kind question."`
	Result  string `env:"-" placeholder:"JSON|@FILE" xor:"answer" help:"The answer as JSON; its digits reach the agent as they are."`
	Text    string `env:"-" placeholder:"TEXT" xor:"answer" help:"The answer as text: one of the choices, when there are any."`
	Comment string `env:"-" placeholder:"TEXT" help:"Kept with the answer; the agent does not read it."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsAnswerCmd) Help() string {
	return `  holdfast approvals list --kind question
  holdfast approvals answer 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-q4 --text match
  holdfast approvals answer 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-q4 --result '{"price":89.50}'

An answer that is not one of the choices, or does not fit the schema that "approvals show"
prints, is refused and the question stays open.
` + decisionHelp
}

// Run implements the command.
func (c *ApprovalsAnswerCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	if c.Result == "" && c.Text == "" {
		return usage(errors.New("say what the answer is: --text TEXT or --result JSON"))
	}
	result, err := readJSON("--result", c.Result)
	if err != nil {
		return err
	}
	if c.Text != "" {
		if result, err = events.Marshal(c.Text); err != nil {
			return usage(err)
		}
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	return decideEach(ctx, k, api, c.JSON, []string{c.ID}, client.Decision{Decision: "answer", Comment: c.Comment, Result: result})
}

// questionOf is what the details say about a question; of other kinds it is the
// summary alone.
func questionOf(a client.Approval) (asked, choices, to, schema string) {
	q := a.Question
	if q == nil {
		return a.Summary, "", "", ""
	}
	if len(q.Choices) > 0 {
		list, err := json.Marshal(q.Choices)
		if err != nil {
			return q.Text, "", q.To, pretty(q.Schema)
		}
		choices = string(list)
	}
	return q.Text, choices, q.To, pretty(q.Schema)
}
