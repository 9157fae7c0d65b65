package scriptmodel

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// conversation is what the server remembers of one key.
type conversation struct {
	tools  string // digest of the tool list of the first request
	system string
	first  string // text of the first message of the first request
	// stretches are the histories of the conversation: each begins with another
	// first message, the ones behind the first with a summary in it.
	stretches []*stretch
	given     map[int][][]string // place -> answers that were given there, as block digests
	paused    map[string]bool    // answers that the provider paused, by message digest
	summaries []string           // texts that were given as summaries
}

// others is what other conversations of the server say.
type others struct {
	gave       func(place int, m Message) (given, paused bool) // an answer
	summarized func(text string) bool                          // whether a summary of theirs stands in text
}

// stretch is what requests that begin with the same message have said.
type stretch struct {
	base    int      // answers of the conversation that it no longer has
	history []string // digest of each message of the longest history so far
}

// check compares a request with the conversation's earlier ones and, when it
// keeps to them, remembers it. The first request may take over what elsewhere says
// was given in another conversation: it goes on from there. aside says that the
// request asks for a summary: its last message stands in no history. It returns how
// many answers the conversation had before those that the request has.
func (c *conversation) check(r Request, aside bool, elsewhere others) (base int, err error) {
	tools, system := digest(r.tools), digest(r.system)
	first := c.stretches == nil
	if first {
		c.tools, c.system, c.first = tools, system, r.FirstText()
	}
	switch {
	case tools != c.tools:
		return 0, fmt.Errorf("tools: the tool list differs from the first request of this conversation")
	case system != c.system:
		return 0, fmt.Errorf("system: the system prompt differs from the first request of this conversation")
	}
	st, err := c.stretchOf(r, aside, elsewhere)
	if err != nil {
		return 0, err
	}
	place := st.base
	var history []string
	for i, m := range r.Messages {
		if first && m.Role == "assistant" && !c.wasGiven(place, m) {
			if given, paused := elsewhere.gave(place, m); given {
				stop := ""
				if paused {
					stop = "pause_turn"
				}
				c.gave(place, m.Blocks, stop)
			}
		}
		last := i == len(r.Messages)-1
		if m.Role == "assistant" && (last || r.Messages[i+1].Role == "assistant") && !c.paused[messageDigest(m)] {
			if last {
				return 0, fmt.Errorf("messages.%d: the conversation must end with a user message", i)
			}
			return 0, fmt.Errorf("messages.%d: role is %q, but roles must alternate and begin with user", i+1, m.Role)
		}
		if m.Role == "assistant" {
			if !c.wasGiven(place, m) {
				return 0, fmt.Errorf("messages.%d: this answer was never given in this conversation", i)
			}
			place++
		}
		if aside && i > 0 && m.Role == "user" {
			continue // results may be shortened in it, and the question is its own
		}
		d := messageDigest(m)
		if i < len(st.history) && st.history[i] != d {
			return 0, fmt.Errorf("messages.%d: differs from what an earlier request of this conversation said there", i)
		}
		history = append(history, d)
	}
	if aside {
		return st.base, nil
	}
	if len(history) > len(st.history) {
		st.history = history
	}
	if !slices.Contains(c.stretches, st) {
		c.stretches = append(c.stretches, st)
	}
	return st.base, nil
}

// stretchOf finds the history that a request goes on with. A new one begins with
// the first message of the conversation and a summary that was given in it, and goes
// on with answers that came one after the other.
func (c *conversation) stretchOf(r Request, aside bool, elsewhere others) (*stretch, error) {
	begin := messageDigest(r.Messages[0])
	for _, st := range slices.Backward(c.stretches) {
		if st.history[0] == begin && c.goesOn(st, r) {
			return st, nil
		}
	}
	st := &stretch{}
	if c.stretches != nil {
		text := r.FirstText()
		known := func(summary string) bool { return strings.Contains(text, summary) }
		if aside || !strings.HasPrefix(text, c.first) || !slices.ContainsFunc(c.summaries, known) {
			return nil, errors.New("messages.0: differs from what an earlier request of this conversation said there, and is no summary of it")
		}
	}
	if n := len(c.stretches); n > 0 || r.Turn() > 0 {
		base, ok := c.baseOf(r, elsewhere)
		switch {
		case !ok && n > 0:
			return nil, errors.New("messages.1: the answers behind a summary are not answers of this conversation, one after the other")
		case n == 0 && base > 0 && !elsewhere.summarized(r.FirstText()):
			base = 0 // it lacks answers, and says nothing for them
		}
		st.base = base
	}
	if n := len(c.stretches); n > 0 {
		st.history = append([]string{begin}, c.stretches[n-1].behind(st.base)...)
	}
	return st, nil
}

