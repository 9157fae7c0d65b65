package scriptmodel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody is the provider's limit of a request.
const maxBody = 32 << 20

// Config says what a Server does. Only Script is required.
type Config struct {
	Script Script
	// Key names the conversation of a request. Nil means metadata.user_id, else
	// a digest of the system prompt and the first message.
	Key func(Request) string
	// Alone takes each request by itself: what only its conversation can know, that an
	// answer was given and that nothing changed, is not looked at. Nothing is recorded.
	Alone bool
	// Aside says that a request asks for a summary of its conversation: its last
	// message and its answer stand in no later request, but for the answer's text in
	// the first message of a history that is shortened. Nil means that none does.
	Aside func(Request) bool
	// Fault says what goes wrong with a request. Nth counts the requests of the
	// conversation at the same turn, from 1. Nil means nothing.
	Fault func(r Request, nth int) Fault
	// OnArrival is called when a valid request has been recorded, BeforeAnswer
	// when its answer is ready and nothing of it was sent. Both may block; ctx
	// ends when the caller hangs up.
	OnArrival    func(ctx context.Context, e Exchange)
	BeforeAnswer func(ctx context.Context, e Exchange)
}

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	// Delay is waited before the answer or the error.
	Delay time.Duration
	// Status answers with an error of that status: 429, 529, 500 and others.
	Status int
	// RetryAfter is sent with Status when it is not zero, in whole seconds.
	RetryAfter time.Duration
	// Message is what the error says; empty means something general.
	Message string
	// CutAfter ends a stream after that many events. A response that is not
	// streamed is cut in its middle. Zero means no cut.
	CutAfter int
	// ErrorEvent ends the cut stream with an overloaded_error event first.
	ErrorEvent bool
	// StallAfter sends nothing more after that many events of a stream, and keeps
	// the connection until the caller hangs up.
	StallAfter int
	// Chunk is the size of the writes of a stream, which may end inside a
	// character. Zero means one write for an event.
	Chunk int
}

// Exchange is one request as the server recorded it.
type Exchange struct {
	ID       int // counts from 1
	Key      string
	Turn     int // answers that the conversation held
	Nth      int // requests of this conversation at this turn, from 1
	Arrived  time.Time
	Ended    time.Time // zero while it is in flight
	Status   int       // zero when nothing was sent
	Answered bool      // the whole answer was written to the connection
	Path     string    // of the API
	Request  Request
}

// InFlight reports whether nothing has ended the exchange.
func (e Exchange) InFlight() bool { return e.Ended.IsZero() }

// Violation is a request that broke a rule, or a script that had no answer.
type Violation struct {
	Key     string
	Turn    int
	Message string
	At      time.Time
}

// Count sums the exchanges of one conversation. Requests that were refused for
// breaking a rule are Violations and not counted here.
type Count struct {
	Requests int
	Answered int
	InFlight int
}

// Server is an http.Handler. It is safe for concurrent use.
type Server struct {
	c Config

	mu            sync.Mutex
	exchanges     []*Exchange
	conversations map[string]*conversation
	violations    []Violation
	serial        int
}

// New returns a server. It panics without a script.
func New(c Config) *Server {
	if c.Script == nil {
		panic("scriptmodel: no script")
	}
	return &Server{c: c, conversations: map[string]*conversation{}}
}

// Exchanges returns copies of all exchanges, in the order they arrived.
func (s *Server) Exchanges() []Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Exchange, len(s.exchanges))
	for i, e := range s.exchanges {
		out[i] = *e
	}
	return out
}

// Violations returns every rule that was broken so far.
func (s *Server) Violations() []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Violation(nil), s.violations...)
}

// Count sums the exchanges whose key is the given one; "" means all.
func (s *Server) Count(key string) Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c Count
	for _, e := range s.exchanges {
		if key != "" && e.Key != key {
			continue
		}
		c.Requests++
		if e.Answered {
			c.Answered++
		}
		if e.InFlight() {
			c.InFlight++
		}
	}
	return c
}

func (s *Server) key(r Request) string {
	if s.c.Key != nil {
		return s.c.Key(r)
	}
	if r.UserID != "" {
		return r.UserID
	}
	sum := sha256.Sum256([]byte(r.System + "\n" + r.FirstText()))
	return hex.EncodeToString(sum[:8])
}

// ServeHTTP answers POST /v1/messages, /v1/chat/completions and /v1/responses.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	s.serial++
	w.Header().Set("request-id", fmt.Sprintf("req_%06d", s.serial))
	s.mu.Unlock()
	d, ok := dialects[req.URL.Path]
	switch {
	case !ok:
		messagesAPI{}.refuse(w, http.StatusNotFound, "Not found: "+req.URL.Path)
		return
	case req.Method != http.MethodPost:
		d.refuse(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	if status, problem := d.admit(req.Header); status != 0 {
		d.refuse(w, status, problem)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			d.refuse(w, http.StatusRequestEntityTooLarge, "Request exceeds the maximum size")
		}
		return // else the caller is gone
	}
	s.answer(w, req, d, body)
}

