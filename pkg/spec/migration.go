package spec

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Migration is what decides whether a run can go on under another version of its
// agent. The runner asks it, and the door that shows what would change.
type Migration struct {
	Input json.RawMessage // of the run
	Agent *Agent          // the new version
	Model *Model          // that would answer
	Now   *Model          // that answers
	Tools int             // of the new version
	// Answers are those that later requests have.
	Answers []PastAnswer
}

// PastAnswer is what counts of an answer for who reads it back.
type PastAnswer struct {
	Row      int64
	Provider string // the API that it came from; empty when it is not known
	Bound    bool   // it holds what only its own model can take back
	Calls    bool   // it asked for tools
}

// Codes of Migration.Problem, as events.Migrate….
const (
	MigrationInput   = "invalid_input"
	MigrationModel   = "model"
	MigrationNoTools = "no_tools"
)

// Problem says why the run cannot go on so; empty when it can. The rules between
// models are those of a failover: within one API, and only with what is not bound
// to the model that said it.
func (m Migration) Problem() (code, message string) {
	if bad := m.Agent.Input.Validate(m.Input); len(bad) > 0 {
		var parts []string
		for _, v := range bad[:min(len(bad), 5)] {
			parts = append(parts, v.Path+" "+v.Message)
		}
		return MigrationInput, "the new version does not take the input of this run: " + strings.Join(parts, "; ")
	}
	if _, err := FirstMessage(m.Agent, m.Input); err != nil {
		return MigrationInput, "the new version cannot make its prompt of the input of this run: " + err.Error()
	}
	same := m.Now != nil && m.Now.Provider == m.Model.Provider && m.Now.Model == m.Model.Model && m.Now.BaseURL == m.Model.BaseURL
	for _, a := range m.Answers {
		switch {
		case a.Calls && m.Tools == 0:
			return MigrationNoTools, fmt.Sprintf("the new version has no tools, and the answer in row %d asked for some: providers refuse such a history beside an empty list; leave it one tool", a.Row)
		case a.Provider != m.Model.Provider:
			return MigrationModel, fmt.Sprintf("the answer in row %d came over the API %q, and the new model is behind %q, which does not read it", a.Row, a.Provider, m.Model.Provider)
		case a.Bound && !same:
			return MigrationModel, fmt.Sprintf("the answer in row %d holds reasoning that only the model which wrote it can take back; keep the model", a.Row)
		}
	}
	return "", ""
}
