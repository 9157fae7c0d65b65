package events

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RunID names one run. It is a UUIDv7 in its 36 character text form, so ids
// sort by the time they were minted.
type RunID string

// CallID names one tool call: run id, the journal seq of the answer that asked
// for it and the index of the call in that answer. It is derived, never random,
// so a crash between commit and publish cannot change it.
type CallID string

// ApprovalID names one question to a person. Like a CallID it is derived from
// the journal row that asks.
type ApprovalID string

// Digest is "sha256:" and 64 lower-case hex digits.
type Digest string

// Short is as much of a digest as people compare: its algorithm and twelve digits. A
// shorter one is whole.
func (d Digest) Short() string { return string(d[:min(len(d), len("sha256:")+12)]) }

// NewRunID mints a time-ordered UUIDv7 (RFC 9562, section 5.7). It panics only
// when the operating system has no randomness.
func NewRunID() RunID { return newRunIDAt(time.Now()) }

func newRunIDAt(t time.Time) RunID {
	var b [16]byte
	if _, err := rand.Read(b[6:]); err != nil {
		panic(fmt.Sprintf("read random bytes: %v", err))
	}
	putMillis(&b, t.UnixMilli())
	return formatUUID(b)
}

// ChildRunID derives the id of a child run from its parent, the journal seq of
// the row that starts it and its index in that row. Deciding the same row again
// gives the same id. The time part is the parent's, so children sort after it
// and beside each other.
func ChildRunID(parent RunID, seq int64, index int) RunID {
	sum := sha256.Sum256(fmt.Appendf(nil, "child/%s/%d/%d", parent, seq, index))
	var b [16]byte
	copy(b[:], sum[:16])
	putMillis(&b, parent.millis())
	return formatUUID(b)
}

// NewCallID derives the id of call index in the answer that is journal row seq.
func NewCallID(run RunID, seq int64, index int) CallID {
	return CallID(fmt.Sprintf("%s-%d-%d", run, seq, index))
}

// Run returns the run a call belongs to; ok is false for a malformed id.
func (c CallID) Run() (run RunID, ok bool) {
	if len(c) < 40 || c[36] != '-' {
		return "", false
	}
	run = RunID(c[:36])
	return run, run.Valid()
}

// NewApprovalID derives the id of the question of the given kind ("a" for an
// action, "d" for a doubt) about call, asked by journal row seq.
func NewApprovalID(call CallID, kind string, seq int64) ApprovalID {
	return ApprovalID(fmt.Sprintf("%s-%s%d", call, kind, seq))
}

// Valid reports whether the id is a UUID in canonical lower-case text form.
func (r RunID) Valid() bool {
	if len(r) != 36 {
		return false
	}
	for i, c := range []byte(r) {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
				return false
			}
		}
	}
	return true
}

func (r RunID) millis() int64 {
	if len(r) < 13 {
		return 0
	}
	n, err := strconv.ParseInt(string(r[:8]+r[9:13]), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// Time is the moment the id was minted, to the millisecond; zero for an id
// that is not valid.
func (r RunID) Time() time.Time {
	if !r.Valid() {
		return time.Time{}
	}
	return time.UnixMilli(r.millis()).UTC()
}

func putMillis(b *[16]byte, ms int64) {
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], uint64(ms))
	copy(b[:6], t[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
}

func formatUUID(b [16]byte) RunID {
	h := hex.EncodeToString(b[:])
	return RunID(strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-"))
}

// DigestOf hashes bytes to a Digest.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest("sha256:" + hex.EncodeToString(sum[:]))
}

// ValidToken reports whether s may stand as one token of a subject: 1 to 120
// characters of A-Z a-z 0-9 _ -. Anything else must never reach a subject.
func ValidToken(s string) bool {
	if s == "" || len(s) > 120 {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