// goesOn reports whether the first answer of a request is one that the stretch
// begins with: summaries may have the same words.
func (c *conversation) goesOn(st *stretch, r Request) bool {
	i := slices.IndexFunc(r.Messages, func(m Message) bool { return m.Role == "assistant" })
	return i < 0 || len(c.stretches) == 1 || c.wasGiven(st.base, r.Messages[i])
}

// behind are the messages from the answer on that was given at a place.
func (st *stretch) behind(place int) []string {
	at := st.base
	for i, d := range st.history {
		if strings.HasPrefix(d, "assistant ") {
			if at == place {
				return st.history[i:]
			}
			at++
		}
	}
	return nil
}

// baseOf finds where in the conversation the answers of a request were given.
func (c *conversation) baseOf(r Request, elsewhere others) (base int, ok bool) {
	if r.Turn() == 0 {
		for place := range c.given {
			base = max(base, place+1)
		}
		return base, true
	}
	for base := range 1000 {
		place, all := base, true
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				given, _ := elsewhere.gave(place, m)
				all = all && (given || c.wasGiven(place, m))
				place++
			}
		}
		if all {
			return base, true
		}
	}
	return 0, false
}

func (c *conversation) wasGiven(place int, m Message) bool {
	got := blockDigests(m.Blocks)
	return slices.ContainsFunc(c.given[place], func(given []string) bool { return slices.Equal(given, got) })
}

// gave remembers an answer before it is sent: the caller may have read it even
// when the connection broke.
func (c *conversation) gave(place int, blocks []Block, stopReason string) {
	m := Message{Role: "assistant", Blocks: blocks}
	if stopReason == "pause_turn" {
		if c.paused == nil {
			c.paused = map[string]bool{}
		}
		c.paused[messageDigest(m)] = true
	}
	if !c.wasGiven(place, m) {
		if c.given == nil {
			c.given = map[int][][]string{}
		}
		c.given[place] = append(c.given[place], blockDigests(blocks))
	}
}

// decodeBlocks reads blocks of the server's own.
func decodeBlocks(raw []json.RawMessage) []Block {
	blocks := make([]Block, len(raw))
	for i, b := range raw {
		if err := json.Unmarshal(b, &blocks[i]); err != nil {
			panic(fmt.Sprintf("scriptmodel: own block %s: %v", b, err))
		}
		blocks[i].Raw = b
	}
	return blocks
}

func blockDigests(blocks []Block) []string {
	out := []string{}
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			continue // given, and not to be sent back
		}
		out = append(out, digest(meaning(b)))
	}
	return out
}

// messageDigest names a message's meaning.
func messageDigest(m Message) string {
	return m.Role + " " + fmt.Sprint(blockDigests(m.Blocks))
}

// meaning is what a block says, without members that may come and go: a
// cache_control marker moves between requests, and a client that puts a stream
// together adds empty ones.
func meaning(b Block) json.RawMessage {
	switch b.Type {
	case "text":
		return encode([]any{b.Type, b.Text})
	case "tool_use":
		input := b.Input
		if in := bytes.TrimSpace(input); len(in) == 0 || in[0] != '{' || !json.Valid(in) {
			input = json.RawMessage("{}") // given, and only taken back as an object
		}
		return encode([]any{b.Type, b.ID, takenName(b.Name), input})
	case "thinking":
		return encode([]any{b.Type, b.Thinking, b.Signature})
	case "tool_result":
		content := b.Content
		if len(content) == 0 {
			content = json.RawMessage("null")
		}
		return encode([]any{b.Type, b.ToolUseID, b.IsError, content})
	}
	return b.Raw
}

// takenName is how a name that was given comes back: one that no tool can have is
// refused in a history, so it must be another then.
func takenName(name string) string {
	name = badInName.ReplaceAllString(name, "_")
	if name = name[:min(len(name), 64)]; name == "" {
		return "_"
	}
	return name
}

// digest hashes the canonical form of a JSON value; what has none is hashed as
// it is.
func digest(raw json.RawMessage) string {
	b := []byte(raw)
	if c, err := events.Canonical(raw); err == nil {
		b = c
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
