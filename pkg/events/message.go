package events

// Bounds of what is said to a run.
const (
	MessageBytes   = 32 << 10 // of one text
	UnreadMessages = 32       // of one run
)

// SayRun says something to the model of a run. Its message ID is "command:<id>".
type SayRun struct {
	ID    string `json:"id"`
	RunID RunID  `json:"run_id"`
	Text  string `json:"text"` // at most MessageBytes
	// Principal is who says it. The model reads the text alone.
	Principal string `json:"principal"`
	// After is the ID of what was said to the run before. It is recorded first.
	After string `json:"after,omitempty"`
}
