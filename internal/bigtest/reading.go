package bigtest

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-run/holdfast/internal/linetest"
)

// Listen makes the database explain each statement of the sessions that begin from now
// on, and opens a line to it that hears how much each has read. It needs the module
// auto_explain, which comes with the server of most packages.
const Listen = `DO $$ BEGIN
	EXECUTE format('ALTER DATABASE %I SET session_preload_libraries = auto_explain', current_database());
	EXECUTE format('ALTER DATABASE %I SET auto_explain.log_min_duration = 0', current_database());
	EXECUTE format('ALTER DATABASE %I SET auto_explain.log_analyze = on', current_database());
	EXECUTE format('ALTER DATABASE %I SET auto_explain.log_buffers = on', current_database());
	EXECUTE format('ALTER DATABASE %I SET auto_explain.log_timing = off', current_database());
	EXECUTE format('ALTER DATABASE %I SET auto_explain.log_format = json', current_database());
	EXECUTE format('ALTER DATABASE %I SET auto_explain.log_level = notice', current_database());
END $$`

// Statement is a statement that a server has executed.
type Statement struct {
	SQL     string
	Buffers int // pages of 8 KiB that it touched, in memory or not, those of temporary files too
	Plan    string
}

// Readings are the statements that were heard. They are safe for concurrent use.
type Readings struct {
	mu   sync.Mutex
	list []Statement
}

// Hear returns the URL of a line to the database of which Listen was executed, and what
// is heard on it.
func Hear(t testing.TB, database string) (string, *Readings) {
	t.Helper()
	line, url := linetest.Postgres(t, database)
	r := &Readings{}
	line.Hear(func() func([]byte) { return r.connection() })
	return url, r
}

// Take returns what was heard since the last Take.
func (r *Readings) Take() []Statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.list
	r.list = nil
	return out
}

// connection reads the messages of a server: a letter, a length and a body each.
// Source: PostgreSQL, "Frontend/Backend Protocol", message formats.
func (r *Readings) connection() func([]byte) {
	var rest []byte
	return func(piece []byte) {
		rest = append(rest, piece...)
		for len(rest) >= 5 {
			end := 1 + int(binary.BigEndian.Uint32(rest[1:5]))
			if len(rest) < end {
				return
			}
			var notice pgproto3.NoticeResponse
			if rest[0] == 'N' && notice.Decode(rest[5:end]) == nil {
				r.heard(notice.Message)
			}
			rest = rest[end:]
		}
	}
}

func (r *Readings) heard(message string) {
	at := strings.IndexByte(message, '{')
	if !strings.HasPrefix(message, "duration: ") || at < 0 {
		return
	}
	var said struct {
		Text string `json:"Query Text"`
		Plan struct {
			Hit         int `json:"Shared Hit Blocks"`
			Read        int `json:"Shared Read Blocks"`
			TempRead    int `json:"Temp Read Blocks"`
			TempWritten int `json:"Temp Written Blocks"`
		}
	}
	if json.Unmarshal([]byte(message[at:]), &said) != nil {
		return
	}
	p := said.Plan
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, Statement{SQL: said.Text, Buffers: p.Hit + p.Read + p.TempRead + p.TempWritten, Plan: message[at:]})
}
