package events

// What a Delta carries.
const (
	DeltaText     = "text"
	DeltaThinking = "thinking"
	DeltaToolCall = "tool_call" // a piece of a call's arguments, as JSON text
	DeltaReset    = "reset"     // what was shown of this answer is void
)

// MaxDeltaText bounds the text of one Delta, in bytes.
const MaxDeltaText = 4 << 10

// Delta is a piece of an answer while the model still writes it, on
// hf.live.<run> of core NATS: shown to who watches, never stored, and lost
// without notice when somebody is slow or NATS is away. What counts is the
// answer's row, model_answered, which replaces every piece of its turn.
//
// A higher epoch or turn begins a new answer and voids what was shown of the
// one before.
type Delta struct {
	RunID     RunID  `json:"run_id"`
	Namespace string `json:"namespace"`
	Epoch     int64  `json:"epoch"` // of the claim under which the model is asked
	Turn      int64  `json:"turn"`  // number of the run's last row when it was asked
	N         int64  `json:"n"`     // of the pieces of this attempt, from 0; a number that is left out was lost
	Index     int    `json:"index"` // of the block within the answer
	Kind      string `json:"kind"`
	Tool      string `json:"tool,omitempty"` // of a tool_call
	Text      string `json:"text"`
}

// LiveSubject is hf.live.<run>; it belongs to no stream.
func LiveSubject(run RunID) string { return "hf.live." + token(string(run)) }
