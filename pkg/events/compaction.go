package events

// Why a conversation is shortened.
const (
	CompactThreshold = "threshold" // the next request would be larger than the agent wants
	CompactWindow    = "window"    // the provider said that the model's window is full
)

// CompactionStarted says which answers are to be replaced by a summary. The next
// model call asks for it.
type CompactionStarted struct {
	UpTo   int64  `json:"up_to"` // row of the newest answer that is replaced
	Why    string `json:"why"`   // CompactThreshold or CompactWindow
	Tokens int64  `json:"tokens,omitempty"`
	// Brief says that results are shortened in the request for the summary, because
	// it did not fit with whole ones.
	Brief bool `json:"brief,omitempty"`
}

// ContextCompacted is the summary that stands for the answers up to a row in every
// later request. The rows themselves stay as they are.
type ContextCompacted struct {
	UpTo    int64  `json:"up_to"`
	Summary string `json:"summary"` // as the model wrote it
	// Restated is what the model reads behind it: plan, facts and artifacts as they
	// were at this row.
	Restated     string `json:"restated,omitempty"`
	Model        string `json:"model"`
	ModelName    string `json:"model_name,omitempty"`
	RequestID    string `json:"request_id,omitempty"`
	Usage        Usage  `json:"usage"`
	CostMicroUSD int64  `json:"cost_micro_usd,omitempty"`
	Worker       string `json:"worker"`
	Epoch        int64  `json:"epoch"`
	DurationMs   int64  `json:"duration_ms"`
}
