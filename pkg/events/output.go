package events

// OutputRejected is a final answer that is not what the output of its agent has
// to be, or an answer that asked for tools instead of correcting one.
type OutputRejected struct {
	Answer   int64    `json:"answer"`   // row of the answer
	Problems []string `json:"problems"` // bounded in number and length
	Repair   int      `json:"repair"`   // which correction follows, from 1; 0 for none
	// Message is what the model reads about it; empty when the run fails instead.
	Message string `json:"message,omitempty"`
}
