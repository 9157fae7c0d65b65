package events

// MigrateRun moves a run to another version of its agent, and to what that names
// now. Its message ID is "command:<id>". Orders of one run count in the order of
// their ids.
type MigrateRun struct {
	ID        string `json:"id"`
	RunID     RunID  `json:"run_id"`
	To        Digest `json:"to"`                // of the agent
	Current   bool   `json:"current,omitempty"` // To is what the agent's name meant when it was ordered
	Principal string `json:"principal"`
	Reason    string `json:"reason,omitempty"`
}

// Pins are the versions that an agent's run executes.
type Pins struct {
	Ref        Ref    `json:"ref"`
	Model      Ref    `json:"model"`
	Fallbacks  []Ref  `json:"fallbacks,omitempty"`
	Tools      []Ref  `json:"tools,omitempty"`
	Pools      []Ref  `json:"pools,omitempty"`
	Starts     []Ref  `json:"starts,omitempty"`
	Policies   Digest `json:"policies"`
	WallTimeMs int64  `json:"wall_time_ms,omitempty"`
	Wording    int    `json:"wording,omitempty"` // as in RunStarted
}

// Migration is an order and what it resolved to when it was recorded.
type Migration struct {
	MigrateRun
	Pins
}

// Migrated carries an order out. The rows before it stay as they are, and the
// conversation goes on from the same words.
type Migrated struct {
	Migration
	From Ref `json:"from"` // the version that the run executed
	// Prompt is the first message of the conversation, when the new version would
	// make another one of the input.
	Prompt string `json:"prompt,omitempty"`
	// Providers says behind which API each model is that may have answered since the
	// migration before, by the name of its document.
	Providers map[string]string `json:"providers"`
}

// MigrationRefused is an order that is not carried out: the run goes on as it was.
type MigrationRefused struct {
	MigrateRun
	Problem Problem `json:"problem"`
}

// Why a migration is refused.
const (
	MigrateEnded      = "run_ended"
	MigrateCancelling = "run_cancelling"
	MigrateFlow       = "flow_run"
	MigrateOther      = "other_agent"   // the target is a version of something else
	MigrateUnchanged  = "unchanged"     // the run executes all of it
	MigrateSuperseded = "superseded"    // a newer order came before it was carried out
	MigrateDefinition = "definition"    // a name of the new version means nothing
	MigrateInput      = "invalid_input" // the new version does not take the run's input
	MigrateModel      = "model"         // the new model cannot take the history back
	MigrateNoTools    = "no_tools"      // the history has calls, and the new version no tools
	MigrateBudget     = "budget"        // the new version would end the run at once
)
