package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// maxDeadline is events.MaxDeadline.
const maxDeadline = 366 * 24 * time.Hour

// DefaultModelCalls is the ceiling of an agent that names none.
const DefaultModelCalls = 100

// Agent is a model with instructions and tools that works on one input.
type Agent struct {
	Metadata    `json:"-"`
	Description string `json:"description,omitempty"` // what it is for, for people
	Model       string `json:"model"`                 // name of a Model
	// Instructions is the system prompt, taken as it is.
	Instructions string `json:"instructions"`
	// Prompt makes the first user message from ${input...}; see FirstMessage.
	Prompt *Template `json:"prompt,omitempty"`
	Input  *Schema   `json:"input,omitempty"` // what a start must give; absent: anything
	// Output, when set, makes the final answer a JSON value; nil: it is text.
	Output *AgentOutput `json:"output,omitempty"`
	// Context, when set, lets long conversations be shortened.
	Context *AgentContext `json:"context,omitempty"`
	Tools   []string      `json:"tools,omitempty"` // names of Tools, in the order the model sees them
	// MaxTokens bounds one answer; zero means the model's own.
	MaxTokens int64       `json:"maxTokens,omitempty"`
	Budget    AgentBudget `json:"budget"`             // ceilings of one run
	Callback  *Callback   `json:"callback,omitempty"` // nil: a start may name none
	// Priority is one of events.Priorities, or empty: batch for runs of schedules,
	// interactive for others.
	Priority string  `json:"priority,omitempty"`
	Notify   *Notify `json:"notify,omitempty"` // nil: nobody is told
	// Deadline ends a run, as expired, that long after its start was accepted; 0:
	// never. The start may name an earlier one.
	Deadline Duration `json:"deadline,omitempty"`
	// Concurrency bounds how many of its runs are open at once; all keys hold.
	Concurrency []Concurrency `json:"concurrency,omitempty"`
	// Approvals is nil when nobody is told of what the run asks.
	Approvals *Approvals `json:"approvals,omitempty"`
}

// AgentBudget holds the ceilings of one run. Zero means no ceiling, but for
// ModelCalls, which is DefaultModelCalls then.
type AgentBudget struct {
	ToolCalls  int64    `json:"toolCalls,omitempty"` // calls that began
	ModelCalls int64    `json:"modelCalls"`          // answers and failed attempts that were billed
	Tokens     int64    `json:"tokens,omitempty"`    // input and output of every answer
	Cost       MicroUSD `json:"cost,omitempty"`      // of all answers, by the prices of their models
	Steps      int64    `json:"steps,omitempty"`     // answers of the model
	// WallTime is counted from the moment at which the start was accepted; waiting
	// counts.
	WallTime Duration `json:"wallTime,omitempty"`
	// OnExceeded is OnExceededPause (empty means it) or OnExceededFail.
	OnExceeded string `json:"onExceeded,omitempty"`
	// Tell lets the model read behind the results of its calls what is left.
	Tell  bool     `json:"tell,omitempty"`
	Pools []string `json:"pools,omitempty"` // names of Budgets that many runs share
}

func (a *Agent) fill() {
	if a.Budget.ModelCalls == 0 {
		a.Budget.ModelCalls = DefaultModelCalls
	}
	a.Output.fill()
	a.Context.fill()
}

func (a *Agent) check(d *decoder, s spot) {
	d.require(s.at("model"), a.Model != "", "the name of a Model")
	d.require(s.at("instructions"), a.Instructions != "", "what the agent is to do")
	if a.Model != "" {
		d.name(s.at("model"), a.Model)
	}
	d.text(s.at("description"), a.Description, 4<<10)
	d.text(s.at("instructions"), a.Instructions, 128<<10)
	if a.Prompt != nil {
		d.textTemplate(s.at("prompt"), a.Prompt)
		d.roots(a.Prompt, "input")
		if a.Prompt.isText() && len(a.Prompt.root.pieces) == 0 {
			d.fail(s.at("prompt"), "must not be empty; leave it out to send the input as JSON")
		}
	}
	d.nameList(s.at("tools"), a.Tools, 100)
	a.Callback.check(d, s.at("callback"))
	a.Output.check(d, s.at("output"))
	d.priority(s.at("priority"), a.Priority)
	a.Notify.check(d, s.at("notify"))
	d.within(s.at("deadline"), a.Deadline, time.Second, maxDeadline)
	a.Context.check(d, s.at("context"))
	d.concurrency(s.at("concurrency"), a.Concurrency)
	a.Approvals.check(d, s.at("approvals"))
	d.nameList(s.at("budget", "pools"), a.Budget.Pools, 10)
	d.between(s.at("maxTokens"), a.MaxTokens, 0, 1_000_000)
	d.between(s.at("budget", "toolCalls"), a.Budget.ToolCalls, 0, 1_000_000)
	d.between(s.at("budget", "modelCalls"), a.Budget.ModelCalls, 0, 1_000_000)
	d.between(s.at("budget", "tokens"), a.Budget.Tokens, 0, 1_000_000_000_000)
	d.between(s.at("budget", "steps"), a.Budget.Steps, 0, 1_000_000)
	d.within(s.at("budget", "wallTime"), a.Budget.WallTime, time.Second, 366*24*time.Hour)
	if a.Budget.OnExceeded != "" {
		d.oneOf(s.at("budget", "onExceeded"), a.Budget.OnExceeded, OnExceededPause, OnExceededFail)
	}
}

// References names what the agent needs to exist beside it.
func (a *Agent) References() []Reference {
	refs := []Reference{{Kind: KindModel, Name: a.Model, Field: "spec.model"}}
	for i, t := range a.Tools {
		refs = append(refs, Reference{Kind: KindTool, Name: t, Field: fmt.Sprintf("spec.tools[%d]", i)})
	}
	for i, p := range a.Budget.Pools {
		refs = append(refs, Reference{Kind: KindBudget, Name: p, Field: fmt.Sprintf("spec.budget.pools[%d]", i)})
	}
	return append(append(refs, a.Notify.references()...), a.Approvals.references()...)
}

// FirstMessage is the first user message of a run: the prompt with the input
// filled in, or the input as it was accepted, digit for digit, when the agent has
// no prompt.
func FirstMessage(a *Agent, input json.RawMessage) (string, error) {
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	if a.Prompt != nil {
		text, err := a.Prompt.Text(map[string]json.RawMessage{"input": input})
		if err != nil {
			return "", fmt.Errorf("render prompt of agent %s: %w", a.Name, err)
		}
		if strings.TrimSpace(text) == "" {
			return "", fmt.Errorf("render prompt of agent %s: it is empty, and a model cannot answer nothing", a.Name)
		}
		return text, nil
	}
	return string(input), nil
}
