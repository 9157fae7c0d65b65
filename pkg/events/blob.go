package events

// MaxInline is how many bytes of one value a message carries itself. Larger
// ones travel by reference, so that no message meets the bus's own limit.
const MaxInline = 64 << 10

// BlobRef names bytes that are kept in Postgres, where every service may read
// them. They were written before any message that names them.
type BlobRef struct {
	Scope  string `json:"scope"`  // "delivery:<delivery id>" or "run:<run id>": they are deleted with it
	Digest Digest `json:"digest"` // DigestOf the bytes
	Bytes  int64  `json:"bytes"`
}

// DeliveryScope is the scope of what belongs to one delivery.
func DeliveryScope(id string) string { return "delivery:" + id }

// RunScope is the scope of what belongs to one run.
func RunScope(id RunID) string { return "run:" + string(id) }