func (s *Server) answer(w http.ResponseWriter, req *http.Request, d dialect, body []byte) {
	r, err := d.decode(body)
	if err == nil {
		err = d.validate(r)
	}
	key := ""
	if len(r.Messages) > 0 {
		key = s.key(r)
	}
	if err != nil {
		s.violate(w, d, key, r, err)
		return
	}
	e, err := s.open(key, req.URL.Path, &r)
	if err != nil {
		s.violate(w, d, key, r, err)
		return
	}
	defer s.close(e)
	ctx := req.Context()
	if s.c.OnArrival != nil {
		s.c.OnArrival(ctx, *e)
	}
	var fault Fault
	if s.c.Fault != nil {
		fault = s.c.Fault(r, e.Nth)
	}
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-ctx.Done():
			return
		}
	}
	if fault.Status != 0 {
		if fault.RetryAfter > 0 {
			w.Header().Set("retry-after", strconv.Itoa(int(fault.RetryAfter.Round(time.Second)/time.Second)))
		}
		s.sent(e, fault.Status, false)
		d.refuse(w, fault.Status, fault.Message)
		return
	}
	answer, err := s.c.Script(r)
	if err != nil {
		s.sent(e, http.StatusInternalServerError, false)
		s.note(key, r, "script: "+err.Error())
		d.refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	b := build(answer, r, key)
	if s.c.BeforeAnswer != nil {
		s.c.BeforeAnswer(ctx, *e)
	}
	if ctx.Err() != nil {
		return // the caller is gone
	}
	s.mu.Lock()
	if c := s.conversations[key]; c == nil {
		// It is taken alone.
	} else if r.aside {
		c.summaries = append(c.summaries, strings.TrimSpace(Message{Blocks: d.given(b)}.text()))
	} else {
		c.gave(r.place(), d.given(b), b.stopReason)
	}
	s.mu.Unlock()
	s.write(ctx, w, d, e, b, fault)
}

func (s *Server) write(ctx context.Context, w http.ResponseWriter, d dialect, e *Exchange, b built, fault Fault) {
	s.sent(e, http.StatusOK, false)
	if !e.Request.Stream {
		w.Header().Set("content-type", "application/json")
		body := d.body(b)
		w.Header().Set("content-length", strconv.Itoa(len(body)))
		if fault.CutAfter > 0 {
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			panic(errCut)
		}
		if _, err := w.Write(body); err == nil && http.NewResponseController(w).Flush() == nil {
			s.sent(e, http.StatusOK, true)
		}
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	w.Header().Set("cache-control", "no-cache")
	stream := streamWriter{w: w, left: -1, chunk: fault.Chunk}
	if n := max(fault.CutAfter, fault.StallAfter); n > 0 {
		stream.left = n
	}
	switch err := d.send(&stream, b); {
	case err == nil:
		s.sent(e, http.StatusOK, true)
	case !errors.Is(err, errFault): // the caller is gone
	case fault.StallAfter > 0:
		<-ctx.Done()
	case fault.ErrorEvent:
		stream.left = -1
		_ = d.overloaded(&stream)
	default:
		panic(errCut)
	}
}

// open records a request that keeps the rules.
func (s *Server) open(key, path string, r *Request) (*Exchange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c.Alone {
		return &Exchange{Key: key, Turn: r.Turn(), Nth: 1, Arrived: time.Now(), Path: path, Request: *r}, nil
	}
	c := s.conversations[key]
	if c == nil {
		c = &conversation{}
		s.conversations[key] = c
	}
	elsewhere := others{
		gave: func(place int, m Message) (given, paused bool) {
			for _, other := range s.conversations {
				if other.wasGiven(place, m) {
					given, paused = true, paused || other.paused[messageDigest(m)]
				}
			}
			return given, paused
		},
		summarized: func(text string) bool {
			for _, other := range s.conversations {
				if slices.ContainsFunc(other.summaries, func(summary string) bool { return strings.Contains(text, summary) }) {
					return true
				}
			}
			return false
		},
	}
	r.aside = s.c.Aside != nil && s.c.Aside(*r)
	var err error
	if r.base, err = c.check(*r, r.aside, elsewhere); err != nil {
		return nil, err
	}
	e := &Exchange{ID: len(s.exchanges) + 1, Key: key, Turn: r.Turn(), Nth: 1, Arrived: time.Now(), Path: path, Request: *r}
	for _, earlier := range s.exchanges {
		if earlier.Key == key && earlier.Turn == e.Turn {
			e.Nth++
		}
	}
	s.exchanges = append(s.exchanges, e)
	return e, nil
}

func (s *Server) sent(e *Exchange, status int, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Status, e.Answered = status, whole
}

func (s *Server) close(e *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Ended = time.Now()
}

func (s *Server) violate(w http.ResponseWriter, d dialect, key string, r Request, err error) {
	s.note(key, r, err.Error())
	d.refuse(w, http.StatusBadRequest, err.Error())
}

func (s *Server) note(key string, r Request, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, Violation{Key: key, Turn: r.Turn(), Message: message, At: time.Now()})
}
